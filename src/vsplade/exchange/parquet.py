"""Pages as rows of Parquet files: id, terms, weights, windows of meaning, metadata, thumbnail, a checksum.

What a page is comes back to the bit. The schema's metadata say which encoder made the vectors; another one's
are refused. docs/scale-out.md describes the columns.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError, MissingExtraError, ModelMismatchError
from vsplade.store.columns import check_metadata
from vsplade.store.identity import EncoderIdentity
from vsplade.store.segment import StoredPage
from vsplade.types import SparseVector, Windows

FORMAT = 1
_KEY = b"vsplade"
_BATCH = 512
"""Rows that are decoded at a time."""


def arrow() -> Any:
    """The module pyarrow, with its Parquet part loaded."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("Parquet", "parquet") from error
    return pyarrow


def schema(identity: EncoderIdentity, rows: int) -> Any:
    """How many rows there are is told once more: a damaged footer may lose some without an error."""
    pa = arrow()
    about = {"format": FORMAT, **identity.to_json(), "rows": rows}
    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("terms", pa.list_(pa.uint32()), nullable=False),
            pa.field("weights", pa.list_(pa.float32()), nullable=False),
            pa.field("meaning_codes", pa.binary()),
            pa.field("meaning_clusters", pa.list_(pa.uint16())),
            pa.field("metadata", pa.string(), nullable=False),
            pa.field("thumbnail", pa.binary()),
            pa.field("checksum", pa.uint32(), nullable=False),
        ],
        metadata={_KEY: json.dumps(about).encode()},
    )


def row_checksum(page: StoredPage, metadata: str) -> int:
    """CRC-32 over all columns, each with its length before it."""
    vector, windows = page.vector, page.vector.meaning
    meaning = (
        [np.ascontiguousarray(windows.codes).tobytes(), windows.clusters.astype("<u2").tobytes()]
        if isinstance(windows, Windows)
        else [b"", b""]
    )
    parts = [
        page.id.encode(),
        vector.terms.astype("<u4").tobytes(),
        vector.weights.astype("<f4").tobytes(),
        *meaning,
        metadata.encode(),
        page.thumbnail,
    ]
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, zlib.crc32(len(part).to_bytes(8, "little"), crc))
    return crc


def write_shard(pages: Sequence[StoredPage], identity: EncoderIdentity) -> bytes:
    """The bytes of a Parquet file with these pages, in their order."""
    pa = arrow()
    for page in pages:
        try:
            page.id.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"page {page.id!r}: this id is not valid Unicode, as Parquet wants it."
            ) from error
    texts = [json.dumps(page.metadata, separators=(",", ":")) for page in pages]  # ASCII, whatever it holds
    windows = [page.vector.meaning if isinstance(page.vector.meaning, Windows) else None for page in pages]
    vectors = [page.vector for page in pages]
    starts = np.concatenate([[0], np.cumsum([len(vector) for vector in vectors])]).astype(np.int32)
    columns = [
        pa.array([page.id for page in pages], pa.string()),
        _lists(starts, [vector.terms for vector in vectors], np.uint32),
        _lists(starts, [vector.weights for vector in vectors], np.float32),
        pa.array([w and np.ascontiguousarray(w.codes).tobytes() for w in windows], pa.binary()),
        pa.array([w and w.clusters for w in windows], pa.list_(pa.uint16())),
        pa.array(texts, pa.string()),
        pa.array([page.thumbnail or None for page in pages], pa.binary()),
        pa.array([row_checksum(*both) for both in zip(pages, texts, strict=True)], pa.uint32()),
    ]
    table = pa.Table.from_arrays(columns, schema=schema(identity, len(pages)))
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(
        table,
        sink,
        compression="zstd",
        row_group_size=8 * _BATCH,
        use_dictionary=False,
        write_statistics=["id"],
    )
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _lists(starts: NDArray[np.int32], parts: Sequence[NDArray[Any]], kind: type[np.generic]) -> Any:
    pa = arrow()
    joined = np.concatenate([np.zeros(0, kind), *parts]).astype(kind, copy=False)
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pa.array(joined))


