"""Floating-point operations to answer one query: encoding it, and scoring 1,000 pages.

A multiply-add counts as one operation, as fvcore and the paper count them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vsplade.errors import MissingExtraError

PAGES = 1000
AUGMENTED = 10
"""Tokens that the processors of the ColPali family put behind a query."""
CHAT_TEMPLATE = 20
"""Tokens of Qwen3-VL-Embedding's chat template with its default instruction, by our count."""
PAGE_VECTORS = 832
"""Of ColModernVBERT for an A4 page: 13 tiles of 64."""


@dataclass(frozen=True, slots=True)
class Transformer:
    """The shape of a query encoder; gated feed-forward layers have three matrices, plain ones two."""

    layers: int
    width: int
    hidden: int
    """Width of the feed-forward layer."""
    gated: bool = False
    output: int = 0
    """Width of a projection of every token at the end (late interaction)."""

    def operations(self, tokens: int) -> int:
        """Matrix products of one forward pass; additions, norms and lookups are left out, as usual."""
        attention = 4 * tokens * self.width**2 + 2 * tokens**2 * self.width
        feed_forward = (3 if self.gated else 2) * tokens * self.width * self.hidden
        return self.layers * (attention + feed_forward) + tokens * self.width * self.output


MINILM = Transformer(layers=6, width=384, hidden=1536)
MODERNBERT = Transformer(layers=22, width=768, hidden=1152, gated=True)
"""The text tower of BiModernVBERT and ColModernVBERT (ModernBERT base)."""
QWEN3_2B = Transformer(layers=28, width=2048, hidden=6144, gated=True)
"""Qwen3-VL-Embedding-2B's language model, with full-width key and value matrices: an upper estimate."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What one query costs in one way of serving."""

    name: str
    encode: int
    score: float

    @property
    def total(self) -> float:
        return self.encode + self.score

    def to_json(self) -> dict[str, object]:
        return {
            "system": self.name,
            "encode": self.encode,
            "score": round(self.score),
            "total": round(self.total),
        }


def sparse(name: str, shared_terms: float, pages: int = PAGES) -> Serving:
    """``shared_terms`` is the FLOPS measure: terms that a query and a page share on average."""
    return Serving(name, 0, shared_terms * pages)


def dense(name: str, encoder: Transformer, tokens: int, width: int, pages: int = PAGES) -> Serving:
    return Serving(name, encoder.operations(tokens), width * pages)


def late_interaction(
    name: str, encoder: Transformer, tokens: int, page_vectors: int, width: int, pages: int = PAGES
) -> Serving:
    """MaxSim: every query vector against every vector of every page."""
    return Serving(name, encoder.operations(tokens), tokens * page_vectors * width * pages)


def serving_table(shared_terms: float, query_tokens: int) -> list[Serving]:
    """The regimes that the paper compares, with a measured sparse cost and an average query length. Neural
    encoders are given what their own processors add to a query.
    """
    tokens = query_tokens + 2  # begin and end
    augmented, chat = tokens + AUGMENTED, query_tokens + CHAT_TEMPLATE
    col = Transformer(MODERNBERT.layers, MODERNBERT.width, MODERNBERT.hidden, gated=True, output=128)
    return [
        sparse("sparse, inverted index", shared_terms),
        dense("dense: MiniLM, 384 wide", MINILM, tokens, 384),
        dense("dense: BiModernVBERT, 768 wide", MODERNBERT, augmented, 768),
        dense("dense: Qwen3-VL-Embedding-2B, 2,048 wide", QWEN3_2B, chat, 2048),
        late_interaction("late interaction: ColModernVBERT, 128 wide", col, augmented, PAGE_VECTORS, 128),
    ]


def counted(model: Any, inputs: Any) -> int:
    """fvcore's count of a torch module's forward pass, for checking the formula."""
    try:
        from fvcore.nn import FlopCountAnalysis
    except ImportError as error:
        raise MissingExtraError("Counting with fvcore", "dense") from error
    analysis = (
        FlopCountAnalysis(model, inputs).unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    )
    return int(analysis.total())
