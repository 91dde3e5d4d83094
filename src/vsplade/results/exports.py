"""Vectors out of an index and back: Anserini's JsonVectorCollection, Seismic's jsonl, and (out only) CIFF.

Anserini and CIFF take whole numbers: weights are multiplied by ``scale`` and rounded, at least to 1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from vsplade.errors import InputError
from vsplade.index.storage import write_durably
from vsplade.types import SparseVector, Vocabulary

FORMATS = ("anserini", "seismic", "ciff")
IMPORTS = ("anserini", "seismic")
SCALE = 100.0


class VectorSource(Protocol):
    """What is exported: ``Index`` is one."""

    @property
    def pages(self) -> int: ...

    def vectors(self) -> Iterator[tuple[str, SparseVector]]: ...


def export_vectors(
    source: VectorSource, vocabulary: Vocabulary, path: Path, format: str, scale: float = SCALE
) -> int:
    """Write every live page of ``source`` to the file ``path``; returns the number of pages."""
    _check(format, FORMATS, scale)
    if format == "ciff":
        from vsplade.results.ciff import ciff_chunks

        write_durably(path, ciff_chunks(source, vocabulary, scale))
    else:
        write_durably(path, _json_lines(source, vocabulary, format, scale))
    return source.pages


def _check(format: str, known: tuple[str, ...], scale: float) -> None:
    if format not in known:
        raise InputError(f"unknown format {format!r}; use one of {', '.join(known)}.")
    if not (math.isfinite(scale) and scale > 0):
        raise InputError(f"the scale is {scale}; it must be a positive number.")


def _json_lines(source: VectorSource, vocabulary: Vocabulary, format: str, scale: float) -> Iterator[bytes]:
    text_key = "contents" if format == "anserini" else "content"
    for page_id, vector in source.vectors():
        pairs = zip(vector.terms.tolist(), vector.weights.tolist(), strict=True)
        weights: dict[str, float] = {}
        for term, weight in pairs:
            weights[vocabulary.token(term)] = (
                max(1, round(weight * scale)) if format == "anserini" else weight
            )
        line = json.dumps(
            {"id": page_id, text_key: "", "vector": weights}
        )  # ASCII: whatever the id is made of
        yield line.encode() + b"\n"


def read_vectors(
    path: Path, vocabulary: Vocabulary, format: str, scale: float = SCALE
) -> Iterator[tuple[str, SparseVector]]:
    """Ids and vectors from a file, or from all .json and .jsonl files of a folder. Every token must be in the
    vocabulary: an import that drops words would search worse without saying so."""
    _check(format, IMPORTS, scale)
    terms = {vocabulary.token(term): term for term in range(len(vocabulary))}
    divisor = scale if format == "anserini" else 1.0
    first_seen: dict[str, str] = {}
    for file in _files(path):
        with open(file, "rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    where = f"{file}:{number}"
                    page_id, vector = _parse(where, line, terms, divisor)
                    if page_id in first_seen:
                        raise InputError(
                            f"{where}: the id {page_id!r} was used before, in {first_seen[page_id]}."
                        )
                    first_seen[page_id] = where
                    yield page_id, vector


def _files(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        if not path.is_file():
            raise InputError(f"{path}: there is no such file or folder.")
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in (".json", ".jsonl"))
    if not found:
        raise InputError(f"{path}: this folder has no .json or .jsonl files.")
    return found


def _parse(where: str, line: bytes, terms: dict[str, int], divisor: float) -> tuple[str, SparseVector]:
    try:
        record = json.loads(line)
        page_id, vector = record["id"], record["vector"]
        items = vector.items()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f'{where}: this line is not {{"id": ..., "vector": {{token: weight}}}}.') from error
    weights: dict[int, float] = {}
    for token, weight in items:
        if token not in terms:
            raise InputError(
                f"{where}: the token {token!r} is not in the vocabulary of this index's encoder. Vectors can "
                "be imported only into an index of the encoder that made them."
            )
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
            raise InputError(f"{where}: the weight of {token!r} is {weight!r}, not a number.")
        if weight < 0:
            raise InputError(f"{where}: the weight of {token!r} is {weight!r}; weights cannot be negative.")
        weights[terms[token]] = weight / divisor
    return str(page_id), SparseVector.from_dict(weights)