class Shard:
    """A reader of one Parquet file. Whatever is wrong with it is an error that names the file."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        pa = arrow()
        self.name = name
        self._errors = (pa.ArrowException, OSError, ValueError, EOFError)
        try:
            self._file = pa.parquet.ParquetFile(file)
            about = json.loads(self._file.schema_arrow.metadata[_KEY])
            self.identity = EncoderIdentity.from_json(about)
            self._length = int(about["rows"])
        except (KeyError, TypeError) as error:
            raise InputError(
                f"{name}: this Parquet file does not say which encoder made it: it is not one of vsplade's."
            ) from error
        except self._errors as error:
            raise self._damaged(str(error)) from error
        if about.get("format") != FORMAT:
            raise InputError(
                f"{name}: written in format {about.get('format')}, this vsplade reads format {FORMAT}. "
                "Install a matching vsplade, or encode the files again."
            )
        wanted = schema(self.identity, self._length)
        if not self._file.schema_arrow.equals(wanted):
            raise self._damaged("its columns are others than those of vsplade")

    def __len__(self) -> int:
        return self._length

    def check(self, identity: EncoderIdentity) -> None:
        if not identity.makes_same_vectors(self.identity):
            raise ModelMismatchError(
                f"{self.name}: its vectors are of the encoder {self.identity.name!r} (fingerprint "
                f"{self.identity.fingerprint}), not of {identity.name!r} (fingerprint "
                f"{identity.fingerprint}). Vectors of two encoders cannot be searched together: use an "
                "index of its own for each."
            )

    def ids(self) -> Iterator[str]:
        """Without reading the vectors."""
        for batch in self._batches(["id"]):
            yield from batch.column("id").to_pylist()

    def pages(self) -> Iterator[StoredPage]:
        """Every row, checked against its checksum."""
        for batch in self._batches(None):
            yield from self._rows(batch)

    def _batches(self, columns: list[str] | None) -> Iterator[Any]:
        found = 0
        try:
            for batch in self._file.iter_batches(batch_size=_BATCH, columns=columns):
                found += len(batch)
                yield batch
        except self._errors as error:
            raise self._damaged(str(error)) from error
        if found != self._length:
            raise self._damaged(f"it has {found:,} rows and should have {self._length:,}")

    def _rows(self, batch: Any) -> Iterator[StoredPage]:
        columns = {name: batch.column(name) for name in batch.schema.names}
        terms, weights = _slices(columns["terms"]), _slices(columns["weights"])
        texts, checksums = columns["metadata"].to_pylist(), columns["checksum"].to_pylist()
        codes, clusters = columns["meaning_codes"].to_pylist(), columns["meaning_clusters"].to_pylist()
        thumbnails = columns["thumbnail"].to_pylist()
        for row, page_id in enumerate(columns["id"].to_pylist()):
            windows = None
            if clusters[row]:
                shape = len(clusters[row]), -1
                if not codes[row] or len(codes[row]) % len(clusters[row]):
                    raise self._damaged(f"the windows of its page {page_id!r} do not fit each other")
                windows = Windows(
                    np.frombuffer(codes[row], np.int8).reshape(shape), np.array(clusters[row], np.uint16)
                )
            try:
                metadata = check_metadata(page_id, json.loads(texts[row]))
            except (ValueError, AttributeError, InputError) as error:
                raise self._damaged(f"the metadata of its page {page_id!r} cannot be read") from error
            vector = SparseVector(terms[row], weights[row], windows)
            page = StoredPage(page_id, vector, metadata, thumbnails[row] or b"")
            if row_checksum(page, texts[row]) != checksums[row]:
                raise self._damaged(f"its page {page_id!r} fails its checksum")
            yield page

    def _damaged(self, reason: str) -> InputError:
        return damaged_shard(self.name, reason)


def damaged_shard(name: str, reason: str) -> InputError:
    return InputError(
        f"{name}: this Parquet file is half-written or damaged: {reason.strip().rstrip('.')}. Nothing of it "
        "was used. Delete it and run the same `vsplade encode` again (only its pages are made anew)."
    )


def _slices(column: Any) -> list[NDArray[Any]]:
    """A list column as one view a row."""
    offsets = column.offsets.to_numpy()
    values = column.values.to_numpy(zero_copy_only=False)
    return [values[start:end] for start, end in pairwise(offsets.tolist())]
