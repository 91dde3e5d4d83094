"""From what a person typed to a list of files: files, folders, globs, and a list on standard input."""

from __future__ import annotations

import glob
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, TypeVar

from vsplade.errors import InputError, PageError
from vsplade.pages.formats import is_supported, why_not
from vsplade.pages.naming import suffix

STDIN = "-"


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A file (or one page of it) that could not be used, and why."""

    path: str
    reason: str
    page: int | None = None

    @property
    def place(self) -> str:
        return self.path if self.page is None else f"{self.path}, page {self.page}"


def refuse(problem: FileProblem) -> None:
    raise PageError(f"{problem.place}: {problem.reason}.")


Result = TypeVar("Result")


def usable(
    results: Iterable[Result | FileProblem], failed: Callable[[FileProblem], object] = refuse
) -> Iterator[Result]:
    """The results without problems. ``failed`` gets the problems; left out, the first one is an error."""
    for result in results:
        if isinstance(result, FileProblem):
            failed(result)
        else:
            yield result


@dataclass(slots=True)
class Discovery:
    """Files in a stable order (arguments as given, folders sorted), without repeats, as absolute paths."""

    files: list[str] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)
    """Files of other kinds in the folders, counted by their endings (``""``: none)."""


def discover(
    paths: Iterable[str | os.PathLike[str]],
    *,
    stdin: IO[str] | None = None,
    exclude: Iterable[str | os.PathLike[str]] = (),
) -> Discovery:
    """Find the page files behind ``paths``.

    A folder stands for every supported file below it; names that begin with a dot are passed over, and so
    are the folders in ``exclude``. A path that does not exist and holds ``*``, ``?`` or ``[`` is a glob
    (``**`` for any depth). ``-`` reads one path a line (or NUL-separated paths) from ``stdin``; those are
    taken literally.
    """
    walker = _Walker({os.path.realpath(folder) for folder in exclude})
    for given in paths:
        text = os.fspath(given)
        if not isinstance(text, str):
            raise InputError(f"Paths must be text, not {type(text).__name__}: {text!r}.")
        if text == STDIN:
            for line in _read_list(stdin or sys.stdin):
                walker.add(line)
        elif not os.path.lexists(text) and glob.has_magic(text):
            walker.add_glob(text)
        else:
            walker.add(text)
    return walker.found


def _read_list(stream: IO[str]) -> Iterator[str]:
    # As bytes where possible: a name that is not valid in the terminal's encoding is still a file's name.
    raw = getattr(stream, "buffer", None)
    content = stream.read() if raw is None else os.fsdecode(raw.read())
    lines = content.split("\0") if "\0" in content else content.splitlines()
    return (line for line in lines if line.strip())


class _Walker:
    def __init__(self, excluded: set[str]) -> None:
        self.found = Discovery()
        self._seen_files: set[str] = set()
        # Real paths, so that a link to a folder above ends the walk instead of looping, and a folder that can
        # be reached in two ways counts once.
        self._seen_folders = set(excluded)

    def add(self, path: str) -> None:
        if os.path.isdir(path):
            self._add_folder(path)
        elif not os.path.exists(path):
            dangling = os.path.islink(path)
            self._problem(path, "is a link to a file that does not exist" if dangling else "does not exist")
        elif not os.path.isfile(path):
            self._problem(path, "is not a regular file")
        elif not is_supported(path):
            self._problem(path, why_not(path))
        else:
            self._add_file(path)

    def add_glob(self, pattern: str) -> None:
        matches = sorted(_glob(pattern.replace(os.altsep or os.sep, os.sep)), key=_order)
        if not matches:
            self._problem(pattern, "matches no file")
        for match in matches:
            if os.path.isdir(match):
                self._add_folder(match)
            else:
                self._add_found(match)

    def _add_folder(self, top: str) -> None:
        for folder, folders, names in os.walk(top, followlinks=True, onerror=self._unreadable):
            real = os.path.realpath(folder)
            if real in self._seen_folders:
                folders.clear()
                continue
            self._seen_folders.add(real)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                path = os.path.join(folder, name)
                if not name.startswith("."):
                    self._add_found(path)

    def _add_found(self, path: str) -> None:
        """A file that was not named by itself: one of another kind is no mistake."""
        if not is_supported(path):
            self.found.passed_over[suffix(path)] += 1
        elif os.path.isfile(path):
            self._add_file(path)
        elif not os.path.exists(path):
            self._problem(path, "is a link to a file that does not exist")
        else:
            self._problem(path, "is not a regular file")

    def _add_file(self, path: str) -> None:
        path = os.path.abspath(path)
        place = _place(path)
        if place in self._seen_files:
            return
        self._seen_files.add(place)
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            # An index stores paths as text; a name that is not text could never be shown or opened again.
            self._problem(ascii(path)[1:-1], "has a name that is not valid Unicode; rename the file")
            return
        self.found.files.append(path)

    def _unreadable(self, error: OSError) -> None:
        self._problem(str(error.filename), f"cannot be listed: {error.strerror}")

    def _problem(self, path: str, reason: str) -> None:
        self.found.problems.append(FileProblem(path, reason))


def _glob(pattern: str) -> Iterator[str]:
    """Like glob.glob(recursive=True), which two links to a folder above keep busy for ever."""
    before, any_depth, after = f"{os.sep}{pattern}{os.sep}".partition(f"{os.sep}**{os.sep}")
    if not any_depth:
        yield from glob.glob(pattern)
        return
    top = f"{before}{os.sep}"[1:]  # empty, or it ends with a separator
    for start in glob.glob(top) if top else [os.curdir]:
        for folder in _folders(start):
            yield from _glob(os.path.join(glob.escape(folder), after[:-1])) if after else [folder]


def _folders(top: str) -> Iterator[str]:
    """A folder and those below it, each once, however many links lead to it."""
    seen: set[str] = set()
    for folder, below, _ in os.walk(top, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            below.clear()
            continue
        seen.add(real)
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield folder


def _place(path: str) -> str:
    """The same for every way that leads to a file through links to folders; links to files are files."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _order(path: str) -> tuple[str, ...]:
    return tuple(path.split(os.sep))
