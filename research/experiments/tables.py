"""Rows of the hub's files, whatever they are written in: parquet, jsonl, csv, tsv."""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vsplade.errors import InputError, MissingExtraError
from vsplade.jsonl import read_objects

Row = Mapping[str, Any]


class Located(dict[str, Any]):
    """A row that knows where it stands, for messages. Hyphens in column names become underscores."""

    def __init__(self, row: Row, where: str) -> None:
        super().__init__((str(key).strip().replace("-", "_"), value) for key, value in row.items())
        self.where = where

    def text(self, *names: str) -> str:
        """The first of these columns that is there, as a text."""
        for name in names:
            if self.get(name) is not None:
                return str(self[name]).strip()
        raise InputError(
            f"{self.where}: there is no {' or '.join(map(repr, names))}; the columns are {', '.join(self)}."
        )


def read_rows(path: Path) -> Iterator[Located]:
    """Every row of one file, with its place; rows count from 1, without the header."""
    name = path.name.removesuffix(".gz")
    suffix = Path(name).suffix
    if suffix not in _READERS:
        raise InputError(f"{path} is of a kind that cannot be read; known: {', '.join(SUFFIXES)}.")
    for number, row in enumerate(_READERS[suffix](path), 1):
        yield Located(row, f"{path}, row {number}")


def _parquet(path: Path) -> Iterator[Row]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError("Reading parquet files", "hub") from error
    try:
        file = parquet.ParquetFile(path)
        for batch in file.iter_batches(batch_size=64):  # small: rows may hold pictures
            yield from batch.to_pylist()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged or not a parquet file ({error}).") from error


def _open_text(path: Path) -> Any:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _delimited(delimiter: str) -> Callable[[Path], Iterator[Row]]:
    def read(path: Path) -> Iterator[Row]:
        # A page as base64 is one field of megabytes; the module's limit is 128 kB.
        before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
        try:
            with _open_text(path) as file:
                yield from csv.DictReader(file, delimiter=delimiter)
        finally:
            csv.field_size_limit(before)

    return read


def _json_lines(path: Path) -> Iterator[Row]:
    return (row for _, row in read_objects(path))


_READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".parquet": _parquet,
    ".jsonl": _json_lines,
    ".csv": _delimited(","),
    ".tsv": _delimited("\t"),
}
SUFFIXES = tuple(_READERS)
