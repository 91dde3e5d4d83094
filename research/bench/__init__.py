"""I have a machine, tell me how fast the search is here, beside the other engines."""

from __future__ import annotations

from research.bench.corpus import CorpusSpec, generate, make_queries

__all__ = ["CorpusSpec", "generate", "make_queries"]
