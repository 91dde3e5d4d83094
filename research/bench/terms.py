"""Does the reader see the words that are on the page? ``python -m research.bench.terms FILE.pdf... --json``

Pages of PDFs with a text layer are read from pixels alone and compared with that layer: the share of the top
30, 50 and 100 terms that stand on the page (the paper's diagnostic), and recall and precision of the page's
terms.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import numpy as np

from research.experiments.grounding import TOPS
from vsplade.encode import load_encoder
from vsplade.encode.reader.bigrams import hashed
from vsplade.encode.tokenizer import Tokenizer
from vsplade.pages import FileProblem, discover, name_files, render


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--encoder", default="reader")
    parser.add_argument("--pages", type=int, default=300, help="a random sample of so many pages")
    parser.add_argument("--words", type=int, default=50, help="skip pages with fewer words than this")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    encoder, tokenizer = load_encoder(options.encoder), Tokenizer.load()
    results = render(name_files(discover(options.files).files), encoder.longest_edge)
    read = (result.page for result in results if not isinstance(result, FileProblem))
    pages = [page for page in read if len((page.text or "").split()) >= options.words]
    pages = random.Random(0).sample(pages, min(options.pages, len(pages)))
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
    report = {
        "pages": len(pages),
        **{f"top{top}": round(float(np.mean(values)), 4) for top, values in overlap.items()},
        "recall": round(found / max(1, truth), 4),
        "precision": round(found / max(1, active), 4),
        "active_terms": round(active / max(1, len(pages)), 1),
        "terms_on_page": round(truth / max(1, len(pages)), 1),
        "pairs": round(pairs / max(1, len(pages)), 1),
        "pairs_on_page": round(true_pairs / max(1, pairs), 4),
    }
    print(
        json.dumps(report)
        if options.json
        else "\n".join(f"{key:14} {value}" for key, value in report.items())
    )


if __name__ == "__main__":
    main()
