"""How far the job is, and how far it has to go."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from vsplade.pages import FileProblem

Progress = Callable[[int, int], None]
"""Called with (pages done, pages expected in all); the second is an estimate that gets better."""


def show_progress(progress: bool | Progress) -> AbstractContextManager[Progress]:
    return nullcontext(progress) if callable(progress) else _Bar(shown=progress)


class _Bar:
    """Pages done, rate and time left on standard error."""

    def __init__(self, shown: bool) -> None:
        from tqdm import tqdm

        self._bar = tqdm(unit=" pages", disable=not shown, file=sys.stderr, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        return self._update

    def _update(self, done: int, expected: int) -> None:
        self._bar.total = expected
        self._bar.update(done - self._bar.n)

    def __exit__(self, *_: object) -> None:
        self._bar.close()


class Estimate:
    """How many pages there are to do. Until a file is opened, its bytes are all that is known of it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._unknown: dict[str, int] = {}
        self._unknown_bytes = 0
        self._known_bytes = 0
        self._known_pages = 0
        self._done = 0

    def begin(self, paths: list[str]) -> None:
        self._unknown = {path: _size(path) for path in paths}
        self._unknown_bytes = sum(self._unknown.values())

    def leave_out(self, path: str) -> None:
        self._unknown_bytes -= self._unknown.pop(path, 0)

    def failed(self, problem: FileProblem) -> None:
        if problem.page is None:
            self.leave_out(problem.path)
        else:
            self._done += 1
            self._tell()

    def done(self, path: str, pages: int) -> None:
        size = self._unknown.get(path)
        if size is not None:
            self.leave_out(path)
            self._known_bytes += size
            self._known_pages += pages
        self._done += 1
        self._tell()

    def finish(self) -> None:
        """There was no more to do: pages of skipped files and of files given up are not missing."""
        self._progress(self._done, self._done)

    def _tell(self) -> None:
        rate = self._known_pages / self._known_bytes if self._known_bytes else 0.0
        self._progress(self._done, max(self._done, round(self._known_pages + self._unknown_bytes * rate)))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
