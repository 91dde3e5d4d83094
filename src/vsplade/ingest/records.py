"""What an index holds of a file; kept in the index's own state, committed together with the pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from vsplade.index.writer import IndexWriter
from vsplade.pages import page_id
from vsplade.types import Json

_PREFIX = "file:"


@dataclass(slots=True)
class FileRecord:
    """What the index holds of one file."""

    doc_id: str
    hash: str
    pages: int
    done: set[int] = field(default_factory=set)
    metadata: dict[str, Json] = field(default_factory=dict)

    def ids(self, path: str) -> list[str]:
        return [page_id(path, self.doc_id, number, self.pages) for number in sorted(self.done)]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"done": _to_ranges(self.done)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> FileRecord:
        done = {number for first, last in value["done"] for number in range(first, last + 1)}
        return cls(value["doc_id"], value["hash"], value["pages"], done, value["metadata"])


def _to_ranges(numbers: Iterable[int]) -> list[list[int]]:
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def read_records(writer: IndexWriter) -> dict[str, FileRecord]:
    """By path."""
    return {
        key.removeprefix(_PREFIX): FileRecord.from_json(value)
        for key, value in writer.state(_PREFIX).items()
        if isinstance(value, dict)
    }


def write_record(writer: IndexWriter, path: str, record: FileRecord | None) -> None:
    """None: the index holds nothing of the file any more."""
    writer.set_state(_PREFIX + path, None if record is None else record.to_json())
