"""What of an index is out of reach, because segments of it are damaged: the others can still be searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

SHOWN, LONGEST = 10, 300
"""Names in a message, and characters of each; all of them are in ``Damage.sources``."""
TOLD = 100
"""Files and segments that go with every answer of a server."""


@dataclass(frozen=True, slots=True)
class DamagedPart:
    """A segment that must not be read, and why."""

    path: Path
    reason: str
    pages: int
    """That are live in it, as the manifest says."""
    read_whole: bool = False
    """Only reading all of it told: to open it again would not."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Pages that no search finds until the index is repaired."""

    parts: tuple[DamagedPart, ...]
    searched: int
    """Pages that are not out of reach."""
    sources: tuple[str, ...]
    """The files to index again, where the index still knows them."""

    @property
    def pages(self) -> int:
        """That are out of reach."""
        return sum(part.pages for part in self.parts)

    @property
    def summary(self) -> str:
        """Without names of files and folders: a server tells these to nobody."""
        return (
            f"{self.pages:,} of {self.pages + self.searched:,} pages are out of reach: a part of the index "
            f"is damaged. Only the rest is searched."
        )

    @property
    def message(self) -> str:
        """Which pages, why, and what to do."""
        folders = dict.fromkeys(str(part.path.parent) for part in self.parts)
        repair = " and ".join(f"`vsplade index --recover --index {folder}`" for folder in folders)
        again = f", then index again: {listed(self.sources)}" if self.sources else ""
        what = listed([f"{part.path.name} ({part.reason})" for part in self.parts])
        return f"{self.summary} Damaged: {what}. Run {repair}{again}."

    def to_json(self) -> dict[str, Any]:
        """For other programs."""
        return {**self.brief(True), "files": list(self.sources), "message": self.message}

    def brief(self, paths: bool) -> dict[str, Any]:
        """The same with some of the files only, to go with every answer of a server; without ``paths``, they
        are told by their bare names."""
        sources = self.sources[:TOLD]
        return {
            "pages": self.pages,
            "segments": [part.path.name for part in self.parts[:TOLD]],
            "files": list(sources if paths else dict.fromkeys(Path(one).name for one in sources)),
            "message": self.summary,
        }


class _Index(Protocol):
    """A commit, or an index as users hold it."""

    @property
    def damage(self) -> Damage | None: ...

    @property
    def pages(self) -> int: ...


def damage_of(indexes: Sequence[_Index]) -> Damage | None:
    """Of several, as one index of all their pages would tell it."""
    found = [index.damage for index in indexes if index.damage is not None]
    if not found:
        return None
    sources = dict.fromkeys(source for damage in found for source in damage.sources)
    parts = tuple(part for damage in found for part in damage.parts)
    return Damage(parts, sum(index.pages for index in indexes), tuple(sources))


def listed(names: Sequence[str]) -> str:
    return ", ".join(name[:LONGEST] for name in names[:SHOWN]) + (
        f" and {len(names) - SHOWN} more" if names[SHOWN:] else ""
    )
