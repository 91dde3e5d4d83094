"""A whole run of ``vsplade encode --parquet``: the tasks, one after the other, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from vsplade.exchange.parquet import arrow
from vsplade.exchange.shard_folder import DEAD_LETTERS, FINISHED, Committed, ShardFolder
from vsplade.pages import FileProblem
from vsplade.scale.encode_shard import EncodeOptions, TaskDone, do_task
from vsplade.scale.encode_tasks import EncodeTask, make_plan
from vsplade.store.identity import EncoderIdentity
from vsplade.types import Encoder, Progress


@dataclass(slots=True)
class EncodeReport:
    """What a run did, and what it cost."""

    output: str
    encoder: str
    files: int = 0
    files_done_before: int = 0
    pages: int = 0
    """Of this run."""
    pages_in_all: int = 0
    shards: int = 0
    seconds: float = 0.0
    core_seconds: float = 0.0
    workers: int = 1
    gpus: float = 0.0
    restarts: int = 0
    """Workers that died and were started again."""
    problems: list[FileProblem] = field(default_factory=list)

    def add(self, done: TaskDone) -> None:
        self.pages += done.pages
        self.core_seconds += done.core_seconds
        self.problems += done.problems

    def to_json(self) -> dict[str, Any]:
        """With the rates that a bill is made of."""
        facts = {key: value for key, value in asdict(self).items() if key != "problems"}
        rates = {
            "pages_per_s": _rate(self.pages, self.seconds),
            "pages_per_core_s": _rate(self.pages, self.core_seconds),
            "pages_per_gpu_s": _rate(self.pages, self.seconds * self.gpus),
        }
        failures = [asdict(problem) for problem in self.problems]
        return {**facts, **rates, "failed": len(failures), "failures": failures}


def _rate(pages: int, seconds: float) -> float | None:
    return round(pages / seconds, 3) if seconds > 0 and pages else None


def encode_to_shards(
    paths: Sequence[str],
    encoder: Encoder,
    folder: ShardFolder,
    options: EncodeOptions | None = None,
    progress: Progress = lambda done, total: None,
    retry_failed: bool = False,
) -> EncodeReport:
    """Encode files on this machine. Run again after an interruption, it does what is left."""
    chosen = options or EncodeOptions()

    def work(tasks: Sequence[EncodeTask]) -> Iterator[TaskDone]:
        for task in tasks:
            yield do_task(task, encoder, folder, chosen)

    return run_tasks(paths, EncoderIdentity.of(encoder), folder, work, progress, retry_failed)


def run_tasks(
    paths: Sequence[str],
    identity: EncoderIdentity,
    folder: ShardFolder,
    work: Callable[[Sequence[EncodeTask]], Iterator[TaskDone]],
    progress: Progress,
    retry_failed: bool = False,
) -> EncodeReport:
    """Plan, let ``work`` do the tasks in any order, and close the folder."""
    started = monotonic()
    plan = make_plan(paths, folder, identity, retry_failed)
    report = EncodeReport(folder.where, identity.name, plan.files, plan.done_files)
    done = plan.done_files
    progress(done, plan.files)
    for result in work(plan.tasks):
        report.add(result)
        done += result.files
        progress(done, plan.files)
    committed = folder.committed()
    report.seconds = monotonic() - started
    report.pages_in_all = sum(one.rows for one in committed)
    report.shards = len(committed)
    report.problems = [*plan.problems, *_dead_letters(committed)]
    write_dead_letters(folder, report.problems)
    folder.put_json(FINISHED, {"rows": report.pages_in_all, "shards": report.shards})
    return report


def _dead_letters(committed: Sequence[Committed]) -> Iterator[FileProblem]:
    """Of all runs, but for files that a later run could encode."""
    lines = [line for one in committed for line in one.files]
    read = {line["path"] for line in lines if line["rows"]}
    failed = {
        FileProblem(line["path"], problem["reason"], problem["page"]): None
        for line in lines
        if line["rows"] or line["path"] not in read
        for problem in line["problems"]
    }
    yield from failed


def write_dead_letters(folder: ShardFolder, problems: Sequence[FileProblem]) -> None:
    """The table of what could not be encoded, and why."""
    pa = arrow()
    columns = [pa.field("path", pa.string()), pa.field("page", pa.int64()), pa.field("reason", pa.string())]
    rows = [asdict(problem) for problem in problems]
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.Table.from_pylist(rows, schema=pa.schema(columns)), sink)
    folder.put(DEAD_LETTERS, sink.getvalue().to_pybytes())
