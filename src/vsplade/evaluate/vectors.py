"""Page vectors kept apart from pages, so that variants of them can be judged without encoding again."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError
from vsplade.types import SparseVector


@dataclass(frozen=True, slots=True)
class PageVectors:
    """Ids and vectors of pages, in one order, as three flat arrays."""

    ids: tuple[str, ...]
    offsets: NDArray[np.int64]
    terms: NDArray[np.uint32]
    weights: NDArray[np.float32]

    @classmethod
    def collect(cls, vectors: Iterable[tuple[str, SparseVector]]) -> PageVectors:
        ids: list[str] = []
        terms: list[NDArray[np.uint32]] = [np.zeros(0, dtype=np.uint32)]
        weights: list[NDArray[np.float32]] = [np.zeros(0, dtype=np.float32)]
        seen: set[str] = set()
        for identifier, vector in vectors:
            if identifier in seen:
                raise InputError(f"Two pages have the id {identifier!r}. Ids must be unique.")
            seen.add(identifier)
            ids.append(identifier)
            terms.append(np.asarray(vector.terms, dtype=np.uint32))
            weights.append(np.asarray(vector.weights, dtype=np.float32))
        offsets = np.cumsum([len(part) for part in terms], dtype=np.int64)
        return cls(tuple(ids), offsets, np.concatenate(terms), np.concatenate(weights))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[SparseVector]:
        for row in range(len(self)):
            span = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
            yield SparseVector(self.terms[span], self.weights[span])

    def items(self) -> Iterator[tuple[str, SparseVector]]:
        return zip(self.ids, self, strict=True)

    def save(self, path: str | Path) -> None:
        """Write a ``.npz`` (plain arrays, no pickle)."""
        np.savez_compressed(
            path,
            ids=np.array(self.ids, dtype=np.str_),
            offsets=self.offsets,
            terms=self.terms,
            weights=self.weights,
        )

    @classmethod
    def load(cls, path: str | Path) -> PageVectors:
        try:
            with np.load(path, allow_pickle=False) as stored:
                ids, offsets = stored["ids"], stored["offsets"].astype(np.int64)
                terms, weights = stored["terms"].astype(np.uint32), stored["weights"].astype(np.float32)
        except FileNotFoundError as error:
            raise InputError(f"{path} does not exist.") from error
        except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{path} does not hold page vectors. `vsplade eval --keep-vectors` writes such a file "
                "(from Python: PageVectors.save)."
            ) from error
        if len(offsets) != len(ids) + 1 or int(offsets[-1]) != len(terms) or len(terms) != len(weights):
            raise InputError(f"{path} is damaged: its arrays do not fit together. Encode the pages again.")
        return cls(tuple(str(identifier) for identifier in ids), offsets, terms, weights)
