"""How far the job is, and how far it has to go."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from vsplade.pages import FileProblem, is_pdf
from vsplade.types import Progress


def show_progress(progress: bool | Progress) -> AbstractContextManager[Progress]:
    return nullcontext(progress) if callable(progress) else _Bar(shown=progress)


class _Bar:
    """Pages done, rate and time left on standard error."""

    def __init__(self, shown: bool) -> None:
        from tqdm import tqdm

        # The time left follows the mean rate of the whole run: files of one kind often come in a row.
        self._bar = tqdm(unit=" pages", disable=not shown, file=sys.stderr, dynamic_ncols=True, smoothing=0)

    def __enter__(self) -> Progress:
        return self._update

    def _update(self, done: int, expected: int) -> None:
        if not self._bar.n and not self._bar.disable:
            self._bar.reset()  # the clock starts with the first page, not while the model is loaded
        self._bar.total = expected
        self._bar.update(done - self._bar.n)

    def __exit__(self, *_: object) -> None:
        self._bar.close()


MOST_COUNTED = 1000
"""PDFs that are opened ahead of their turn, the largest first; the others are judged by their bytes."""
_FIRST_GUESS = 1 / 50_000
"""Pages a byte of a PDF, as long as no PDF was opened."""


class Estimate:
    """How many pages there are to do.

    A picture is one page. A PDF has the pages that an earlier run or the counter found in it; until then, as
    many as its bytes suggest, by those PDFs that are known.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._expected: dict[str, int] = {}
        """Pages to do of the files that are known; of a PDF that is not, see ``_unknown``."""
        self._total = 0
        self._unknown: dict[str, int] = {}
        """Bytes."""
        self._unknown_bytes = self._known_bytes = self._known_pages = 0
        self._done = 0

    def begin(self, paths: list[str], known: Mapping[str, int]) -> list[str]:
        """``known``: pages by path, of earlier runs. Returns the PDFs that are worth counting, in order."""
        for path in paths:
            if path in known or not is_pdf(path):
                self._expected[path] = known.get(path, 1)
            else:
                self._unknown[path] = _size(path)
        self._total = sum(self._expected.values())
        self._unknown_bytes = sum(self._unknown.values())
        return sorted(self._unknown, key=lambda path: -self._unknown[path])[:MOST_COUNTED]

    def leave_out(self, path: str) -> None:
        with self._lock:
            self._unknown_bytes -= self._unknown.pop(path, 0)
            self._total -= self._expected.pop(path, 0)

    def count(self, path: str, pages: int) -> None:
        """The file turned out to have so many pages to do."""
        with self._lock:
            size = self._unknown.pop(path, None)
            if size is not None:
                self._unknown_bytes -= size
                self._known_bytes += size
                self._known_pages += pages
            elif path not in self._expected:
                return  # left out already
            self._total += pages - self._expected.get(path, 0)
            self._expected[path] = pages

    def failed(self, problem: FileProblem) -> None:
        if problem.page is None:
            self.leave_out(problem.path)
        else:
            self._done += 1
            self._tell()

    def done(self, path: str, pages: int) -> None:
        self.count(path, pages)
        self._done += 1
        self._tell()

    def finish(self) -> None:
        """There was no more to do: pages of skipped files and of files given up are not missing."""
        self._progress(self._done, self._done)

    def _tell(self) -> None:
        with self._lock:
            rate = self._known_pages / self._known_bytes if self._known_bytes else _FIRST_GUESS
            guessed = max(len(self._unknown), round(self._unknown_bytes * rate))
            expected = max(self._done, self._total + guessed)
        self._progress(self._done, expected)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
