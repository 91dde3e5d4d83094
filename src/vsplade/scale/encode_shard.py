"""One task: render and encode a few files, and write their pages as one shard.

The same on one machine and in a worker of a cluster. What comes out depends on the files and the encoder
alone, so a task that is done twice writes the same shard twice.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace

from vsplade.encode.keyed import encode_rendered
from vsplade.errors import PageError
from vsplade.exchange.shard_folder import Line, ShardFolder, open_place
from vsplade.ingest.hashing import Content, Hasher
from vsplade.ingest.records import CHANGED, PROBLEM, FileRecord
from vsplade.pages import FileProblem, Limits, SourceFile, render_for, usable
from vsplade.scale.encode_tasks import EncodeTask, InputFile
from vsplade.store.identity import EncoderIdentity
from vsplade.store.segment import StoredPage
from vsplade.store.state import FILE_RECORDS
from vsplade.types import Encoder, Json


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """How a task is done."""

    limits: Limits = field(default_factory=Limits)
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class TaskDone:
    """What a task did, and what it cost."""

    stem: str
    files: int
    pages: int
    problems: tuple[FileProblem, ...]
    seconds: float
    core_seconds: float
    """Processor time of this process and of the renderers that it started."""


def do_task(task: EncodeTask, encoder: Encoder, folder: ShardFolder, options: EncodeOptions) -> TaskDone:
    started, spent = time.monotonic(), _processor_time()
    with ExitStack() as stack:
        work = _Work(task, stack, options)
        pages = list(work.pages(encoder))
        lines = [work.line(file) for file in task.files]
    folder.commit(task.stem, pages, EncoderIdentity.of(encoder), lines)
    return TaskDone(
        task.stem,
        len(task.files),
        len(pages),
        tuple(work.problems),
        time.monotonic() - started,
        _processor_time() - spent,
    )


def give_up(task: EncodeTask, identity: EncoderIdentity, folder: ShardFolder, reason: str) -> TaskDone:
    """Record that the files of a task cannot be encoded: a shard without pages."""
    problems = tuple(FileProblem(file.path, reason) for file in task.files)
    lines = [_line(file, None, [problem]) for file, problem in zip(task.files, problems, strict=True)]
    folder.commit(task.stem, [], identity, lines)
    return TaskDone(task.stem, len(task.files), 0, problems, 0.0, 0.0)


def _processor_time() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class _Work:
    """The files of one task on their way to rows."""

    def __init__(self, task: EncodeTask, stack: ExitStack, options: EncodeOptions) -> None:
        self._task, self._options = task, options
        self._hasher = stack.enter_context(closing(Hasher(options.limits)))
        self._folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="vsplade-"))
        self._records: dict[str, FileRecord] = {}
        self._contents: dict[str, Content] = {}
        self._places: dict[str, InputFile] = {}
        """By the path that is rendered: a file of a bucket is copied here first."""
        self.problems: list[FileProblem] = []

    def pages(self, encoder: Encoder) -> Iterator[StoredPage]:
        options = self._options
        rendered = render_for(encoder, self._sources(), limits=options.limits, workers=options.workers)
        with closing(rendered):
            for item, vector in encode_rendered(encoder, usable(rendered, self._fail)):
                page, file = item.page, self._places[item.page.path]
                record = self._records[file.path]
                record.pages = item.pages
                record.done.add(page.number)
                own: dict[str, Json] = {
                    "path": file.path,
                    "doc_id": file.doc_id,
                    "page_num": page.number,
                    "pages": item.pages,
                    "hash": record.hash,
                }
                yield StoredPage(page.id, vector, {**page.metadata, **own})

    def _fail(self, problem: FileProblem) -> None:
        self.problems.append(replace(problem, path=self._places[problem.path].path))

    def _sources(self) -> Iterator[SourceFile]:
        for number, file in enumerate(self._task.files):
            try:
                path = self._copy(file, number) if file.remote else file.path
                content = self._hasher.read(path)
            except PageError as error:
                self.problems.append(FileProblem(file.path, str(error)))
                continue
            except Exception as error:  # whatever a bucket's library raises
                reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
                self.problems.append(FileProblem(file.path, f"cannot be read: {reason}"))
                continue
            self._places[path] = file
            self._contents[file.path] = content
            self._records[file.path] = FileRecord(file.doc_id, content.hash, 0, size=content.size)
            yield SourceFile(path, file.doc_id)

    def _copy(self, file: InputFile, number: int) -> str:
        fs, source = open_place(file.path)
        if file.size > self._options.limits.max_bytes:
            raise PageError(f"has {file.size:,} bytes, above the limit; split it or raise --max-bytes")
        target = os.path.join(self._folder, f"{number}-{os.path.basename(file.path)}")
        fs.get_file(source, target)
        return target

    def line(self, file: InputFile) -> Line:
        record = self._records.get(file.path)
        if record is not None and not file.remote and not self._contents[file.path].is_still(file.path):
            record.hash = CHANGED
            self.problems.append(FileProblem(file.path, "changed while it was read; encode it again"))
        return _line(file, record, [problem for problem in self.problems if problem.path == file.path])


def _line(file: InputFile, record: FileRecord | None, problems: list[FileProblem]) -> Line:
    problems_json = [{"page": problem.page, "reason": problem.reason} for problem in problems]
    state = {FILE_RECORDS + file.path: record.to_json()} if record is not None and record.done else {}
    return {
        "path": file.path,
        "doc_id": file.doc_id,
        "stamp": file.stamp,
        "rows": len(record.done) if record else 0,
        "problems": problems_json,
        "state": state | ({PROBLEM + file.path: problems_json} if problems_json else {}),
    }
