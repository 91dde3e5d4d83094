"""Results: what was found, why, and how it looks.

Hits of an index cost little to make: only the id and the score are at hand, the rest is read when looked at.
A search makes hundreds of hits, and most are never asked for their metadata or for an explanation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, overload

from vsplade.search.by_document import Support
from vsplade.search.explain import MeantBy, explain, explain_document, explain_meaning, match_words
from vsplade.search.query_plan import HasIds, Ranking
from vsplade.types import Json, Metadata, QueryWord, SparseVector, TermMatch, WordMatch

if TYPE_CHECKING:
    from PIL import Image

    from vsplade.search.marks import Mark
    from vsplade.search.page_view import PageView

_set = object.__setattr__  # a Hit is frozen; these are its first values


@dataclass(frozen=True, slots=True)
class Hit:
    """One result. ``doc_id`` and ``page_num`` follow the field's habit; ``id`` names the page."""

    id: str
    score: float
    doc_id: str
    page_num: int
    metadata: Metadata = field(hash=False)
    matches: Sequence[TermMatch] = field(default=(), hash=False)
    words: Sequence[WordMatch] = field(default=(), hash=False)
    """The query's words, and whether the page holds each: as a whole, in part or not. Empty where the query
    was a vector, or the encoder knows no whole words.
    """

    def explain(self) -> Sequence[TermMatch]:
        """Matched terms, largest contribution first; the products add up to ``score``."""
        return self.matches

    def image(self, longest_edge: int = 1600, *, marked: bool = False) -> Image.Image:
        """The page, rendered from its file now; ``marked`` with the query's words as by a highlighter."""
        from vsplade.search.page_view import draw_marks, place_of, shared_page_views

        image = shared_page_views().image(*place_of(self.id, self.metadata), longest_edge)
        return draw_marks(image, [mark.box for mark in self.boxes()]) if marked else image

    def boxes(self) -> list[Mark]:
        """The query's words on the page: each with its text, its ``box`` and its weight.

        From the file's text layer, or read from the pixels where there is none.
        """
        return list(self.view().marks)

    def snippet(self, words: int = 28) -> str:
        """The words around the place where most of the query stands together."""
        return self.view().snippet(words).text

    def view(self) -> PageView:
        """The page's words, and those of the query among them."""
        from vsplade.search.page_view import place_of, shared_page_views

        return shared_page_views().view(*place_of(self.id, self.metadata), self.explain())


class FoundPages(HasIds, Protocol):
    """Where the pages of a ranking are looked up by their numbers; a ``Snapshot`` is one."""

    def vector(self, number: int) -> SparseVector: ...

    def metadata(self, number: int) -> Metadata: ...


@dataclass(frozen=True, slots=True)
class SearchContext:
    """The search that hits came from: what they need to fill themselves in."""

    pages: FoundPages
    query: SparseVector
    token: Callable[[int], str]
    """Names terms."""
    words: Callable[[], Sequence[QueryWord]]
    """Of the query, where they are known."""
    meaning: float = 0.0
    """What a cosine of the page with the query adds to the score."""
    meant_by: MeantBy = lambda asked, page: []
    """The words of a page that come nearest to each of some words of the query."""
    support: Support | None = None
    """What the best pages add to others of their documents."""


class StoredHit(Hit):
    """A Hit of an index. Attributes that are not set yet come from ``__getattr__``, once."""

    __slots__ = ("_number", "_search")
    _search: SearchContext
    _number: int

    def __getattr__(self, name: str) -> Any:
        if name == "matches":
            search = self._search
            vector, words = search.pages.vector(self._number), search.words()
            matches = explain(search.query, vector, search.token, words)
            matches += explain_meaning(search.query, vector, words, search.meaning, search.meant_by)
            _set(self, name, [*matches, *explain_document(matches, self.metadata, search.support)])
        elif name == "words":
            words = self._search.words()
            if words:
                _set(self, name, match_words(words, self._search.pages.vector(self._number)))
            else:
                _set(self, name, ())
        elif name in ("metadata", "doc_id", "page_num"):
            metadata = self._search.pages.metadata(self._number)
            _set(self, "metadata", metadata)
            _set(self, "doc_id", _doc_id(self.id, metadata))
            _set(self, "page_num", _page_num(metadata))
        else:
            raise AttributeError(f"a hit has no attribute {name!r}")
        return object.__getattribute__(self, name)

    def __eq__(self, other: object) -> bool:
        """Also equal to a plain Hit with the same content."""
        return isinstance(other, Hit) and _content(self) == _content(other)

    __hash__ = Hit.__hash__


# The slots' own setters: a third faster than setting by name, and hits are made by the ten thousand.
_set_id, _set_score = vars(Hit)["id"].__set__, vars(Hit)["score"].__set__
_set_search, _set_number = vars(StoredHit)["_search"].__set__, vars(StoredHit)["_number"].__set__


class Hits(Sequence[Hit]):
    """A query's results, best first: reads as a list of hits does. They are made when first looked at, and
    then all together, so a batch of many queries leaves its threads nothing to do in Python."""

    __slots__ = ("_made", "_ranking", "_search")

    def __init__(self, search: SearchContext, ranking: Ranking) -> None:
        self._search = search
        self._ranking = ranking
        self._made: list[Hit] | None = None

    @property
    def hits(self) -> list[Hit]:
        if self._made is None:
            self._made = _make_hits(self._search, self._ranking)
        return self._made

    def __len__(self) -> int:
        return len(self._ranking)

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> list[Hit]: ...
    def __getitem__(self, place: int | slice) -> Hit | list[Hit]:
        return self.hits[place]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __eq__(self, other: object) -> bool:
        """Also equal to a list of the same hits."""
        if isinstance(other, Hits):
            other = other.hits
        return self.hits == other

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __reduce__(self) -> tuple[type[list[Hit]], tuple[list[Hit]]]:
        """Copied to other processes as a plain list: the index's memory stays here."""
        return list, (self.hits,)

    def __repr__(self) -> str:
        return repr(self.hits)


def _make_hits(search: SearchContext, ranking: Ranking) -> list[Hit]:
    hits: list[Hit] = []
    ids = ranking.ids(search.pages)
    for id, score, number in zip(ids, ranking.scores.tolist(), ranking.numbers.tolist(), strict=True):
        hit = StoredHit.__new__(StoredHit)
        _set_id(hit, id)
        _set_score(hit, score)
        _set_search(hit, search)
        _set_number(hit, number)
        hits.append(hit)
    return hits


def _content(hit: Hit) -> tuple[object, ...]:
    return hit.id, hit.score, hit.doc_id, hit.page_num, hit.metadata, list(hit.matches), list(hit.words)


def _doc_id(page_id: str, metadata: Mapping[str, Json]) -> str:
    for key in ("doc_id", "path"):
        value = metadata.get(key)
        if isinstance(value, str):
            return value
    return page_id


def _page_num(metadata: Mapping[str, Json]) -> int:
    value = metadata.get("page_num")
    return value if isinstance(value, int) else 1
