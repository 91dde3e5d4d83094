"""Two-stage search: a pruned index proposes pages, full vectors rescore them. Which terms of a page the first
stage keeps is decided in ``index.first_stage``.

Not exact: a page whose kept terms miss the query is never proposed. ``recall`` says how often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vsplade.errors import InputError
from vsplade.search.query_plan import Ranking


@dataclass(frozen=True, slots=True)
class TwoStage:
    terms: int = 50
    """Terms of a page that the first stage keeps, on average."""
    pages: int = 0
    """Pages that the first stage proposes; 0: ten times k, at least 100."""
    plain: bool = False
    """The heaviest terms of every page, as many of each, as in the paper."""

    def __post_init__(self) -> None:
        if self.terms < 1 or self.pages < 0:
            raise InputError(
                f"two-stage search with {self.terms} terms and {self.pages} pages is not possible."
            )

    def proposed(self, k: int) -> int:
        return max(self.pages or max(10 * k, 100), k)


def recall(exact: Sequence[Ranking], two_stage: Sequence[Ranking]) -> float:
    """Mean share of the exact results that two-stage search also finds; queries without results left out."""
    shares = []
    for right, found in zip(exact, two_stage, strict=True):
        wanted = set(right.numbers.tolist())
        if wanted:
            shares.append(len(wanted & set(found.numbers.tolist())) / len(wanted))
    return sum(shares) / len(shares) if shares else 1.0
