"""The plainest index there is: a dictionary, and a dense loop in float64. Everything is tested against it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vsplade.search.filters import Filter
from vsplade.store.identity import EncoderIdentity
from vsplade.types import Json, SparseVector


def identity(terms: int, fingerprint: str = "f1") -> EncoderIdentity:
    return EncoderIdentity("test", fingerprint, terms)


def random_vector(rng: np.random.Generator, vocabulary: int, most: int, least: int = 0) -> SparseVector:
    length = min(int(rng.integers(least, most + 1)), vocabulary)
    terms = np.sort(rng.choice(vocabulary, length, replace=False)).astype(np.uint32)
    return SparseVector(terms, (2 * (1 - rng.random(length))).astype(np.float32))


@dataclass
class Oracle:
    """Pages in the order in which they were last added."""

    pages: dict[str, tuple[SparseVector, dict[str, Json]]] = field(default_factory=dict)

    def add(self, id: str, vector: SparseVector, metadata: dict[str, Json]) -> None:
        self.pages.pop(id, None)
        self.pages[id] = (vector, metadata)

    def delete(self, id: str) -> None:
        self.pages.pop(id, None)

    def copy(self) -> Oracle:
        return Oracle(dict(self.pages))

    def search(self, query: SparseVector, k: int, filter: Filter | None = None) -> list[tuple[str, float]]:
        found: list[tuple[str, float]] = []
        for id, (vector, metadata) in self.pages.items():
            if filter and not all(one.allows(metadata.get(one.key)) for one in filter.conditions):
                continue
            weights = dict(zip(vector.terms.tolist(), vector.weights.tolist(), strict=True))
            score = 0.0
            for term, weight in zip(query.terms.tolist(), query.weights.tolist(), strict=True):
                score += weight * weights.get(term, 0.0)
            if score > 0:
                found.append((id, float(np.float32(score))))
        return sorted(found, key=lambda hit: -hit[1])[:k]  # sorted() is stable: ties stay in page order
