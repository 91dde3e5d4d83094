"""What an index holds of a file; kept in the index's own state, committed together with the pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from vsplade.errors import IndexFormatError, InputError
from vsplade.pages import page_id
from vsplade.store.page_writer import PageWriter
from vsplade.store.state import FILE_RECORDS, State
from vsplade.types import Json, Metadata

OWN_KEYS = ("path", "doc_id", "page_num", "pages", "width", "height", "hash")
"""Metadata that every page gets; a user's own keys must be others."""
PROBLEM = "problem:"
"""Before a path: what could not be read of that file at the last try, kept in the index's state."""
CHANGED = ""
"""Instead of a hash: the file changed while it was read, so the next run reads it again."""
_MOST_PAGES = 1 << 31


@dataclass(slots=True)
class FileRecord:
    """What the index holds of one file."""

    doc_id: str
    hash: str
    pages: int
    done: set[int] = field(default_factory=set)
    metadata: dict[str, Json] = field(default_factory=dict)
    size: int | None = None
    """In bytes; None in records of before."""

    def ids(self, path: str) -> list[str]:
        return [page_id(path, self.doc_id, number, self.pages) for number in sorted(self.done)]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"done": _to_ranges(self.done)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> FileRecord:
        """Raises ValueError where the value is no record: an index may come from anybody."""
        doc_id, digest, pages = value.get("doc_id"), value.get("hash"), value.get("pages")
        metadata, size, spans = value.get("metadata"), value.get("size"), value.get("done")
        if (
            not (isinstance(doc_id, str) and isinstance(digest, str) and isinstance(metadata, dict))
            or not (type(pages) is int and 0 <= pages < _MOST_PAGES)
            or not (size is None or type(size) is int)
            or not isinstance(spans, list)
        ):
            raise ValueError("not a record")
        return cls(doc_id, digest, pages, _from_ranges(spans, pages), metadata, size)


def _to_ranges(numbers: Iterable[int]) -> list[list[int]]:
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def _from_ranges(spans: list[Any], pages: int) -> set[int]:
    numbers: set[int] = set()
    for span in spans:
        if not (isinstance(span, list) and len(span) == 2 and all(type(number) is int for number in span)):
            raise ValueError("not a list of page ranges")
        if not 1 <= span[0] <= span[1] <= pages:
            raise ValueError("not pages of the file")
        numbers.update(range(span[0], span[1] + 1))
    return numbers


def own_metadata(given: Metadata) -> dict[str, Json]:
    """A user's own values for a page; the index's keys are taken."""
    taken = sorted(set(given) & set(OWN_KEYS))
    if taken:
        raise InputError(f"The metadata key {taken[0]!r} is taken: every page has {', '.join(OWN_KEYS)}.")
    return dict(given)


def read_records(writer: PageWriter) -> dict[str, FileRecord]:
    """By path."""
    try:
        return parse_records(writer.state(FILE_RECORDS))
    except ValueError as error:
        raise IndexFormatError(
            f"{writer.where}: what this index records of a file cannot be read ({error}). Run `vsplade "
            f"index --recover --index {writer.where}`."
        ) from error


def parse_records(state: State) -> dict[str, FileRecord]:
    return {
        key.removeprefix(FILE_RECORDS): FileRecord.from_json(value)
        for key, value in state.items()
        if key.startswith(FILE_RECORDS) and isinstance(value, dict)
    }


def write_record(writer: PageWriter, path: str, record: FileRecord | None) -> None:
    """None: the index holds nothing of the file any more."""
    writer.set_state(FILE_RECORDS + path, None if record is None else record.to_json())
