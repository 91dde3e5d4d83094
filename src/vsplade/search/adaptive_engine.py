"""Which engine answers: numpy until the compiled one has paid for its start, then the compiled one.

Loading numba takes about a second (several when its cache is empty); numpy adds up some 100 million postings
a second. So a process that asks one question never loads numba, and one that asks many soon does.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np

from vsplade.errors import InputError
from vsplade.search.numpy_engine import NumpyEngine
from vsplade.search.query_plan import Engine, Searchable
from vsplade.types import SparseVector

ENGINES = ("auto", "numpy", "numba")
SWITCH_AFTER = 50_000_000
"""Postings added up by numpy before the compiled engine takes over."""


def checked_engine(choice: str) -> str:
    if choice not in ENGINES:
        raise InputError(f"unknown engine {choice!r}; use one of {', '.join(ENGINES)}.")
    return choice


class AdaptiveEngine:
    """Gives the same results whichever engine answers."""

    def __init__(self, parts: Sequence[Searchable], choice: str, budget: WorkBudget) -> None:
        self._parts = parts
        self._plain = NumpyEngine(parts)
        self._choice = choice
        self._budget = budget
        self._compiled: Engine | None = None

    def prepare(self, query: SparseVector, queries: int = 1) -> Engine:
        """The engine for ``queries`` more queries like this one."""
        if self._choice == "numpy":
            return self._plain
        if self._compiled is None and (
            self._choice == "numba" or self._budget.spend(queries * self._plain.work(query))
        ):
            self._compiled = self.compile()
        return self._compiled or self._plain

    def compile(self) -> Engine:
        from vsplade.search.native.engine import CompiledEngine

        return CompiledEngine(self._parts)

    def warm_up(self) -> None:
        """Load and compile now, and use the compiled engine from now on."""
        if self._choice != "numpy" and self._compiled is None:
            self._compiled = self.compile()
        if self._compiled is not None:
            anything = SparseVector(np.zeros(1, dtype=np.uint32), np.ones(1, dtype=np.float32))
            self._compiled.search([anything], 1, [None] * len(self._parts))


class WorkBudget:
    """How much numpy may still do before numba is worth its start; shared by all engines of an index."""

    def __init__(self, postings: int = SWITCH_AFTER) -> None:
        self._left = postings
        self._lock = Lock()

    def spend(self, postings: int) -> bool:
        """Whether the budget is used up."""
        with self._lock:
            self._left -= postings
            return self._left < 0
