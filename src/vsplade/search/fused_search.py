"""One query, several retrievers, one list of hits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from vsplade.encode.with_text import PairedEncoder
from vsplade.errors import InputError
from vsplade.search.fuse import fuse
from vsplade.search.hits import Hit
from vsplade.search.page_index import FilterLike, PageIndex
from vsplade.search.syntax import parse
from vsplade.types import TermMatch

CANDIDATES = 100
"""Results fetched from each retriever, as the paper does: scaling scores needs more than the few that are
shown.
"""
READER_AND_TEXT = (0.8, 0.2)
"""The weights of ``--fuse``: the paper's 0.7 and 0.3 lose more with a poor text (docs/evaluation.md)."""


@dataclass(frozen=True, slots=True)
class Source:
    """One retriever: how to search it, and whether it sees a page at all."""

    search: Callable[[str, int, FilterLike], list[Hit]]
    sees: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class FusedHit(Hit):
    """A hit of several retrievers. ``explain`` lists the matches of each; they do not add up to ``score``."""

    parts: tuple[float | None, ...] = ()
    """The page's own score by each retriever; ``None`` where it was not among its results."""


def whole(index: PageIndex, words_only: bool = False) -> Source:
    """An index as it searches by itself; a page without any term in it is one that it does not see."""
    return Source(
        lambda query, k, filter: index.search(query, k, filter, words_only=words_only),
        lambda page: page in index and len(index.vector(page)) > 0,
    )


def text_layer(index: PageIndex) -> Source:
    """The text layers in an index that was built with ``reader+text``."""
    encoder = index.encoder
    if not isinstance(encoder, PairedEncoder):
        name = encoder.name
        raise InputError(
            f"This index was built with the encoder {name!r} and has no text layers to fuse with. Index the "
            f"files with --encoder {name}+text into a new folder, or name a second index with --fuse-with."
        )

    def search(query: str, k: int, filter: FilterLike) -> list[Hit]:
        vector = encoder.encode_text_query(parse(query).text, index)
        return index.search(vector, k, filter, where=query)

    return Source(search, lambda page: page in index and encoder.has_text(index.vector(page)))


def fused_search(
    sources: Sequence[Source],
    query: str,
    k: int = 10,
    weights: Sequence[float] | None = None,
    method: str = "rsf",
    filter: FilterLike = None,
    depth: int = CANDIDATES,
) -> list[FusedHit]:
    """The ``k`` best pages by all sources together; equal weights when none are given.

    A page that a source does not see (no text layer, not in that index) is ranked by the others alone.
    """
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}.")
    lists = [{hit.id: hit for hit in source.search(query, max(k, depth), filter)} for source in sources]
    pages = list(dict.fromkeys(page for hits in lists for page in hits))
    unseen = [
        {page for page in pages if page not in hits and not source.sees(page)}
        for source, hits in zip(sources, lists, strict=True)
    ]
    scores = [{page: hit.score for page, hit in hits.items()} for hits in lists]
    ranked = fuse(scores, weights, method, unseen)
    return [_join(page, score, lists) for page, score in list(ranked.items())[:k]]


def _join(page: str, score: float, lists: Sequence[Mapping[str, Hit]]) -> FusedHit:
    found = [hits.get(page) for hits in lists]
    first = next(hit for hit in found if hit is not None)
    matches: list[TermMatch] = [match for hit in found if hit is not None for match in hit.explain()]
    parts = tuple(None if hit is None else hit.score for hit in found)
    words = next((hit.words for hit in found if hit is not None and hit.words), ())
    return FusedHit(page, score, first.doc_id, first.page_num, first.metadata, matches, words, parts)
