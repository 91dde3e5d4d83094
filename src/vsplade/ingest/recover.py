"""Get back what can be trusted of an index that lost its manifest, or of which files are damaged.

Segments that verify are kept, all others are set aside (renamed, never removed). What the index recorded of
its source files says which pages are missing; these records are corrected, so that the next ``vsplade index``
reads exactly those pages again. One new manifest, stored at the end, makes all of it true at once.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vsplade.errors import IndexFormatError, InputError, StorageError, VspladeError
from vsplade.ingest.records import CHANGED, FileRecord, parse_records
from vsplade.ingest.salvage import FoundSegment, decide_live, encoder_of, pages_present, source_files
from vsplade.store import file_names, verify
from vsplade.store import manifest as manifests
from vsplade.store.durable import WriterLock, read_plain, write_durably
from vsplade.store.identity import EncoderIdentity
from vsplade.store.manifest import Manifest, SegmentEntry
from vsplade.store.segment import Segment
from vsplade.store.snapshot import open_segment, segment_problems
from vsplade.store.state import FILE_RECORDS, MOST_STATE_BYTES, State, parse_state, write_changes
from vsplade.store.tombstones import MOST_BYTES, pack_tombstones, read_live, unpack_tombstones

_NAMED_SEGMENT = re.compile(rb"segment-[0-9]{8,15}\.vsp\Z")


@dataclass(slots=True)
class Recovery:
    """What ``recover`` did."""

    needed: bool = True
    """False: the index was sound, and nothing was changed."""
    pages: int = 0
    """That can be searched now."""
    files: list[str] = field(default_factory=list)
    """Source files that these pages are of, where they say so."""
    segments: int = 0
    set_aside: list[str] = field(default_factory=list)
    """Files that could not be trusted, under their new names."""
    missing: int = 0
    """Pages that the index knows of but no longer has."""
    read_again: list[str] = field(default_factory=list)
    """The files of the missing pages: ``vsplade index`` reads these pages again."""
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def recover(index_dir: str | Path, encoder: EncoderIdentity | None = None) -> Recovery:
    """``encoder`` is needed only where the segments do not say whose they are (before format 2)."""
    folder = Path(index_dir)
    if not folder.is_dir() or not (manifests.exists(folder) or file_names.own_files(folder, "segment")):
        raise InputError(f"{folder}: there is nothing of an index here to recover.")
    with WriterLock(folder):
        try:
            return _Recovery(folder, encoder).run()
        except OSError as error:
            raise StorageError(
                f"{error.filename or folder}: could not be read or renamed ({error.strerror})."
            ) from error


class _Recovery:
    def __init__(self, folder: Path, encoder: EncoderIdentity | None) -> None:
        self._folder = folder
        self._encoder = encoder
        self._report = Recovery()
        self._manifest: Manifest | None = None
        self._certain = True
        """Whether it is known which pages are deleted."""
        self._held: set[tuple[str, int]] | None = set()
        """(path, page number) of the live pages of damaged segments; None where one does not tell."""

    def run(self) -> Recovery:
        try:
            self._manifest = manifests.load(self._folder)
        except IndexFormatError as error:
            self._note(str(error).partition(". ")[0])
            if manifests.exists(self._folder):
                self._set_aside(self._folder / manifests.NAME)
        if self._manifest is not None and not verify.check(self._folder):
            return Recovery(
                needed=False, pages=_live_pages(self._manifest), segments=len(self._manifest.segments)
            )
        found = self._of_one_index(self._find_segments())
        state = self._read_state()
        records = self._parse_records(state)
        if not self._certain:
            decide_live(found, records)
        self._correct(records, found, state)
        self._store(found, state)
        return self._report

    # -- what is there -----------------------------------------------------------------------------------

    def _find_segments(self) -> list[FoundSegment]:
        if self._manifest is not None:
            opened = [self._open_entry(entry, self._manifest) for entry in self._manifest.segments]
            return [one for one in opened if one is not None]
        self._certain = False
        found = []
        for path in file_names.own_files(self._folder, "segment"):
            segment = self._verified(path, None)
            if segment is not None:
                found.append(FoundSegment(segment, np.zeros(segment.pages, dtype=bool)))
        self._match_tombstones(found)
        return found

    def _open_entry(self, entry: SegmentEntry, manifest: Manifest) -> FoundSegment | None:
        segment = self._verified(self._folder / entry.file, entry)
        try:
            live = read_live(self._folder, entry)
        except (VspladeError, FileNotFoundError):
            live, self._certain = None, False
            self._note(f"{entry.tombstones}: which pages were deleted is no longer known; some may be back")
            self._set_aside(self._folder / str(entry.tombstones))
        deleted = np.zeros(entry.pages, dtype=bool) if live is None else ~live
        if segment is not None:
            return FoundSegment(segment, deleted)
        return None

    def _verified(self, path: Path, entry: SegmentEntry | None) -> Segment | None:
        try:
            segment = (
                open_segment(self._folder, entry, self._manifest)
                if entry and self._manifest
                else Segment(path)
            )
            problem = next(segment_problems(segment), None)
        except FileNotFoundError:
            problem, segment = "is missing", None
        except VspladeError as error:
            problem, segment = str(error).partition(": ")[2].partition(". ")[0], None
        if problem is None:
            return segment
        self._ask_damaged(path, entry)
        self._note(f"{path.name}: {problem}")
        self._set_aside(path)
        return None

    def _ask_damaged(self, path: Path, entry: SegmentEntry | None) -> None:
        """Which pages a damaged segment held, if the parts that say so are whole."""
        try:
            segment = Segment(path)
            container = segment.container
            whole = container.is_whole("metadata.starts") and container.is_whole("metadata.bytes")
            live = read_live(self._folder, entry) if entry else None
        except (VspladeError, OSError):
            whole = False
        if not whole or self._held is None:
            self._held = None
            return
        unnamed = 0
        for page in range(segment.pages) if live is None else np.flatnonzero(live).tolist():
            metadata = segment.metadata(page)
            source, number = metadata.get("path"), metadata.get("page_num")
            if isinstance(source, str) and isinstance(number, int) and "hash" in metadata:
                self._held.add((source, number))
            else:
                unnamed += 1
        if unnamed:
            self._note(
                f"{path.name}: held {unnamed} pages without a source file (imported, or added by a program)"
            )

    def _match_tombstones(self, found: list[FoundSegment]) -> None:
        """The newest tombstones of each segment. Those of before format 2 do not say whose they are."""
        by_name = {one.name: one for one in found}
        named: set[str] = set()
        for path in file_names.own_files(self._folder, "deleted"):
            if path.stat().st_size > MOST_BYTES:
                self._note(f"{path.name}: is too large to say which pages are deleted")
                continue
            body = read_plain(path, MOST_BYTES)
            match = _NAMED_SEGMENT.search(body)
            fitting = [by_name[match[0].decode()]] if match and match[0].decode() in by_name else []
            if match is None:
                fitting = [
                    one for one in found if len(body) == -(-one.segment.pages // 8) and one.name not in named
                ]
            unpacked = [unpack_tombstones(body, one.segment.pages) for one in fitting]
            if len(fitting) == 1 and unpacked[0] is not None:
                fitting[0].deleted = unpacked[0][0]
                named |= {fitting[0].name} if match else set()
            elif match is None:
                self._note(
                    f"{path.name}: it is not known of which segment these deleted pages are; some may be back"
                )

    def _of_one_index(self, found: list[FoundSegment]) -> list[FoundSegment]:
        """Segments of another index or encoder do not belong here: those like the newest one do."""
        if self._manifest is not None or not found:
            return found
        newest = encoder_of(found[-1].segment)
        for one in found:
            if encoder_of(one.segment) != newest:
                self._note(f"{one.name}: is of another encoder than the newest segment")
                self._set_aside(one.segment.container.path)
        return [one for one in found if encoder_of(one.segment) == newest]

    # -- what was recorded -------------------------------------------------------------------------------

    def _read_state(self) -> State:
        state: State = {}
        entries = {entry.file: entry for entry in self._manifest.state} if self._manifest else {}
        listed = list(entries) or [path.name for path in file_names.own_files(self._folder, "state")]
        for name in listed if self._manifest is None or entries else []:
            path = self._folder / name
            try:
                body = read_plain(path, MOST_STATE_BYTES)
                if name in entries and zlib.crc32(body) != entries[name].crc32:
                    raise IndexFormatError(f"{path}: it fails its checksum.")
                state.update(parse_state(path, body))
            except (VspladeError, FileNotFoundError):
                self._note(f"{name}: what was recorded of some source files is lost; they will be read again")
                self._set_aside(path)
        return {key: value for key, value in state.items() if value is not None}

    def _parse_records(self, state: State) -> dict[str, FileRecord]:
        records: dict[str, FileRecord] = {}
        for key, value in list(state.items()):
            try:
                records |= parse_records({key: value})
            except ValueError:
                del state[key]
                self._note(f"{ascii(key)[1:-1]}: this record cannot be read; the file will be read again")
        return records

    def _correct(self, records: dict[str, FileRecord], found: list[FoundSegment], state: State) -> None:
        """Take what is missing out of the records, so that the next run reads it again."""
        present = pages_present(found)
        for path, record in records.items():
            missing = record.done - present.get((path, record.hash), set())
            if record.hash == CHANGED:
                missing = set()  # is read again anyway
            if self._held is not None and self._manifest is not None:
                missing = {number for number in missing if (path, number) in self._held}
            if missing:
                record.done -= missing
                state[FILE_RECORDS + path] = record.to_json()
                self._report.missing += len(missing)
                self._report.read_again.append(path)
        if self._report.missing and (self._held is None or self._manifest is None):
            self._note(
                "pages that had been removed with `vsplade delete` may be among those that are read again"
            )

    # -- the new commit ----------------------------------------------------------------------------------

    def _store(self, found: list[FoundSegment], state: State) -> None:
        base = self._manifest or self._new_manifest(found)
        numbers = file_names.FileNames(
            self._folder, max(base.next_file, file_names.last_number(self._folder) + 1)
        )
        kept = [one for one in found if not one.deleted.all()]
        entries = tuple(self._entry(one, numbers) for one in kept)
        manifest = base.with_changes(
            generation=max(base.generation + 1, numbers.number),
            segments=entries,
            state=(write_changes(numbers.new("state"), state),) if state else (),
        )
        manifests.store(self._folder, manifest.with_changes(next_file=numbers.number))
        self._report.files = source_files(kept)
        self._report.segments = len(entries)
        self._report.pages = _live_pages(manifest)

    def _entry(self, one: FoundSegment, numbers: file_names.FileNames) -> SegmentEntry:
        container = one.segment.container
        count, tombstones, crc32 = int(np.count_nonzero(one.deleted)), None, 0
        if count:
            body = pack_tombstones(one.deleted, one.name)
            path = numbers.new("deleted")
            write_durably(path, [body])
            tombstones, crc32 = path.name, zlib.crc32(body)
        return SegmentEntry(
            one.name, one.segment.pages, container.size, count, tombstones, crc32, container.header_crc32
        )

    def _new_manifest(self, found: list[FoundSegment]) -> Manifest:
        if not found:
            raise IndexFormatError(
                f"{self._folder}: no segment of this index can be trusted ({'; '.join(self._report.notes)}). "
                "Index the files again into a new folder."
            )
        newest = found[-1].segment
        encoder, fingerprint, vocabulary = encoder_of(newest)
        if encoder is None or fingerprint is None:
            if self._encoder is None or self._encoder.terms != vocabulary:
                raise InputError(
                    f"{self._folder}: the segments do not say which encoder made them (it has "
                    f"{vocabulary} terms). Name it with --encoder."
                )
            encoder, fingerprint = self._encoder.name, self._encoder.fingerprint
        return Manifest(encoder, fingerprint, vocabulary)

    def _note(self, text: str) -> None:
        self._report.notes.append(text)

    def _set_aside(self, path: Path) -> None:
        if path.exists() or path.is_symlink():
            self._report.set_aside.append(file_names.set_aside(path).name)


def _live_pages(manifest: Manifest) -> int:
    return sum(entry.pages - entry.deleted for entry in manifest.segments)
