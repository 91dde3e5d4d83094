"""What a run of the job did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vsplade.pages import FileProblem


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What a run did. All counts are pages, unless they say otherwise."""

    files: int
    """Files that were found."""
    pages: int
    """Pages of these files that are in the index now: new, updated and skipped ones."""
    new: int
    updated: int
    """Of files whose content or metadata had changed."""
    skipped: int
    """In the index already, unchanged."""
    removed: int
    """Of files that are gone, or that have fewer pages now."""
    empty: int
    """New or updated, but without any term: a search can never find them."""
    failures: tuple[FileProblem, ...]
    seconds: float
    moved: int = 0
    """Kept, though their file has another name or folder now; they count as skipped, too."""
    illegible: Mapping[str, int] = field(default_factory=dict)
    """By file: new or updated pages in a script that the encoder does not know. Searches hardly find them."""
    passed_over: Mapping[str, int] = field(default_factory=dict)
    """By ending: files in the folders that are of other kinds."""

    @property
    def failed(self) -> int:
        """Files, or single pages of files, that could not be read. They are tried again next time."""
        return len(self.failures)

    @property
    def pages_per_s(self) -> float:
        return (self.new + self.updated) / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """For ``json.dumps``."""
        files = [{"path": path, "pages": pages} for path, pages in self.illegible.items()]
        apart = {"illegible": sum(self.illegible.values()), "illegible_files": files}
        counts = (
            asdict(self)
            | apart
            | {"seconds": round(self.seconds, 3), "pages_per_s": round(self.pages_per_s, 2)}
        )
        return counts | {"failed": self.failed, "failures": [asdict(problem) for problem in self.failures]}
