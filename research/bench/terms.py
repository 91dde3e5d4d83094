"""Does the reader see the words that are on the page? ``python -m research.bench.terms FILE.pdf... --json``

Pages of PDFs with a text layer are read from pixels alone and compared with that layer: the share of the top
30, 50 and 100 terms that stand on the page (the paper's diagnostic), and recall and precision of the page's
terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from research.bench.measured import text_layer_pages
from research.command import main, option
from research.experiments.grounding import TOPS
from vsplade.encode import load_encoder
from vsplade.encode.reader.bigrams import hashed
from vsplade.encode.tokenizer import Tokenizer


@dataclass(frozen=True)
class TermsOptions:
    files: tuple[Path, ...] = option("PDFs with a text layer.", argument=True)
    encoder: str = option("What reads them.", "reader")
    pages: int = option("A random sample of so many pages.", 300)
    words: int = option("Skip pages with fewer words than this.", 50)


def terms(options: TermsOptions) -> dict[str, Any]:
    """Does the reader see the words that are on the page? Judged by the text layers of PDFs."""
    encoder, tokenizer = load_encoder(options.encoder), Tokenizer.load()
    pages = text_layer_pages(options.files, encoder.longest_edge, options.words, options.pages)
    overlap: dict[int, list[float]] = {top: [] for top in TOPS}
    found = truth = active = pairs = true_pairs = 0
    for page, vector in zip(pages, encoder.encode_pages(pages), strict=True):
        in_order = np.array(tokenizer.encode(page.text or ""), np.int64)
        words = set(in_order.tolist())
        beyond = set((hashed(in_order[:-1], in_order[1:]) + len(tokenizer)).tolist())
        for top in TOPS:
            best = vector.terms[np.argsort(-vector.weights, kind="stable")[:top]]
            overlap[top].append(sum(int(term) in words for term in best) / max(1, len(best)))
        found += sum(int(term) in words for term in vector.terms)
        truth += len(words)
        single = int((vector.terms < len(tokenizer)).sum())
        active += single
        pairs += len(vector) - single
        true_pairs += sum(int(term) in beyond for term in vector.terms[single:])
    return {
        "pages": len(pages),
        **{f"top{top}": round(float(np.mean(values)), 4) for top, values in overlap.items()},
        "recall": round(found / max(1, truth), 4),
        "precision": round(found / max(1, active), 4),
        "active_terms": round(active / max(1, len(pages)), 1),
        "terms_on_page": round(truth / max(1, len(pages)), 1),
        "pairs": round(pairs / max(1, len(pages)), 1),
        "pairs_on_page": round(true_pairs / max(1, pairs), 4),
    }


if __name__ == "__main__":
    main(terms, TermsOptions)
