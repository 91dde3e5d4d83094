"""Vectors out of an index and back: Anserini's JsonVectorCollection, Seismic's jsonl, and (out only) CIFF.

Anserini and CIFF take whole numbers: weights are multiplied by ``scale`` and rounded, at least to 1. A page's
metadata (its path and number among them) stand under a key of their own, which other readers pass over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vsplade.errors import InputError
from vsplade.exchange import FORMATS, IMPORTS
from vsplade.store.columns import check_metadata
from vsplade.store.durable import write_output
from vsplade.store.postings import WEIGHTS
from vsplade.types import Json, Metadata, SparseVector, Vocabulary

SCALE = 100.0
_TEXT_KEYS = {"anserini": "contents", "seismic": "content"}
"""The key that tells the two forms apart."""
_METADATA = "metadata"


class VectorSource(Protocol):
    """What is exported: ``Index`` is one."""

    @property
    def pages(self) -> int: ...

    def vectors(self) -> Iterator[tuple[str, SparseVector]]: ...

    def pages_with_metadata(self) -> Iterator[tuple[str, SparseVector, Metadata]]: ...


def export_vectors(
    source: VectorSource, vocabulary: Vocabulary, path: Path, format: str, scale: float = SCALE
) -> int:
    """Write every live page of ``source`` to the file ``path``; returns the number of pages."""
    _check(format, FORMATS, scale)
    if format == "ciff":
        from vsplade.exchange.ciff import ciff_chunks

        write_output(path, ciff_chunks(source, vocabulary, scale))
    else:
        write_output(path, _json_lines(source, vocabulary, format, scale))
    return source.pages


def _check(format: str, known: tuple[str, ...], scale: float) -> None:
    if format not in known:
        raise InputError(f"unknown format {format!r}; use one of {', '.join(known)}.")
    if not (math.isfinite(scale) and scale > 0):
        raise InputError(f"the scale is {scale}; it must be a positive number.")


def _json_lines(source: VectorSource, vocabulary: Vocabulary, format: str, scale: float) -> Iterator[bytes]:
    for page_id, vector, metadata in source.pages_with_metadata():
        pairs = zip(vector.terms.tolist(), vector.weights.tolist(), strict=True)
        weights: dict[str, float] = {}
        for term, weight in pairs:
            weights[vocabulary.token(term)] = (
                max(1, round(weight * scale)) if format == "anserini" else weight
            )
        record: dict[str, object] = {"id": page_id, _TEXT_KEYS[format]: "", "vector": weights}
        if metadata:
            record[_METADATA] = dict(metadata)
        yield json.dumps(record).encode() + b"\n"  # ASCII: whatever the id is made of


@dataclass(frozen=True, slots=True)
class ImportedPage:
    id: str
    vector: SparseVector
    metadata: dict[str, Json]


def read_pages(
    path: Path, vocabulary: Vocabulary, format: str, scale: float = SCALE
) -> Iterator[ImportedPage]:
    """Pages from a file, or from all .json and .jsonl files of a folder. Every token must be in the
    vocabulary: an import that drops words would search worse without saying so."""
    _check(format, IMPORTS, scale)
    reader = _LineReader(vocabulary, format, scale)
    first_seen: dict[str, str] = {}
    for file in _files(path):
        with open(file, "rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    where = f"{file}:{number}"
                    page = reader.parse(where, line)
                    if page.id in first_seen:
                        raise InputError(
                            f"{where}: the id {page.id!r} was used before, in {first_seen[page.id]}."
                        )
                    first_seen[page.id] = where
                    yield page


def _files(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        if not path.is_file():
            raise InputError(f"{path}: there is no such file or folder.")
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in (".json", ".jsonl"))
    if not found:
        raise InputError(f"{path}: this folder has no .json or .jsonl files.")
    return found


class _LineReader:
    """Turns lines into pages; a line of the other format is refused: its weights mean something else."""

    def __init__(self, vocabulary: Vocabulary, format: str, scale: float) -> None:
        self._terms = {vocabulary.token(term): term for term in range(len(vocabulary))}
        self._format = format
        self._divisor = scale if format == "anserini" else 1.0

    def parse(self, where: str, line: bytes) -> ImportedPage:
        try:
            record = json.loads(line)
            page_id, vector = record["id"], record["vector"]
            items = list(vector.items())
            metadata = dict(record.get(_METADATA) or {})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f'{where}: this line is not {{"id": ..., "vector": {{token: weight}}}}.'
            ) from error
        if not isinstance(page_id, str | int) or not str(page_id):
            raise InputError(f"{where}: the id {ascii(page_id)[:60]} is not a text.")
        for token, weight in items:
            self._check_weight(where, token, weight)
        self._check_form(where, record, [weight for _, weight in items])
        weights = {self._terms[token]: weight / self._divisor for token, weight in items}
        for (token, given), weight in zip(items, weights.values(), strict=True):
            if weight and not WEIGHTS[0] <= weight <= WEIGHTS[1]:
                raise InputError(
                    f"{where}: the weight of {token!r} is {given!r}; weights must lie between "
                    f"{WEIGHTS[0]} and {WEIGHTS[1]}."
                )
        try:
            kept = check_metadata(str(page_id), metadata)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        return ImportedPage(str(page_id), SparseVector.from_dict(weights), kept)

    def _check_weight(self, where: str, token: str, weight: object) -> None:
        if token not in self._terms:
            raise InputError(
                f"{where}: the token {token!r} is not in the vocabulary of this index's encoder. Vectors can "
                "be imported only into an index of the encoder that made them."
            )
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise InputError(f"{where}: the weight of {token!r} is {weight!r}, not a number.")
        if isinstance(weight, int) and abs(weight) > 1 << 64:
            raise InputError(f"{where}: the weight of {token!r} has too many digits to be a weight.")
        if not math.isfinite(weight):
            raise InputError(f"{where}: the weight of {token!r} is {weight!r}, not a number.")
        if weight < 0:
            raise InputError(f"{where}: the weight of {token!r} is {weight!r}; weights cannot be negative.")

    def _check_form(self, where: str, record: dict[str, object], weights: list[float]) -> None:
        """Which engine a line is for: its text's key says so, else whether all weights are whole numbers."""
        found = [format for format, key in _TEXT_KEYS.items() if key in record]
        if len(found) == 1:
            form = found[0]
        elif weights:
            form = "anserini" if all(isinstance(weight, int) for weight in weights) else "seismic"
        else:
            return
        if form == "anserini" and any(weight != int(weight) for weight in weights):
            form = "seismic"
        if form != self._format:
            hint = " (with --scale 1, if its whole numbers are to be taken as they are)"
            raise InputError(
                f"{where}: this line has the form of {form.capitalize()}, not of {self._format.capitalize()}"
                f": its weights would be wrong. Use --format {form}{hint if form == 'anserini' else ''}."
            )
