"""The tasks of ``vsplade encode --parquet`` on a Ray cluster.

A row of the Ray data set is one task. Actors take one task at a time, read its files themselves and write
its shard. So what waits is a list of names, however many pages there are. A worker that dies costs its task,
which another one does again: the shard is the same to the byte.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vsplade.encode import load_encoder
from vsplade.errors import InputError, MissingExtraError, ModelMismatchError, StorageError, VspladeError
from vsplade.exchange.shard_folder import ShardFolder
from vsplade.pages import FileProblem
from vsplade.pages.passwords import known_passwords, use_passwords
from vsplade.scale.encode_run import EncodeReport, run_tasks
from vsplade.scale.encode_shard import EncodeOptions, TaskDone, do_task, give_up
from vsplade.scale.encode_tasks import EncodeTask, InputFile
from vsplade.store.identity import EncoderIdentity
from vsplade.types import Progress

ATTEMPTS = 3
"""Workers that may die over a task, then over each of its files, before a file is given up."""
MOST_BLOCKS = 10_000
"""Of the data set: each is an object that the driver keeps track of."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where to run, and how much of it to use."""

    address: str | None = None
    """None: what RAY_ADDRESS names, else this machine."""
    workers: int | None = None
    """None: as many as the cluster holds."""
    cpus: int = 1
    gpus: float = 0.0
    """Of each worker."""


def encode_on_ray(
    paths: Sequence[str],
    encoder: str | None,
    folder: ShardFolder,
    options: EncodeOptions,
    cluster: Cluster,
    progress: Progress = lambda done, total: None,
    retry_failed: bool = False,
) -> EncodeReport:
    """Encode files on a cluster. Run again after an interruption, it does what is left."""
    ray = _connect(cluster)
    try:
        workers = _workers(ray, cluster)
        identity = EncoderIdentity.of(load_encoder(encoder))
        attempts = ray.remote(num_cpus=0)(Attempts).remote()
        job = RayJob(folder.where, encoder, identity, options, cluster.cpus, tuple(known_passwords()))

        def work(tasks: Sequence[EncodeTask]) -> Iterator[TaskDone]:
            return _run(ray, tasks, job, attempts, min(workers, len(tasks)), cluster)

        report = run_tasks(paths, identity, folder, work, progress, retry_failed)
        report.workers, report.gpus = workers, workers * cluster.gpus
        report.restarts = ray.get(attempts.deaths.remote())
        return report
    finally:
        ray.shutdown()


def _connect(cluster: Cluster) -> Any:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise MissingExtraError("Encoding on a Ray cluster", "ray") from error
    where = cluster.address or os.environ.get("RAY_ADDRESS")
    try:
        _knock(where or "")
        ray.init(address=cluster.address, log_to_driver=False, logging_level="warning")
    except Exception as error:  # Ray raises plain ones, too
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise StorageError(
            f"{where or 'this machine'}: no Ray cluster can be reached ({why}). Check the address, and that "
            "`ray status` works from here."
        ) from error
    return ray


def _knock(address: str) -> None:
    """Raises OSError where nobody listens at host:port. Ray would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=20).close()


def _workers(ray: Any, cluster: Cluster) -> int:
    """How many the cluster holds. A pool with more would wait for ever for the rest."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fits = sum(_fit(node, cluster) for node in nodes)
    if fits < 1:
        most: dict[str, float] = max(
            nodes, key=lambda node: (node.get("GPU", 0), node.get("CPU", 0)), default={}
        )
        raise InputError(
            f"A worker shall have {cluster.cpus} CPUs and {cluster.gpus:g} GPUs, but the largest machine of "
            f"the cluster has {most.get('CPU', 0):g} and {most.get('GPU', 0):g}. Ask for less by --ray-cpus "
            "and --ray-gpus."
        )
    return fits if cluster.workers is None else min(cluster.workers, fits)


