"""What does meaning add to the time of a search, and how many of the nearest pages does its scan find?

    python -m research.bench.meaning_search --texts texts.txt --pages 100000 --pages 1000000 --json

One index of the made-up corpus, whose pages have windows of meaning too, is searched by words alone, then by
words and meaning. With ``--pisa`` PISA's MaxScore answers the same queries by words, in the same run.

Windows are mixed from real ones: of the texts (a line each), encoded as pages are. A window is one of them,
plus a share of another, plus noise. Directions are of real questions.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.bench.corpus import CorpusSpec, Piece, make_queries
from research.bench.engines import Engine, Vsplade
from research.bench.peers import Pisa
from research.bench.worker import measure, summary
from research.command import main, option
from vsplade.encode.meaning.meaning_model import MeaningModel, rounded
from vsplade.search.by_meaning import DEPTH
from vsplade.types import Direction, SparseVector, Windows

QUESTIONS = Path(__file__).parents[1] / "meaning" / "questions.tsv"
WINDOWS_A_PAGE = (1, 2, 3)
OTHER, NOISE = 0.6, 0.2
"""Shares of another window and of noise in a made-up one, at most and on average."""
NEAREST = 10

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class MeaningSearchOptions:
    texts: Path = option("Texts that windows are made of, one a line; the windows are kept beside it.")
    pages: tuple[int, ...] = option("Corpus sizes.", (100_000,))
    queries: int = option("Queries to run.", 200)
    k: int = option("Results a query.", 10)
    pisa: bool = option("Time PISA's MaxScore on the same words.", False)
    folder: Path | None = option("Build the indexes here (4 kB a page), not in the temporary folder.", None)


def bench(options: MeaningSearchOptions) -> dict[str, Any]:
    """Words alone, words and meaning, and (with --pisa) PISA: processor times of a query, and recall."""
    real = _real_windows(options.texts)
    rows = []
    for pages in options.pages:
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="vsplade-bench-") as work:
            for row in _rows(CorpusSpec(pages), real, options, Path(work)):
                print(row, file=sys.stderr, flush=True)
                rows.append(row)
    return {"real_windows": len(real), "queries": options.queries, "k": options.k, "rows": rows}


def _rows(
    spec: CorpusSpec, real: Vectors, options: MeaningSearchOptions, work: Path
) -> Iterator[dict[str, Any]]:
    queries = make_queries(spec, options.queries)
    asked = [
        SparseVector(query.terms, query.weights, direction)
        for query, direction in zip(queries, _directions(options.queries), strict=True)
    ]
    engine = VspladeMeaning(real)
    (work / "ours").mkdir()
    built = engine.build(spec, work / "ours")
    shared = {"pages": spec.pages, "bytes": engine.bytes(), "build_s": round(built, 1)}
    yield {"search": "words", **shared, **_times(engine, queries, options.k)}
    yield {"search": "words and meaning", **shared, **_times(engine, asked, options.k)}
    yield {"search": "nearest pages alone", "pages": spec.pages, **engine.scan(asked)}
    if options.pisa:
        (work / "pisa").mkdir()
        peer = Pisa()
        peer.build(spec, work / "pisa")
        yield {"search": "PISA, words", "pages": spec.pages, **_times(peer, queries, options.k)}


def _times(engine: Engine, queries: list[SparseVector], k: int) -> dict[str, float]:
    """The best of three rounds, by processor time."""
    rounds = [measure(engine, queries, k) for _ in range(3)]
    milliseconds, _, processor = min(rounds, key=lambda one: one[2])
    return {"processor_ms": round(processor, 4), **{k: round(v, 4) for k, v in summary(milliseconds).items()}}


class VspladeMeaning(Vsplade):
    """Pages with windows."""

    def __init__(self, real: Vectors) -> None:
        super().__init__()
        self._real = real
        self._centres = MeaningModel.load()._centroids

    def meaning(self, piece: Piece) -> list[Windows | None]:
        rng = np.random.default_rng([5, piece.first_page])
        counts = rng.choice(WINDOWS_A_PAGE, len(piece))
        mixed = self._mixed(rng, int(counts.sum()))
        clusters = np.concatenate([(part @ self._centres.T).argmax(axis=1) for part in _parts(mixed)])
        codes, ends = rounded(mixed), np.cumsum(counts)
        spans = [slice(int(end - count), int(end)) for count, end in zip(counts, ends, strict=True)]
        return [Windows(codes[span], clusters[span].astype(np.uint16)) for span in spans]

    def _mixed(self, rng: np.random.Generator, count: int) -> Vectors:
        one, other = (self._real[rng.integers(len(self._real), size=count)] for _ in range(2))
        share = rng.random((count, 1), np.float32) * np.float32(OTHER)
        noise = rng.standard_normal(one.shape, np.float32) * np.float32(NOISE / np.sqrt(one.shape[1]))
        return _unit(one + share * other + noise)

    def scan(self, asked: list[SparseVector]) -> dict[str, float]:
        """The time of the scan by itself, and the share of the true nearest pages that it finds."""
        view = self._index._view
        masks = [live.live for live in view.snapshot.segments]
        directions = [query.meaning for query in asked if isinstance(query.meaning, Direction)]
        started = time.process_time()
        found = [view.meaning.nearest(direction, masks, DEPTH, compiled=True)[0] for direction in directions]
        processor = (time.process_time() - started) * 1000 / len(asked)
        exact = self._nearest(np.stack([direction.vector for direction in directions]))
        first = [len(set(a[:NEAREST].tolist()) & b) / NEAREST for a, b in zip(found, exact, strict=True)]
        among = [len(set(a.tolist()) & b) / NEAREST for a, b in zip(found, exact, strict=True)]
        return {
            "processor_ms": round(processor, 4),
            f"nearest_{NEAREST}_among_first_{NEAREST}": round(float(np.mean(first)), 4),
            f"nearest_{NEAREST}_among_{DEPTH}": round(float(np.mean(among)), 4),
        }

    def _nearest(self, vectors: Vectors) -> list[set[int]]:
        """By looking at every window."""
        best: list[list[tuple[float, int]]] = [[] for _ in vectors]
        for live in self._index._view.snapshot.segments:
            windows = live.segment.windows
            assert windows is not None
            cosines = windows.codes.astype(np.float32) @ vectors.T / windows.lengths[:, None]
            rows = np.argpartition(-cosines, 4 * NEAREST, axis=0)[: 4 * NEAREST]
            for query in range(len(vectors)):
                pages = windows.pages[rows[:, query]].astype(np.int64) + live.base
                best[query] += zip(cosines[rows[:, query], query].tolist(), pages.tolist(), strict=True)
        return [
            set(list(dict.fromkeys(page for _, page in sorted(one, reverse=True)))[:NEAREST]) for one in best
        ]


def _real_windows(texts: Path) -> Vectors:
    """Encoded once: the next run takes them from beside the texts."""
    kept = texts.with_suffix(".npy")
    if not kept.exists():
        model = MeaningModel.load()
        given = [model.encode_text(line) for line in texts.read_text("utf-8").splitlines()]
        np.save(kept, np.concatenate([windows.codes for windows in given if windows is not None]))
    codes: NDArray[np.int8] = np.load(kept, allow_pickle=False)
    return _unit(codes.astype(np.float32))


def _directions(count: int) -> list[Direction]:
    model = MeaningModel.load()
    questions = [line.split("\t")[-1] for line in QUESTIONS.read_text("utf-8").splitlines()]
    found = [model.encode_query(questions[n % len(questions)]) for n in range(count)]
    return [direction for direction in found if direction is not None]


def _parts(vectors: Vectors, size: int = 8192) -> Iterator[Vectors]:
    return (vectors[first : first + size] for first in range(0, len(vectors), size))


def _unit(vectors: Vectors) -> Vectors:
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


if __name__ == "__main__":
    main(bench, MeaningSearchOptions)
