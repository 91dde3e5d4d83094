"""Bring an index up to date with files, and survive anything on the way.

The index itself records, in the same commit as the pages, what it holds of each file. So whatever happens
between two commits, the next run knows exactly what is left to do: it skips what is in, renders what is
missing, and tries again what failed.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path

from vsplade.backends.address import Where, is_address
from vsplade.backends.open_writer import open_writer, writing_encoder
from vsplade.encode.keyed import encode_rendered
from vsplade.encode.legibility import is_text_legible
from vsplade.errors import InputError, PageError
from vsplade.ingest.hashing import Content, Hasher
from vsplade.ingest.moves import adopt_moved, find_moved, is_gone
from vsplade.ingest.progress import Estimate, show_progress
from vsplade.ingest.records import CHANGED, PROBLEM, FileRecord, own_metadata, read_records, write_record
from vsplade.ingest.report import IngestReport
from vsplade.pages import (
    Discovery,
    FileProblem,
    Limits,
    PageCounter,
    RenderedPage,
    SourceFile,
    discover,
    name_files,
    render_for,
    usable,
)
from vsplade.store.manifest import JsonValue
from vsplade.store.page_writer import PageWriter
from vsplade.store.verify import warn_of_damage
from vsplade.types import Encoder, Json, Metadata, Page, PageVector, Progress, SparseVector


def index_paths(
    paths: Iterable[str | os.PathLike[str]],
    index_dir: Where,
    encoder: str | Encoder | None = None,
    *,
    prune: bool = False,
    workers: int | None = None,
    limits: Limits | None = None,
    commit_pages: int = 2000,
    commit_seconds: float = 30.0,
    metadata: Metadata | Callable[[str], Metadata] | None = None,
    thumbnails: int = 0,
    progress: bool | Progress = False,
) -> IngestReport:
    """Index files, folders, globs and lists (``-``: standard input) into ``index_dir``, made if missing.

    Unchanged files are skipped by content, changed ones replaced; ``prune`` removes the pages of files that
    no longer exist on disk. ``encoder`` is an encoder or its name; left out, the one that the index was built
    with. A commit is made every ``commit_pages`` pages or ``commit_seconds`` seconds, whichever comes first.
    ``metadata`` is added to every page, or a function of the file's path that returns it; left out, files
    keep the values of earlier runs (``{}`` takes them away). ``thumbnails`` is the longest edge of the
    thumbnails to store (0: none). ``progress`` shows a bar on standard error, or calls back with (done,
    expected). Files that fail are listed in the report and do not stop the run.
    """
    if commit_pages < 1 or not commit_seconds > 0:
        raise InputError("Commits must be at least one page and more than zero seconds apart.")
    started = time.monotonic()
    given = list(paths)
    found = discover(given, exclude=[] if is_address(index_dir) else [index_dir])
    if not found.files and not prune:
        raise InputError(_why_no_files(given, found.problems, index_dir))
    chosen = writing_encoder(index_dir, encoder)
    if not is_address(index_dir):
        warn_of_damage(Path(index_dir))
    with closing(open_writer(index_dir, chosen)) as writer, show_progress(progress) as update:
        job = _Job(writer, chosen, metadata, commit_pages, commit_seconds, update if progress else None)
        job.follow_moves(found.files, limits or Limits())
        missing = job.prune(found.problems) if prune else set()
        job.failures += [problem for problem in found.problems if problem.path not in missing]
        job.run(found.files, limits or Limits(), thumbnails, workers)
    return job.report(found, time.monotonic() - started)


def _why_no_files(
    given: Iterable[str | os.PathLike[str]], problems: list[FileProblem], index_dir: Where
) -> str:
    if problems:
        return f"{problems[0].path} {problems[0].reason}."
    if os.path.realpath(index_dir) in {os.path.realpath(path) for path in given}:
        return f"{index_dir} is both to be indexed and to hold the index. Give the index a folder of its own."
    return "There are no pages in the paths given."


class _Job:
    """One run. The plan is made in the renderer's threads, everything else in the caller's."""

    def __init__(
        self,
        writer: PageWriter,
        encoder: Encoder,
        metadata: Metadata | Callable[[str], Metadata] | None,
        commit_pages: int,
        commit_seconds: float,
        progress: Progress | None,
    ) -> None:
        self._writer = writer
        self._encoder = encoder
        self._metadata = metadata
        self._commit_pages = commit_pages
        self._commit_seconds = commit_seconds
        self._uncommitted = 0
        self._committed_at = time.monotonic()
        self._changing = False
        """In the middle of a change: the writer's state is not one that should be committed."""
        self._records = read_records(writer)
        self._fresh: dict[str, FileRecord] = {}
        """By path: the record that a file will have, from when it is planned."""
        self._contents: dict[str, Content] = {}
        """By path: the files that are being read, as they were before."""
        self._touched: set[str] = set()
        """Paths whose fresh record the next commit must store."""
        self._problems: dict[str, list[JsonValue]] = {}
        """By path: what could not be read, for the next commit; empty where an old problem is gone."""
        self._known_problems = set(writer.state(PROBLEM))
        self._estimate = Estimate(progress or (lambda done, expected: None))
        self._shows_progress = progress is not None
        self._stop = threading.Event()
        self.failures: list[FileProblem] = []
        self._new = self._updated = self._skipped = self._removed = self._empty = self._moved = 0
        self._illegible: Counter[str] = Counter()

    def follow_moves(self, paths: list[str], limits: Limits) -> None:
        """Files that only have another name or folder now keep their pages, under their new names."""
        with closing(Hasher(limits)) as hasher:
            moved = find_moved(paths, self._records, hasher)
        if not moved:
            return
        metadata = {new: self._metadata_of(new, self._records[old]) for new, old in moved.items()}
        self._changing = True
        self._moved = adopt_moved(self._writer, self._records, moved, metadata)
        for old in moved.values():
            self._forget_problem(old)
        self._changing = False

    def prune(self, problems: list[FileProblem]) -> set[str]:
        """Remove files that are gone; returns their paths, as given.

        A folder that was asked for and is itself missing is taken to be out of reach (not mounted, say), not
        to be empty.
        """
        gone = {os.path.abspath(problem.path): problem.path for problem in problems}
        lost_roots = tuple(path + os.sep for path in gone if path not in self._records)
        removed: set[str] = set()
        for path, record in list(self._records.items()):
            if is_gone(path) and not path.startswith(lost_roots):
                for id in record.ids(path):
                    self._writer.delete(id)
                write_record(self._writer, path, None)
                self._writer.set_state(PROBLEM + path, None)
                self._removed += len(record.done)
                del self._records[path]
                removed.add(gone.get(path, path))
        return removed

    def _forget_problem(self, path: str) -> None:
        if PROBLEM + path in self._known_problems:
            self._problems.setdefault(path, [])

    def run(self, paths: list[str], limits: Limits, thumbnails: int, workers: int | None) -> None:
        named = name_files(paths, {path: record.doc_id for path, record in self._records.items()})
        known = {path: record.pages for path, record in self._records.items() if record.pages}
        to_count = self._estimate.begin(paths, known)
        with self._counting(to_count, limits):
            self._run(named, limits, thumbnails, workers)

    def _counting(self, paths: list[str], limits: Limits) -> AbstractContextManager[object]:
        """Who is shown the progress learns early how many pages there are."""
        if not self._shows_progress or len(paths) < 2:
            return nullcontext()
        return closing(PageCounter(paths, limits, self._estimate.count))

    def _run(self, named: list[SourceFile], limits: Limits, thumbnails: int, workers: int | None) -> None:
        plan = self._plan(named, limits)
        try:
            rendered = render_for(self._encoder, plan, thumbnail=thumbnails, limits=limits, workers=workers)
            with closing(rendered):
                for item, vector in encode_rendered(self._encoder, usable(rendered, self._fail)):
                    self._store(item, vector)
            self._estimate.finish()
        finally:
            self._stop.set()
            # Also after ctrl-C or an error: what is done is done. Only a change that was cut in half is not
            # committed; the index then stays as the last commit left it, and the next run repeats the rest.
            if not self._changing:
                self._commit()

    def report(self, found: Discovery, seconds: float) -> IngestReport:
        return IngestReport(
            files=len(found.files),
            pages=self._new + self._updated + self._skipped,
            new=self._new,
            updated=self._updated,
            skipped=self._skipped,
            removed=self._removed,
            empty=self._empty,
            moved=self._moved,
            failures=tuple(self.failures),
            seconds=seconds,
            illegible=dict(self._illegible),
            passed_over=dict(sorted(found.passed_over.items())),
        )

    def _plan(self, files: list[SourceFile], limits: Limits) -> Iterator[SourceFile]:
        """The files that need work, hashed just before they are rendered, while they are warm in memory."""
        with closing(Hasher(limits)) as hasher:
            yield from self._changed(files, hasher)

    def _changed(self, files: list[SourceFile], hasher: Hasher) -> Iterator[SourceFile]:
        for file in files:
            if self._stop.is_set():
                return
            try:
                content = hasher.read(file.path)
            except PageError as error:
                self._fail(FileProblem(file.path, str(error)))
                continue
            except OSError as error:
                self._fail(FileProblem(file.path, f"cannot be read: {error.strerror}"))
                continue
            old = self._records.get(file.path)
            metadata = self._metadata_of(file.path, old)
            record = FileRecord(file.doc_id, content.hash, 0, metadata=metadata, size=content.size)
            if old is not None and (old.hash, old.metadata) == (content.hash, metadata):
                self._skipped += len(old.done)
                if len(old.done) == old.pages:
                    self._estimate.leave_out(file.path)
                    continue
                record.done = set(old.done)
            self._fresh[file.path] = record
            self._contents[file.path] = content
            self._forget_problem(file.path)
            yield replace(file, skip=frozenset(record.done))

    def _metadata_of(self, path: str, old: FileRecord | None) -> dict[str, Json]:
        """The user's own values: those given, or, where none are, those that the file has already."""
        if self._metadata is None:
            return dict(old.metadata) if old else {}
        return own_metadata(self._metadata(path) if callable(self._metadata) else self._metadata)

    def _fail(self, problem: FileProblem) -> None:
        self._estimate.failed(problem)
        record = self._fresh.get(problem.path)
        if problem.page and record is not None and record.hash == CHANGED:
            return  # the file is in the report as one that changed
        self.failures.append(problem)
        entry: dict[str, JsonValue] = {"page": problem.page, "reason": problem.reason}
        self._problems.setdefault(os.path.abspath(problem.path), []).append(entry)

    def _store(self, item: RenderedPage, vector: SparseVector) -> None:
        page = item.page
        record = self._fresh[page.path]
        self._changing = True
        changed = self._begin_file(page.path, record, item.pages)
        own: dict[str, Json] = {
            "path": page.path,
            "doc_id": record.doc_id,
            "page_num": page.number,
            "pages": item.pages,
            "hash": record.hash,
        }
        self._writer.add(page.id, vector, {**record.metadata, **page.metadata, **own}, item.thumbnail)
        record.done.add(page.number)
        self._touched.add(page.path)
        self._changing = False
        self._updated += changed
        self._new += not changed
        if not self._is_legible(page, vector):
            self._illegible[page.path] += 1
        elif not len(vector):
            self._empty += 1
        self._estimate.done(page.path, item.pages - len(item.file.skip))
        self._commit_when_due()

    def _is_legible(self, page: Page, vector: SparseVector) -> bool:
        """A text layer with enough letters decides; else what the encoder says of the picture."""
        if not self._encoder.latin_only:
            return True
        by_text = is_text_legible(page.text)
        if by_text is not None:
            return by_text
        return not isinstance(vector, PageVector) or vector.legible

    def _begin_file(self, path: str, record: FileRecord, pages: int) -> bool:
        """With the first page of a changed file the old pages go; says whether the file has changed."""
        old = self._records.get(path)
        if old is None or (old.hash, old.metadata) == (record.hash, record.metadata):
            record.pages = pages
            return False
        if not record.pages:
            record.pages = pages
            for id in old.ids(path):
                self._writer.delete(id)
            self._removed += len([number for number in old.done if number > pages])
        return True

    def _commit_when_due(self) -> None:
        self._uncommitted += 1
        late = time.monotonic() - self._committed_at >= self._commit_seconds
        if late or self._uncommitted >= self._commit_pages:
            self._commit()

    def _check_unchanged(self, path: str) -> None:
        """A file that changed after its hash was taken: its pages may be of other bytes than the hash."""
        record = self._fresh[path]
        if record.hash != CHANGED and not self._contents[path].is_still(path):
            # What could not be read of it may be the change's fault: one message says it all.
            self.failures = [problem for problem in self.failures if problem.path != path]
            self._problems.pop(path, None)
            record.hash = CHANGED
            self._fail(FileProblem(path, "changed while it was read; the next run reads it again"))

    def _commit(self) -> None:
        self._changing = True
        for path in self._touched:
            self._check_unchanged(path)
            write_record(self._writer, path, self._fresh[path])
        for path, problems in list(self._problems.items()):  # the plan's thread may add to it
            self._writer.set_state(PROBLEM + path, problems or None)
        self._writer.commit()
        for path in self._touched:
            if len(self._fresh[path].done) == self._fresh[path].pages:
                del self._fresh[path]  # no page of it will come any more
                del self._contents[path]
        self._touched.clear()
        self._changing = False
        self._uncommitted = 0
        self._committed_at = time.monotonic()
