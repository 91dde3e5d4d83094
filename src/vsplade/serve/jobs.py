"""Jobs on disk: the web workers write them, the indexer works them off, and any worker can tell their state.

One JSON file a job, replaced whole. So a job outlives every process, and nothing has to be shared in memory.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from vsplade.types import Json

KEPT = 100
"""Finished jobs that are remembered."""
RESTARTS = 10
"""Ends of the whole server (a power cut, kill -9) that are not held against a job."""
_FORMER = ".former"
QUEUED, RUNNING, DONE, FAILED = "queued", "running", "done", "failed"
_ID = re.compile(r"[0-9]{13}-[0-9a-f]{12}\Z")


@dataclass(frozen=True, slots=True)
class StoredJob:
    """Something that changes the index."""

    id: str
    kind: str
    """``upload``, ``paths`` or ``delete``."""
    state: str = QUEUED
    name: str = ""
    """Of the uploaded file, or of the document to remove."""
    paths: tuple[str, ...] = ()
    metadata: dict[str, Json] = field(default_factory=dict)
    created: float = 0.0
    finished: float | None = None
    done: int = 0
    """Pages."""
    total: int = 0
    """Pages expected; an estimate until the file is open."""
    attempts: int = 0
    """How often it was begun; less those that ended with the whole server, up to ``RESTARTS``."""
    restarts: int = 0
    report: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    generation: int | None = None
    """The commit that holds what the job did."""

    @property
    def ended(self) -> bool:
        return self.state in (DONE, FAILED)


class JobStore:
    """The jobs of one server. ``folder`` also takes in what is being uploaded."""

    def __init__(self, uploads: str | Path) -> None:
        self.uploads = Path(uploads)
        self._folder = self.uploads / ".jobs"
        self._incoming = self.uploads / ".incoming"

    def prepare(self) -> None:
        for folder in (self.uploads, self._folder, self._incoming):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def new_id(self) -> str:
        """Ids sort by time."""
        return f"{time.time_ns() // 1_000_000:013d}-{secrets.token_hex(6)}"

    def incoming(self, id: str) -> Path:
        """Where the content of an upload waits for its turn."""
        return self._incoming / id

    def former(self, id: str) -> Path:
        """Where the file that an upload replaces is kept until the new one has been read."""
        return self._incoming / f"{id}{_FORMER}"

    def save(self, job: StoredJob) -> StoredJob:
        path = self._folder / f"{job.id}.json"
        # Two threads of a process may save one job: a name for each.
        fresh = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.new")
        try:
            fresh.write_text(json.dumps(asdict(job)), "utf-8")
            os.replace(fresh, path)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
        return job

    def add(self, kind: str, id: str | None = None, **facts: Any) -> StoredJob:
        return self.save(StoredJob(id or self.new_id(), kind, created=time.time(), **facts))

    def get(self, id: str) -> StoredJob | None:
        if not _ID.match(id):
            return None
        try:
            facts = json.loads((self._folder / f"{id}.json").read_text("utf-8"))
        except FileNotFoundError:
            return None
        return StoredJob(**{**facts, "paths": tuple(facts["paths"])})

    def all(self) -> list[StoredJob]:
        """Oldest first."""
        found = (self.get(name.removesuffix(".json")) for name in sorted(self._names()))
        return [job for job in found if job is not None]

    def _names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self._folder) if name.endswith(".json")]
        except FileNotFoundError:
            return []

    def waiting(self) -> int:
        return sum(not job.ended for job in self.all())

    def clean(self) -> None:
        """What interrupted jobs and uploads left. Only while no upload is under way."""
        self.forget_old()
        for path in self._folder.glob("*.new"):
            path.unlink(missing_ok=True)
        known = {job.id for job in self.all() if not job.ended}
        for path in self._incoming.iterdir():
            if path.name.removesuffix(_FORMER) not in known:
                with suppress(OSError):
                    path.unlink()

    def begin_again(self) -> None:
        """When a server starts: what was under way ended with the last one, perhaps not by its own fault."""
        for job in self.all():
            if job.state == RUNNING and job.attempts and job.restarts < RESTARTS:
                self.save(replace(job, attempts=job.attempts - 1, restarts=job.restarts + 1))

    def forget_old(self) -> None:
        ended = [job for job in self.all() if job.ended]
        for job in ended[:-KEPT]:
            (self._folder / f"{job.id}.json").unlink(missing_ok=True)

    def finish(self, job: StoredJob, state: str, **facts: Any) -> StoredJob:
        """A failed upload leaves the file of its name as it was."""
        self.incoming(job.id).unlink(missing_ok=True)
        former = self.former(job.id)
        if state == FAILED and former.exists():
            os.replace(former, self.uploads / job.name)
        former.unlink(missing_ok=True)
        return self.save(replace(job, state=state, finished=time.time(), **facts))
