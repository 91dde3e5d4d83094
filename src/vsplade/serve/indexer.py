"""The one process of a server that changes the index: takes jobs in their order, one at a time.

Run as ``python -m vsplade.serve.indexer``. It may be killed at any moment: a job that was running is begun
again by the next indexer, and the index's own records say what of it is already done.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, replace

from vsplade.backends.open_writer import open_writer
from vsplade.errors import IndexLockedError, InputError, VspladeError
from vsplade.ingest import index_paths
from vsplade.ingest.records import read_records, write_record
from vsplade.pages import Limits, discover
from vsplade.pages.picture import THUMBNAIL
from vsplade.search.open_index import open_index
from vsplade.serve.jobs import DONE, FAILED, RUNNING, JobStore, StoredJob
from vsplade.serve.paths import inside
from vsplade.serve.settings import Settings
from vsplade.types import Encoder

ATTEMPTS = 3
"""A job that ends the process so often is given up."""
PAUSE = 0.1
"""Seconds between two looks for new jobs."""
COMMIT_SECONDS = 5.0
TELL_EVERY = 0.2
"""Seconds between two notes of progress."""


class Indexer:
    """Works jobs off."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = JobStore(settings.uploads)
        self._store.prepare()
        self._where = settings.where
        self._encoder: Encoder | None = None
        self._limits = Limits(
            max_bytes=max(settings.limits.upload_bytes, Limits().max_bytes),
            max_seconds=settings.limits.seconds,
        )

    def run_forever(self, stop: threading.Event) -> None:
        if sys.platform == "linux" or threading.current_thread() is threading.main_thread():
            os.nice(10)  # searches come first; on Linux it is this thread alone that waits
        self._store.clean()
        while not stop.is_set():
            if self.run_pending(stop):
                self._store.forget_old()
            else:
                stop.wait(PAUSE)

    def run_pending(self, stop: threading.Event | None = None) -> int:
        """Do every job that waits; how many there were."""
        count = 0
        for job in self._store.all():
            if stop is not None and stop.is_set():
                break
            if not job.ended:
                self._run(job)
                count += 1
        return count

    def _run(self, job: StoredJob) -> None:
        if job.attempts >= ATTEMPTS:
            self._store.finish(
                job, FAILED, error="This job ended the indexer several times, and was given up."
            )
            return
        job = self._store.save(replace(job, state=RUNNING, attempts=job.attempts + 1))
        work: dict[str, Callable[[StoredJob], StoredJob]] = {
            "upload": self._upload,
            "paths": self._paths,
            "delete": self._delete,
        }
        while True:
            try:
                job = work[job.kind](job)
                break
            except IndexLockedError:
                time.sleep(1.0)  # someone indexes from the command line: wait for the end of it
            except VspladeError as error:
                self._store.finish(job, FAILED, error=self._without_paths(str(error)))
                return
            except Exception as error:
                traceback.print_exc()
                self._store.finish(
                    job, FAILED, error=f"{type(error).__name__}; the server's log has the trace."
                )
                return
        failed = job.kind != "delete" and not job.report.get("pages") and bool(job.report.get("failures"))
        reason = job.report["failures"][0]["reason"] if failed else None
        with closing(open_index(self._where)) as index:
            generation = index.generation
        self._store.finish(job, FAILED if failed else DONE, error=reason, generation=generation)

    # -- adding -----------------------------------------------------------------------------------------

    def _upload(self, job: StoredJob) -> StoredJob:
        target = self._store.uploads / job.name
        waiting = self._store.incoming(job.id)
        if waiting.exists():  # else an earlier attempt has moved it
            with suppress(FileNotFoundError):
                os.replace(target, self._store.former(job.id))
            os.replace(waiting, target)
        job = self._add(job, [str(target)])
        if not job.report["pages"]:
            with suppress(FileNotFoundError):
                target.unlink()  # nothing of it can be shown; the report says why
        return job

    def _paths(self, job: StoredJob) -> StoredJob:
        found = discover(job.paths)
        refused = [path for path in found.files if not inside(path, self._settings.roots)]
        allowed = [path for path in found.files if path not in set(refused)]
        problems: list[dict[str, object]] = [asdict(problem) for problem in found.problems]
        problems += [
            {"path": path, "reason": "leads out of the folders that files may be added from", "page": None}
            for path in refused
        ]
        if not allowed:
            reason = problems[0]["reason"] if problems else "there are no pages in it"
            raise InputError(f"Nothing was added: {reason}.")
        job = self._add(job, allowed)
        return replace(
            job, report={**job.report, "failures": [*job.report["failures"], *self._named(problems)]}
        )

    def _add(self, job: StoredJob, files: list[str]) -> StoredJob:
        encoder = self._load()
        self._forget_removed(files)
        saved = 0.0

        def progress(done: int, total: int) -> None:
            nonlocal saved
            if time.monotonic() - saved > TELL_EVERY:
                saved = time.monotonic()
                self._store.save(replace(job, done=done, total=max(done, total)))

        report = index_paths(
            files,
            self._where,
            encoder,
            limits=self._limits,
            metadata=job.metadata or None,
            thumbnails=THUMBNAIL,
            commit_seconds=COMMIT_SECONDS,
            progress=progress,
        )
        facts = report.to_json()
        facts["failures"] = self._named(facts["failures"])
        return replace(job, done=report.pages, total=report.pages, report=facts)

    def _load(self) -> Encoder:
        if self._encoder is None:
            with closing(open_index(self._where)) as index:
                self._encoder = index.encoder
        return self._encoder

    def _forget_removed(self, files: list[str]) -> None:
        """A file whose pages were removed counts as done; who adds it again wants it back."""
        with closing(open_index(self._where, whole=True)) as index, open_writer(self._where) as writer:
            records = read_records(writer)
            for path in files:
                record = records.get(path)
                if record is not None and not any(id in index for id in record.ids(path)):
                    write_record(writer, path, None)

    def _named(self, failures: list[dict[str, object]]) -> list[dict[str, object]]:
        """Files by their names alone, where paths of the server are nobody's business."""
        if self._settings.show_paths:
            return failures
        return [{**failure, "path": os.path.basename(str(failure["path"]))} for failure in failures]

    def _without_paths(self, message: str) -> str:
        for folder in (self._settings.uploads, self._settings.index_dir, *self._settings.roots):
            if not self._settings.show_paths:
                message = message.replace(folder + os.sep, "").replace(folder, "the server's folder")
        return message

    # -- removing ---------------------------------------------------------------------------------------

    def _delete(self, job: StoredJob) -> StoredJob:
        with closing(open_index(self._where, whole=True)) as index:
            pages = list(index.ids({"doc_id": job.name})) or ([job.name] if job.name in index else [])
            paths = {str(facts.get("path", "")) for facts in index.known(pages).values()}
        uploaded = [path for path in paths if path and inside(path, (self._settings.uploads,))]
        with open_writer(self._where) as writer:
            for id in pages:
                writer.delete(id)
            for path in uploaded:
                write_record(writer, path, None)
        for path in uploaded:
            with suppress(FileNotFoundError):
                os.unlink(path)
        return replace(job, done=len(pages), total=len(pages), report={"removed": len(pages)})


def main() -> None:
    settings = Settings.from_json(sys.stdin.readline())
    stop = threading.Event()

    def wait_for_parent() -> None:
        sys.stdin.read()  # ends when the server does, however it ends
        stop.set()
        os.kill(os.getpid(), signal.SIGINT)

    def end(number: int, frame: object) -> None:
        stop.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    threading.Thread(target=wait_for_parent, daemon=True).start()
    with suppress(KeyboardInterrupt):  # what was done of a job is committed; the next indexer goes on
        Indexer(settings).run_forever(stop)


if __name__ == "__main__":
    main()
