"""How much two-stage search loses on real vectors: the share of the exact top k that it finds.

    vsplade eval DATASET_DIR --keep-vectors vectors.npz
    python -m research.bench.two_stage vectors.npz DATASET_DIR

Several pairs of a data set and its vectors make one larger corpus, with the queries of all.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from research.command import main, option
from research.two_stage import TwoStage, TwoStageIndex, term_values
from vsplade.encode import load_encoder
from vsplade.errors import InputError
from vsplade.evaluate import load_dataset
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter


@dataclass(frozen=True)
class TwoStageOptions:
    pairs: tuple[Path, ...] = option("vectors.npz DATASET_DIR, one or more pairs.", argument=True)
    encoder: str | None = option("The encoder that made the vectors.", None)
    k: tuple[int, ...] = option("Results a query.", (10, 100))
    terms: tuple[int, ...] = option("Terms kept of a page.", (10, 25, 50, 100))
    factor: tuple[int, ...] = option("Pages proposed: k times so many.", (1, 2, 10))


def two_stage(options: TwoStageOptions) -> str:
    """How much two-stage search loses on real vectors, as a table."""
    if len(options.pairs) % 2:
        raise InputError("Give pairs: vectors.npz DATASET_DIR.")
    encoder = load_encoder(options.encoder)
    queries: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        with IndexWriter(folder, encoder) as writer:
            for vectors, dataset in zip(options.pairs[::2], options.pairs[1::2], strict=True):
                queries += load_dataset(dataset).queries.values()
                for page, vector in PageVectors.load(vectors).items():
                    writer.add(f"{dataset.name}/{page}", vector)
        index = Index.open(folder, encoder)
        terms_a_page = index.statistics()["postings"] / len(index)
        asked = [index.encode_query(query) for query in queries]
        values = term_values(encoder)
        lines = [
            f"{len(index)} pages of {terms_a_page:.0f} terms, {len(queries)} queries\n",
            "| k | terms | " + " | ".join(f"{factor}k proposed" for factor in options.factor) + " |",
            "|---|---|" + "---|" * len(options.factor),
        ]
        for k, terms in product(options.k, options.terms):
            ways = [TwoStageIndex(index, TwoStage(terms, factor * k), values) for factor in options.factor]
            shares = " | ".join(f"{way.recall(asked, k):.4f}" for way in ways)
            lines.append(f"| {k} | {terms} | {shares} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main(two_stage, TwoStageOptions)
