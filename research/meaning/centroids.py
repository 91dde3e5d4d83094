"""The directions that an index sorts windows by: spherical k-means over the vectors of training passages.

python -m research.meaning.centroids WORK RUN OUT.npy [COUNT]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from research.meaning.model import PageEncoder
from vsplade.encode.meaning import rounded

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROUNDS = 25


@torch.no_grad()
def passage_vectors(work: Path, run: Path) -> Tensor:
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
    centres = vectors[torch.randperm(len(vectors), device=DEVICE)[:count]]
    for _ in range(ROUNDS):
        nearest = torch.cat([(part @ centres.T).argmax(1) for part in vectors.split(16384)])
        sums = torch.zeros_like(centres).index_add_(0, nearest, vectors)
        empty = torch.bincount(nearest, minlength=count) == 0
        sums[empty] = vectors[torch.randint(len(vectors), (int(empty.sum()),), device=DEVICE)]
        centres = F.normalize(sums, dim=-1)
    return centres


if __name__ == "__main__":
    found = passage_vectors(Path(sys.argv[1]), Path(sys.argv[2]))
    centres = k_means(found, int(sys.argv[4]) if len(sys.argv) > 4 else 4096)
    np.save(sys.argv[3], rounded(centres.cpu().numpy()))
    print(f"{len(found):,} vectors, {len(centres):,} centres")
