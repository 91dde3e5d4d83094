"""The directions that an index sorts windows by: spherical k-means over the vectors of training passages.

    python -m research.meaning.centroids WORK --minilm FOLDER

By the page encoder that ships, over passages of WORK/texts.npz. Writes WORK/centroids.npy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from research.command import main
from research.meaning.export import load_runs
from research.meaning.model import PageEncoder
from research.meaning.options import CentroidsOptions
from research.meaning.teachers import DEVICE
from research.meaning.tokens import as_read
from research.meaning.wear import Wear
from vsplade.encode.meaning.meaning_model import rounded
from vsplade.encode.meaning.wordpiece import WordPiece

ROUNDS, BATCH = 25, 128
Array = np.ndarray[Any, Any]


@torch.no_grad()
def page_vectors(page: PageEncoder, tokens: Array, pieces: WordPiece) -> Tensor:
    """Of passages, as pages would have them; in ``tokens`` 0 stands for none."""
    page = page.to(DEVICE)
    sizes = (tokens != 0).sum(axis=1)
    order = np.argsort(sizes, kind="stable")
    out = torch.zeros(len(tokens), page.head.out_features, device=DEVICE)
    wear = Wear.of(pieces).to(DEVICE)
    for at in range(int((sizes == 0).sum()), len(order), BATCH):
        some = order[at : at + BATCH]
        given = torch.from_numpy(tokens[some, : int(sizes[some].max())].astype(np.int64)).to(DEVICE)
        rows = wear(given, much=0)
        with torch.autocast(DEVICE, torch.bfloat16):
            out[some] = page(rows, torch.ones(rows.shape, device=DEVICE))
    return out


def k_means(vectors: Tensor, count: int) -> Tensor:
    centres = vectors[torch.randperm(len(vectors), device=vectors.device)[:count]]
    for _ in range(ROUNDS):
        nearest = torch.cat([(part @ centres.T).argmax(1) for part in vectors.split(16384)])
        sums = torch.zeros_like(centres).index_add_(0, nearest, vectors)
        empty = torch.bincount(nearest, minlength=len(centres)) == 0
        sums[empty] = vectors[torch.randint(len(vectors), (int(empty.sum()),), device=vectors.device)]
        centres = F.normalize(sums, dim=-1)
    return centres


def centroids(options: CentroidsOptions) -> dict[str, Any]:
    """Write WORK/centroids.npy."""
    torch.manual_seed(options.seed)
    page, _ = load_runs(options.work, options.minilm)
    pieces = WordPiece.load(options.minilm / "vocab.txt")
    given = np.load(options.work / "texts.npz")
    tokens = as_read(given["passages"], given["passage_sizes"], pieces)
    tokens = tokens[(tokens != 0).any(axis=1)]
    chosen = np.random.default_rng(options.seed).permutation(len(tokens))[: options.passages]
    vectors = page_vectors(page, tokens[chosen], pieces)
    centres = k_means(vectors, options.count)
    np.save(options.work / "centroids.npy", rounded(centres.cpu().numpy()))
    nearest = (vectors @ centres.T).amax(1).mean().item()
    return {"vectors": len(vectors), "centres": len(centres), "mean cosine": round(nearest, 4)}


if __name__ == "__main__":
    main(centroids, CentroidsOptions)
