"""Updates an index until it is killed, and says each commit. Commit n holds what ``contents(n)`` says."""

from __future__ import annotations

import sys

import numpy as np

from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector, Windows

IDS = 40
VOCABULARY = 50
DIMENSIONS, CLUSTERS = 16, 12


def contents(commit: int) -> dict[str, int]:
    """For each live page the commit that last wrote it: every commit rewrites a third and deletes a few."""
    pages: dict[str, int] = {}
    for number in range(1, commit + 1):
        for page in range(IDS):
            if (page * 7 + number) % 3 == 0:
                pages[f"p{page}"] = number
            elif (page * 5 + number) % 11 == 0:
                pages.pop(f"p{page}", None)
    return pages


def vector(page: str, commit: int) -> SparseVector:
    rng = np.random.default_rng([int(page[1:]), commit])
    terms = np.sort(rng.choice(VOCABULARY, 20, replace=False)).astype(np.uint32)
    weights = rng.random(20).astype(np.float32) + np.float32(0.1)
    codes = rng.integers(1, 128, (int(rng.integers(4)), DIMENSIONS)).astype(np.int8)
    clusters = rng.integers(0, CLUSTERS, len(codes)).astype(np.uint16)
    return SparseVector(terms, weights, Windows(codes, clusters))


def write_commit(target: IndexWriter, number: int) -> None:
    for page in range(IDS):
        if (page * 7 + number) % 3 == 0:
            thumbnail = bytes([number % 256]) * 2000
            target.add(f"p{page}", vector(f"p{page}", number), {"commit": number}, thumbnail)
        elif (page * 5 + number) % 11 == 0:
            target.delete(f"p{page}")
    target.set_state("commit", number)
    target.set_state(f"key-{number % 7}", {"written": number})


def main(folder: str) -> None:
    with IndexWriter(folder) as target:
        number = int(target.state().get("commit", 0))  # type: ignore[arg-type]
        print("ready", flush=True)
        while True:
            number += 1
            write_commit(target, number)
            target.commit()
            print(number, flush=True)
            if number % 13 == 0:
                target.compact()


if __name__ == "__main__":
    main(sys.argv[1])
