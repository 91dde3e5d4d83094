"""A segment: at most 65,536 pages, written once and never changed. Deletions live beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsplade.store.array_file import Array, Container, write_container
from vsplade.store.columns import Column, build_columns, read_column, read_row
from vsplade.store.durable import damaged, from_bytes, to_bytes
from vsplade.store.layout import FULL, check_layout
from vsplade.store.manifest import Manifest
from vsplade.store.meaning_windows import StoredWindows, read_windows, window_arrays
from vsplade.store.postings import WEIGHTS, Inverted, invert
from vsplade.types import Json, SparseVector, Windows


@dataclass(frozen=True, slots=True)
class StoredPage:
    """Everything an index keeps of one page."""

    id: str
    vector: SparseVector
    metadata: dict[str, Json]
    thumbnail: bytes = b""


def hash_id(page_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(to_bytes(page_id), digest_size=8).digest(), "little")


def write_segment(path: Path, pages: Sequence[StoredPage], index: Manifest) -> int:
    """Write ``pages`` in their order as one segment file of an index; returns its size in bytes."""
    vocabulary = index.vocabulary
    vectors = [page.vector for page in pages]
    starts = _starts([len(vector) for vector in vectors])
    joined = np.concatenate([vector.terms for vector in vectors])
    full_terms = joined.astype(np.uint16) if vocabulary <= 1 << 16 else joined
    weights = np.concatenate([vector.weights for vector in vectors])
    arrays = invert(starts, full_terms, weights, vocabulary).arrays(FULL)
    arrays |= {"forward.starts": starts, "forward.terms": full_terms, "forward.weights": weights}
    hashes = np.array([hash_id(page.id) for page in pages], dtype=np.uint64)
    by_hash = np.argsort(hashes, kind="stable")
    arrays |= {"hash.values": hashes[by_hash], "hash.pages": by_hash.astype(np.uint16)}
    arrays |= _texts("id", [to_bytes(page.id) for page in pages])
    rows = [to_bytes(json.dumps(page.metadata, ensure_ascii=False, separators=(",", ":"))) for page in pages]
    arrays |= _texts("metadata", rows)
    arrays |= _texts("thumbnail", [page.thumbnail for page in pages])
    arrays |= window_arrays([_windows(page.vector) for page in pages])
    keys, columns = build_columns([page.metadata for page in pages])
    header = {
        "pages": len(pages),
        "postings": int(starts[-1]),
        "vocabulary": vocabulary,
        "encoder": index.encoder,
        "fingerprint": index.fingerprint,
        "columns": keys,
    }
    return write_container(path, header, arrays | columns)


def _windows(vector: SparseVector) -> Windows | None:
    return vector.meaning if isinstance(vector.meaning, Windows) else None


def _starts(lengths: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint64]:
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.uint64))).astype(np.uint64)


def _texts(name: str, texts: list[bytes]) -> dict[str, Array]:
    return {
        f"{name}.starts": _starts([len(text) for text in texts]),
        f"{name}.bytes": np.frombuffer(b"".join(texts), dtype=np.uint8),
    }


class Segment:
    """A reader of one segment file. Arrays are views of the memory map."""

    def __init__(self, path: Path) -> None:
        self.container = Container(path)
        check_layout(self.container)
        header = self.container.header
        self.pages: int = header["pages"]
        self.postings: int = header["postings"]
        self.vocabulary: int = header["vocabulary"]
        self._columns: dict[str, Column | None] = {}
        self._texts: dict[str, tuple[Array, memoryview]] = {}

    def expect_random_reads(self, random: bool = True) -> None:
        """Of everything behind the searchable structures, which stand first in the file."""
        self.container.expect_random_reads("forward.starts", random)

    @cached_property
    def full(self) -> Inverted:
        return Inverted.stored(self.container, FULL)

    @cached_property
    def starts(self) -> NDArray[np.uint64]:
        return self.container["forward.starts"]

    @cached_property
    def terms(self) -> Array:
        return self.container["forward.terms"]

    @cached_property
    def weights(self) -> NDArray[np.float32]:
        return self.container["forward.weights"]

    def vector(self, page: int) -> SparseVector:
        """A page's vector, checked: a large segment is not verified when it is opened."""
        found = self._vector(page)
        terms, weights = found.terms, found.weights
        if len(terms) and not (
            (terms[1:] > terms[:-1]).all()
            and terms[-1] < self.vocabulary
            and weights.min() >= WEIGHTS[0]
            and weights.max() <= WEIGHTS[1]
        ):
            raise damaged(self.container.path, f"the vector of its page {page} cannot be")
        return found

    def _vector(self, page: int) -> SparseVector:
        start, end = int(self.starts[page]), int(self.starts[page + 1])
        meaning = self.windows.of_page(page) if self.windows else None
        return SparseVector(self.terms[start:end].astype(np.uint32), self.weights[start:end], meaning)

    @cached_property
    def windows(self) -> StoredWindows | None:
        """What its pages are about, where that is known."""
        return read_windows(self.container)

    def texts(self, name: str) -> tuple[Array, memoryview]:
        """(starts, bytes): text i is bytes[starts[i]:starts[i + 1]]."""
        if name not in self._texts:
            self._texts[name] = (self.container[f"{name}.starts"], self.container[f"{name}.bytes"].data)
        return self._texts[name]

    def _text(self, name: str, page: int) -> bytes:
        starts, texts = self.texts(name)
        return texts[starts.item(page) : starts.item(page + 1)].tobytes()

    def id(self, page: int) -> str:
        try:
            return from_bytes(self._text("id", page))
        except UnicodeDecodeError as error:
            raise damaged(self.container.path, f"the id of its page {page} is not text") from error

    def metadata(self, page: int) -> dict[str, Json]:
        try:
            return read_row(self._text("metadata", page))
        except (ValueError, RecursionError) as error:
            raise damaged(
                self.container.path, f"the metadata of its page {page} cannot be read ({error})"
            ) from error

    def thumbnail(self, page: int) -> bytes:
        return self._text("thumbnail", page)

    @property
    def column_keys(self) -> list[str]:
        keys: list[str] = self.container.header["columns"]
        return keys

    def column(self, key: str) -> Column | None:
        if key not in self._columns:
            self._columns[key] = read_column(self.container, key)
        return self._columns[key]

    def stored(self, page: int) -> StoredPage:
        """All of a page; of a segment that was verified."""
        return StoredPage(self.id(page), self._vector(page), self.metadata(page), self.thumbnail(page))

    def find(self, ids: Sequence[str], hashes: NDArray[np.uint64]) -> Iterator[tuple[int, int]]:
        """(position in ``ids``, page) for each of ``ids`` that is in this segment, deleted or not."""
        values = self.container["hash.values"]
        found = np.searchsorted(values, hashes)
        for position in np.flatnonzero(values[np.minimum(found, len(values) - 1)] == hashes).tolist():
            place = int(found[position])
            while place < len(values) and values[place] == hashes[position]:
                page = int(self.container["hash.pages"][place])
                if self.id(page) == ids[position]:
                    yield position, page
                place += 1
