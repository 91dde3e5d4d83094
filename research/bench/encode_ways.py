"""Which ways to encode faster pay for the paper's model, and what 8-bit products lose of its vectors.

    python -m research.bench.encode_ways --work FOLDER --out ways.json       # on a GPU, released size
    python -m research.bench.encode_ways --small --pages 8 --out small.json     # the same on a CPU, tiny

Each way: the network alone on tiles that are cut, and from files to vectors as ``vsplade index`` goes. Then
the same pages in float32, bfloat16 and float8: cosines of vectors, and how a ranking of the pages by words
drawn from them changes. Weights are random, so pages are more alike than a trained model's: a strict test.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.bench.full_size import write_model
from research.bench.paper_encoding import draw_pages, file_rate, kernel_shares, load_pages, seconds
from research.bench.paper_step import Facts
from research.paper.tower_eight import EightBitTower
from vsplade.types import SparseVector

START = time.monotonic()


@dataclass(frozen=True)
class EncodeWay:
    name: str
    options: dict[str, object] = field(default_factory=dict)
    tiles: int = 208
    """That the vision tower sees at a time."""
    files: bool = True
    profile: bool = False


WAYS = (
    EncodeWay("float8, batches of 32", {"precision": "float8", "batch": 32}, profile=True),
    EncodeWay("bfloat16, batches of 32", {"batch": 32}, profile=True),
    EncodeWay("float8, 104 tiles at a time", {"precision": "float8", "batch": 32}, 104, files=False),
    EncodeWay("float8, 416 tiles at a time", {"precision": "float8", "batch": 32}, 416, files=False),
    EncodeWay("bfloat16, batches of 16", {"batch": 16}),
    EncodeWay("float8, batches of 16", {"precision": "float8", "batch": 16}),
)


class Ways:
    def __init__(self, given: argparse.Namespace) -> None:
        import torch

        self.given = given
        work = Path(given.work or tempfile.mkdtemp())
        self.model = write_model(work / ("small" if given.small else "model"), given.small)
        self.paths = draw_pages(work / "pages", given.pages, given.workers)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.keep = Facts(Path(given.out)).add

    def encoder(self, **options: object) -> Any:
        from vsplade.encode import load_encoder

        batch = min(int(str(options.get("batch", 16))), len(self.paths) // 2)
        eight_bits = options.get("precision") == "float8"
        given = {**options, "batch": batch} | ({"precision": "bfloat16"} if eight_bits else {})
        encoder: Any = load_encoder(str(self.model), **given)
        if eight_bits:
            settings = encoder._processor.settings
            vision = encoder._model.body.vision_model
            encoder._model.tower = EightBitTower(vision, settings.mean, settings.deviation)
        return encoder

    def run(self) -> None:
        for way in WAYS[: 2 if self.given.small else None]:
            if time.monotonic() - START > self.given.limit:
                self.keep(**{way.name: "no time left"})
                continue
            try:
                self.measured(way)
            except Exception as error:  # the other ways are worth having all the same
                self.keep(**{way.name: {"failed": f"{type(error).__name__}: {error}"[:600]}})
            if way is WAYS[1]:  # the loss is wanted more than the ways after it
                self.loss()

    def measured(self, way: EncodeWay) -> None:
        import torch

        from vsplade.encode.modernvbert import tower

        on_gpu = self.device.type == "cuda"
        if on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        tower.TILES = way.tiles
        encoder = self.encoder(**way.options)
        some = load_pages(self.paths[: encoder.options.batch], encoder.longest_edge, self.given.workers)
        ready = [encoder._prepare(page.image) for page in some]
        cut = [encoder._cut(one) for one in ready]
        taken = seconds(lambda: encoder._pool(cut), self.device, self.given.repeats)
        facts: dict[str, Any] = {"network_pages_a_second": len(cut) / taken}
        taken = seconds(lambda: [encoder._cut(one) for one in ready], self.device, self.given.repeats)
        facts["cutting_ms_a_page"] = 1000 * taken / len(ready)
        self.keep(**{way.name: facts})
        if way.files:
            facts["files"] = file_rate(encoder, self.paths, self.given.workers)
        if on_gpu:
            facts["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        self.keep(**{way.name: facts})
        if on_gpu and way.profile:
            kinds, longest = kernel_shares(lambda: encoder._pool(ready), len(ready))
            self.keep(**{way.name: facts | {"kernel_ms_a_page": kinds, "longest_kernels": longest}})

    def loss(self) -> None:
        found: dict[str, list[SparseVector]] = {}
        for precision in ("float32", "bfloat16", "float8"):
            encoder = self.encoder(precision=precision)
            few = self.paths[: self.given.compared]
            pages = load_pages(few, encoder.longest_edge, self.given.workers)
            found[precision] = list(encoder.encode_pages(pages))
        exact = [dense(vectors) for vectors in found.values()]
        facts: dict[str, Any] = {"pages": len(exact[0]), "terms": float((exact[0] > 0).sum(1).mean())}
        for name, one, other in (
            ("bfloat16 and float32", exact[1], exact[0]),
            ("float8 and float32", exact[2], exact[0]),
            ("float8 and bfloat16", exact[2], exact[1]),
        ):
            facts[name] = compared(one, other)
        facts["two pages, float32"] = float(cosines(exact[0][:-1], exact[0][1:]).mean())
        for name, one in zip(found, exact, strict=True):
            facts[f"ndcg@5, {name}"] = found_again(one, exact[0])
        self.keep(loss=facts)


def dense(vectors: list[SparseVector]) -> NDArray[np.float32]:
    width = 1 + max(int(vector.terms.max(initial=0)) for vector in vectors)
    whole = np.zeros((len(vectors), max(width, 50_368)), np.float32)
    for row, vector in zip(whole, vectors, strict=True):
        row[vector.terms] = vector.weights
    return whole


def cosines(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.asarray((one * other).sum(1) / np.maximum(lengths, 1e-12), np.float32)


def compared(one: NDArray[np.float32], other: NDArray[np.float32]) -> dict[str, float]:
    near = cosines(one, other)
    heaviest = [np.argsort(-rows, 1, "stable")[:, :100] for rows in (one, other)]
    kept = [len(set(a.tolist()) & set(b.tolist())) / 100 for a, b in zip(*heaviest, strict=True)]
    return {
        "cosine, mean": float(near.mean()),
        "cosine, least": float(near.min()),
        "heaviest 100 kept": float(np.mean(kept)),
    }


def found_again(pages: NDArray[np.float32], exact: NDArray[np.float32], queries: int = 20) -> float:
    """NDCG@5 of finding each page by 5 of its terms, drawn by what its exact vector has above the mean."""
    rng = np.random.default_rng(0)
    own = np.maximum(exact - exact.mean(0), 0).astype(np.float64)
    gains = []
    for page, chances in enumerate(own):
        if not chances.any():
            continue
        chances /= chances.sum()
        most = min(5, int((chances > 0).sum()))
        for _ in range(queries):
            terms = rng.choice(len(chances), most, replace=False, p=chances)
            scores = pages[:, terms].sum(1)
            rank = int((scores > scores[page]).sum())
            gains.append(1 / np.log2(rank + 2) if rank < 5 else 0.0)
    return float(np.mean(gains))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=480)
    parser.add_argument("--compared", type=int, default=64, help="pages whose vectors are compared")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="a tiny model, to try this on a CPU")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which no way is begun")
    parser.add_argument("--work", help="the folder for model and pages; default: a temporary one")
    parser.add_argument("--out", required=True)
    Ways(parser.parse_args()).run()


if __name__ == "__main__":
    main()
