"""How much two-stage search loses on real vectors: the share of the exact top k that it finds.

    vsplade eval DATASET_DIR --keep-vectors vectors.npz
    python -m research.bench.two_stage vectors.npz DATASET_DIR

Several pairs of a data set and its vectors make one larger corpus, with the queries of all.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from research.two_stage import TwoStage, TwoStageIndex, term_values
from vsplade.encode import load_encoder
from vsplade.evaluate import load_dataset
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", nargs="+", type=Path, help="vectors.npz DATASET_DIR, one or more pairs")
    parser.add_argument("--encoder", help="the encoder that made the vectors")
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--terms", type=int, nargs="+", default=[10, 25, 50, 100])
    parser.add_argument("--factor", type=int, nargs="+", default=[1, 2, 10], help="pages proposed: k times")
    options = parser.parse_args()
    if len(options.pairs) % 2:
        parser.error("give pairs: vectors.npz DATASET_DIR")
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
        print(f"{len(index)} pages of {terms_a_page:.0f} terms, {len(queries)} queries\n")
        asked = [index.encode_query(query) for query in queries]
        values = term_values(encoder)
        print("| k | terms | " + " | ".join(f"{factor}k proposed" for factor in options.factor) + " |")
        print("|---|---|" + "---|" * len(options.factor))
        for k in options.k:
            for terms in options.terms:
                shares = [
                    TwoStageIndex(index, TwoStage(terms, factor * k), values).recall(asked, k)
                    for factor in options.factor
                ]
                print(f"| {k} | {terms} | " + " | ".join(f"{share:.4f}" for share in shares) + " |")


if __name__ == "__main__":
    main()
