"""Page vectors kept apart from pages, so that variants of them can be judged without encoding again."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError
from vsplade.types import SparseVector, Windows


@dataclass(frozen=True, slots=True)
class PageVectors:
    """Ids and vectors of pages, in one order, as flat arrays."""

    ids: tuple[str, ...]
    offsets: NDArray[np.int64]
    terms: NDArray[np.uint32]
    weights: NDArray[np.float32]
    windows: tuple[Windows | None, ...] = ()
    """Of each page, where any has some."""

    @classmethod
    def collect(cls, vectors: Iterable[tuple[str, SparseVector]]) -> PageVectors:
        ids: list[str] = []
        terms: list[NDArray[np.uint32]] = [np.zeros(0, dtype=np.uint32)]
        weights: list[NDArray[np.float32]] = [np.zeros(0, dtype=np.float32)]
        windows: list[Windows | None] = []
        seen: set[str] = set()
        for identifier, vector in vectors:
            if identifier in seen:
                raise InputError(f"Two pages have the id {identifier!r}. Ids must be unique.")
            seen.add(identifier)
            ids.append(identifier)
            terms.append(np.asarray(vector.terms, dtype=np.uint32))
            weights.append(np.asarray(vector.weights, dtype=np.float32))
            windows.append(vector.meaning if isinstance(vector.meaning, Windows) else None)
        offsets = np.cumsum([len(part) for part in terms], dtype=np.int64)
        kept = tuple(windows) if any(window is not None for window in windows) else ()
        return cls(tuple(ids), offsets, np.concatenate(terms), np.concatenate(weights), kept)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[SparseVector]:
        for row in range(len(self)):
            span = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
            meaning = self.windows[row] if self.windows else None
            yield SparseVector(self.terms[span], self.weights[span], meaning)

    def items(self) -> Iterator[tuple[str, SparseVector]]:
        return zip(self.ids, self, strict=True)

    def save(self, path: str | Path) -> None:
        """Write a ``.npz`` (plain arrays, no pickle)."""
        arrays: dict[str, Any] = {
            "ids": np.array(self.ids, dtype=np.str_),
            "offsets": self.offsets,
            "terms": self.terms,
            "weights": self.weights,
        }
        np.savez_compressed(path, **arrays | self._window_arrays())

    def _window_arrays(self) -> dict[str, NDArray[Any]]:
        given = [windows for windows in self.windows if windows is not None]
        if not given:
            return {}
        counts = [0 if windows is None else len(windows) for windows in self.windows]
        return {
            "window_counts": np.array(counts, np.int64),
            "codes": np.concatenate([windows.codes for windows in given]),
            "clusters": np.concatenate([windows.clusters for windows in given]),
        }

    @classmethod
    def load(cls, path: str | Path) -> PageVectors:
        try:
            with np.load(path, allow_pickle=False) as stored:
                ids, offsets = stored["ids"], stored["offsets"].astype(np.int64)
                terms, weights = stored["terms"].astype(np.uint32), stored["weights"].astype(np.float32)
                windows = _read_windows(stored) if "codes" in stored else ()
        except FileNotFoundError as error:
            raise InputError(f"{path} does not exist.") from error
        except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{path} does not hold page vectors. `vsplade eval --keep-vectors` writes such a file "
                "(from Python: PageVectors.save)."
            ) from error
        if len(offsets) != len(ids) + 1 or int(offsets[-1]) != len(terms) or len(terms) != len(weights):
            raise InputError(f"{path} is damaged: its arrays do not fit together. Encode the pages again.")
        if windows and len(windows) != len(ids):
            raise InputError(f"{path} is damaged: its windows do not fit its pages. Encode the pages again.")
        return cls(tuple(str(identifier) for identifier in ids), offsets, terms, weights, windows)


def _read_windows(stored: Mapping[str, NDArray[Any]]) -> tuple[Windows | None, ...]:
    ends = np.cumsum(stored["window_counts"]).tolist()
    codes, clusters = stored["codes"].astype(np.int8), stored["clusters"].astype(np.uint16)
    if not len(codes) == len(clusters) == (ends[-1] if ends else 0):
        raise ValueError("windows")
    spans = zip([0, *ends[:-1]], ends, strict=True)
    return tuple(Windows(codes[a:b], clusters[a:b]) if b > a else None for a, b in spans)
