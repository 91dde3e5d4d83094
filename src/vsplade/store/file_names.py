"""The names of an index's own files. Only what has exactly such a name is ever removed or replaced."""

from __future__ import annotations

import re
import stat
from pathlib import Path

MANIFEST = "MANIFEST"
LOCK = "LOCK"
SET_ASIDE = ".damaged"
"""Added to the name of a file that could not be trusted: it is kept, and never touched again."""

_ENDINGS = {"segment": "vsp", "deleted": "bits", "state": "json", "weights": "f32"}
_NUMBERED = re.compile(r"(segment|deleted|state|weights)-([0-9]{8,15})\.([a-z0-9]+)")
_SPARE = re.compile(r"(.+?)(?:\.[0-9]+)?\.new")
_LITTER = frozenset({".DS_Store", ".gitignore", ".gitkeep", "Thumbs.db", "desktop.ini"})
"""What systems and version control leave in folders: no reason to refuse one."""


def parse_name(name: str) -> tuple[str, int] | None:
    """("segment", 7) for ``segment-00000007.vsp``; None for a name that is not exactly of that form."""
    match = _NUMBERED.fullmatch(name)
    if match is None or _ENDINGS[match[1]] != match[3]:
        return None
    return match[1], int(match[2])


def is_numbered(name: object, kind: str) -> bool:
    parsed = parse_name(name) if isinstance(name, str) else None
    return parsed is not None and parsed[0] == kind


def is_spare(name: str) -> bool:
    """A file that a writer of an index had not finished."""
    match = _SPARE.fullmatch(name)
    return match is not None and (match[1] == MANIFEST or parse_name(match[1]) is not None)


def is_plain_file(path: Path) -> bool:
    """Not a folder, a link or a pipe."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def own_files(folder: Path, kind: str) -> list[Path]:
    """The files of a kind, oldest first."""
    found = [path for path in folder.iterdir() if is_numbered(path.name, kind) and is_plain_file(path)]
    return sorted(found, key=lambda path: int(_NUMBERED.fullmatch(path.name)[2]))  # type: ignore[index]


def last_number(folder: Path) -> int:
    """The largest number that a file of the index has or had; 0 where there is none."""
    names = (path.name.removesuffix(SET_ASIDE).removesuffix(".new") for path in folder.iterdir())
    return max((parsed[1] for name in names if (parsed := parse_name(name))), default=0)


def strangers(folder: Path) -> list[str]:
    """What lies in the folder and is not of an index."""
    return sorted(
        path.name
        for path in folder.iterdir()
        if not (
            path.name in (MANIFEST, LOCK)
            or path.name in _LITTER
            or is_spare(path.name)
            or parse_name(path.name.removesuffix(SET_ASIDE))
            or path.name.startswith(MANIFEST + SET_ASIDE)
        )
    )


class FileNames:
    """Numbers for new files: only ever larger, so that no name is used twice."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        self.number = number

    def new(self, kind: str) -> Path:
        self.number += 1
        return self._folder / f"{kind}-{self.number - 1:08d}.{_ENDINGS[kind]}"


def set_aside(path: Path) -> Path:
    """Rename a file that cannot be trusted; nothing is overwritten."""
    target, again = path.with_name(path.name + SET_ASIDE), 2
    while target.exists() or target.is_symlink():
        target = path.with_name(f"{path.name}{SET_ASIDE}.{again}")
        again += 1
    path.rename(target)
    return target