def _fit(node: dict[str, float], cluster: Cluster) -> int:
    by_cpu = int(node.get("CPU", 0) // cluster.cpus)
    return min(by_cpu, int(node.get("GPU", 0) / cluster.gpus)) if cluster.gpus else by_cpu


def _run(
    ray: Any, tasks: Sequence[EncodeTask], job: RayJob, attempts: Any, workers: int, cluster: Cluster
) -> Iterator[TaskDone]:
    if not tasks:
        return
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    rows = [{"task": json.dumps(asdict(task))} for task in tasks]
    # from_items puts the rows into the object store without a task of its own. A reader (``read_*``,
    # ``range``) has tasks that need a CPU: where the actors hold them all, it waits for ever.
    done = ray.data.from_items(rows, override_num_blocks=min(len(rows), MOST_BLOCKS)).map_batches(
        RayWorker,
        fn_constructor_args=(job, attempts),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=1),
        num_cpus=cluster.cpus,
        num_gpus=cluster.gpus or None,
        max_restarts=-1,
        max_task_retries=-1,
    )
    try:
        for row in done.iter_rows():
            facts = json.loads(row["done"])
            problems = tuple(FileProblem(**problem) for problem in facts.pop("problems"))
            yield TaskDone(**facts, problems=problems)
    except ray.exceptions.RayError as error:
        raise _explained(error) from error


def _explained(error: Exception) -> VspladeError:
    """What went wrong in a worker, without Ray's own lines around it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, VspladeError):
            return type(cause)(*cause.args)
        cause = getattr(cause, "cause", None) or cause.__cause__
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return StorageError(
        f"A worker of the Ray cluster failed: {lines[-1].strip() if lines else type(error).__name__} What is "
        "done is kept: run the same command again."
    )


@dataclass(frozen=True, slots=True)
class RayJob:
    """What every worker has to know."""

    where: str
    encoder: str | None
    identity: EncoderIdentity
    options: EncodeOptions
    cpus: int
    passwords: tuple[str, ...]


class Attempts:
    """How often tasks were begun: an actor that outlives the workers."""

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}

    def begin(self, stem: str) -> int:
        self._begun[stem] = self._begun.get(stem, 0) + 1
        return self._begun[stem]

    def deaths(self) -> int:
        return sum(count - 1 for count in self._begun.values())


class RayWorker:
    """An actor of the pool: loads the encoder once, then does tasks."""

    def __init__(self, job: RayJob, attempts: Any) -> None:
        # As Python's own -X cpu_count does: a worker must not start a thread for every core of its machine.
        os.cpu_count = lambda: job.cpus
        use_passwords(job.passwords)
        self._job, self._attempts = job, attempts
        self._folder = ShardFolder(job.where)
        self._encoder = load_encoder(job.encoder)
        own = EncoderIdentity.of(self._encoder)
        if own != job.identity:
            raise ModelMismatchError(
                f"A worker of the cluster has the encoder {own.name!r} of fingerprint {own.fingerprint}, "
                f"not {job.identity.fingerprint}: install the same vsplade on every machine."
            )

    def __call__(self, rows: dict[str, Any]) -> dict[str, list[str]]:
        answers = []
        for text in rows["task"].tolist():
            given = json.loads(text)
            task = EncodeTask(given["stem"], tuple(InputFile(**file) for file in given["files"]))
            answers.append(json.dumps(asdict(self._do(task))))
        return {"done": answers}

    def _do(self, task: EncodeTask) -> TaskDone:
        if self._begun(task) <= ATTEMPTS:
            return self._try(task)
        if len(task.files) == 1:
            return self._give_up(task)
        # Workers die over one of these files. Alone, only that one is lost.
        done = []
        for place, file in enumerate(task.files):
            alone = EncodeTask(f"{task.stem}-{place:03d}", (file,))
            if self._is_done(alone):
                done.append(TaskDone(alone.stem, 1, 0, (), 0.0, 0.0))
            elif self._begun(alone) <= ATTEMPTS:
                done.append(self._try(alone))
            else:
                done.append(self._give_up(alone))
        return TaskDone(
            task.stem,
            len(task.files),
            sum(one.pages for one in done),
            tuple(problem for one in done for problem in one.problems),
            sum(one.seconds for one in done),
            sum(one.core_seconds for one in done),
        )

    def _begun(self, task: EncodeTask) -> int:
        import ray

        count: int = ray.get(self._attempts.begin.remote(task.stem))
        return count

    def _is_done(self, task: EncodeTask) -> bool:
        names = set(self._folder.names())
        return {f"{task.stem}.parquet", f"{task.stem}.jsonl"} <= names

    def _try(self, task: EncodeTask) -> TaskDone:
        try:
            return do_task(task, self._encoder, self._folder, self._job.options)
        except MemoryError:
            os._exit(1)  # this process is not to be trusted any more; Ray starts another one

    def _give_up(self, task: EncodeTask) -> TaskDone:
        reason = (
            f"{ATTEMPTS} workers died over this file, out of memory perhaps; encode it with fewer workers"
        )
        return give_up(task, self._job.identity, self._folder, reason)
