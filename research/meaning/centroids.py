"""The directions that an index sorts windows by: spherical k-means over the vectors of training passages.

    python -m research.meaning.centroids WORK

Of MiniLM's vectors of passages (WORK/teacher, on the axes of WORK/table.npz), or with `--run RUN` of those by
a trained page encoder. Writes WORK/centroids.npy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from research.command import main
from research.meaning.model import PageEncoder
from research.meaning.options import CentroidsOptions
from vsplade.encode.meaning.meaning_model import rounded

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROUNDS = 25


def taught_vectors(work: Path) -> Tensor:
    passages = np.load(work / "teacher" / "passages.npz")["vectors"].astype(np.float32)
    found = torch.from_numpy(passages @ np.load(work / "table.npz")["axes"])
    return F.normalize(found, dim=-1).to(DEVICE)


@torch.no_grad()
def encoded_vectors(work: Path, run: Path) -> Tensor:
    """Of all long passages, by the page encoder of a run."""
    state = {key: value.float() for key, value in load_file(str(run / "page.safetensors")).items()}
    terms = len(state["bert.words.weight"]) - 1
    page = PageEncoder(terms, len(state["head.weight"])).to(DEVICE).eval()
    page.load_state_dict(state)
    raw = np.load(work / "tokens.npz")["passage"]
    long = raw[(raw != terms).sum(1) > 40]
    parts = []
    for at in range(0, len(long), 2048):
        tokens = torch.from_numpy(long[at : at + 2048].astype(np.int64)).to(DEVICE)
        with torch.autocast(DEVICE, torch.bfloat16):
            parts.append(page(tokens, torch.ones(tokens.shape, device=DEVICE)))
    return torch.cat(parts)


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
    run = options.run
    vectors = taught_vectors(options.work) if run is None else encoded_vectors(options.work, run)
    centres = k_means(vectors, options.count)
    np.save(options.work / "centroids.npy", rounded(centres.cpu().numpy()))
    nearest = (vectors @ centres.T).amax(1).mean().item()
    return {"vectors": len(vectors), "centres": len(centres), "mean cosine": round(nearest, 4)}


if __name__ == "__main__":
    main(centroids, CentroidsOptions)
