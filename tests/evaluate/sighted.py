"""An encoder that stands in for the reader, paired with the text layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vsplade.encode.text import TextEncoder
from vsplade.encode.tokenizer import Tokenizer
from vsplade.encode.with_text import PairedEncoder
from vsplade.types import Page, SparseVector, TermStatistics, Vocabulary


class Sighted:
    """Stands in for the reader: what it 'sees' of a page is in the page's metadata."""

    name = "sighted"
    fingerprint = "sighted-1"
    longest_edge = 8
    reads_grey = on_gpu = latin_only = False

    @property
    def vocabulary(self) -> Vocabulary:
        return Tokenizer.load()

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        waiting = list(pages)  # takes pages ahead of its answers, as the real one does
        for page in waiting:
            terms = Tokenizer.load().encode(str(page.metadata["seen"]))
            yield SparseVector.from_dict({term: 1.0 + terms.count(term) for term in terms})

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        return SparseVector.from_dict(dict.fromkeys(Tokenizer.load().encode(text), 1.0))


def paired() -> PairedEncoder:
    return PairedEncoder(Sighted(), TextEncoder())
