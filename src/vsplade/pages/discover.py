"""From what a person typed to a list of files: files, folders, globs, and a list on standard input."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO

from vsplade.errors import InputError
from vsplade.pages.naming import SUFFIXES, is_supported

STDIN = "-"


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A file (or one page of it) that could not be used, and why."""

    path: str
    reason: str
    page: int | None = None


@dataclass(slots=True)
class Discovery:
    """Files in a stable order (arguments as given, folders sorted), without repeats, as absolute paths."""

    files: list[str] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)


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
            self._problem(path, f"is not a page format; known endings are {', '.join(sorted(SUFFIXES))}")
        else:
            self._add_file(path)

    def add_glob(self, pattern: str) -> None:
        matches = sorted(glob.glob(pattern, recursive=True), key=_order)
        if not matches:
            self._problem(pattern, "matches no file")
        for match in matches:
            if os.path.isdir(match):
                self._add_folder(match)
            elif os.path.isfile(match) and is_supported(match):
                self._add_file(match)

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
                if not name.startswith(".") and is_supported(name):
                    if os.path.isfile(path):
                        self._add_file(path)
                    elif os.path.islink(path):
                        self._problem(path, "is a link to a file that does not exist")

    def _add_file(self, path: str) -> None:
        path = os.path.abspath(path)
        if path in self._seen_files:
            return
        self._seen_files.add(path)
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


def _order(path: str) -> tuple[str, ...]:
    return tuple(path.split(os.sep))
