"""What the head of the network does, without onnxruntime: the best few terms of each cell, in half the time.

Its 8-bit weights come from the same file. Each cell has a scale of its own, where onnxruntime rounds 64 cells
by one; so what a cell is named does not depend on the others, and is nearer to exact (docs/log.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.reader.onnx_constants import constants
from vsplade.encode.reader.term_scan import BEST, GROUP, LANES, LIFT, ONE, SEEN, find_best, look, scan

CELLS = 1024
"""Named at a time: bounds the memory on a page full of noise."""
_ROWS = 8


@dataclass(frozen=True)
class TermNamer:
    hidden: NDArray[np.float32]  # (features, SEEN)
    hidden_bias: NDArray[np.float32]
    size: NDArray[np.float32]
    size_bias: np.float32
    weights: NDArray[np.int8]  # (groups, blocks of 16 terms, fours, 64)
    factors: NDArray[np.float32]
    biases: NDArray[np.float32]

    @classmethod
    def load(cls, path: Path) -> TermNamer | None:
        """None where the file's head is of another form than the one that ships."""
        held = constants(path)
        try:
            words, hidden = (held[f"head.{name}.weight_quantized"] for name in ("vocabulary", "hidden"))
            size = _plain(held, "size.")[:, 0]
            found = cls(
                np.ascontiguousarray(_plain(held, "head.hidden.")),
                held["head.hidden.bias"],
                np.ascontiguousarray(size),
                np.float32(held["size.bias"][0]),
                _packed(words),
                (held["head.vocabulary.weight_scale"] * (math.log2(math.e) * ONE)).astype(np.float32),
                (held["head.vocabulary.bias"] * (math.log2(math.e) * ONE) + LIFT).astype(np.float32),
            )
        except (KeyError, ValueError, IndexError):
            return None
        signed = hidden.dtype == words.dtype == np.int8
        centred = not any(held[name].any() for name in held if name.endswith("weight_zero_point"))
        return found if signed and centred else None

    def name(
        self, features: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]:
        """The chances of each cell's best terms, these terms, and the em of the type there."""
        many = -(-len(features) // _ROWS) * _ROWS
        padded = np.concatenate([features, np.zeros((many - len(features), features.shape[1]), np.float32)])
        chances, terms = np.empty((many, BEST), np.float32), np.empty((many, BEST), np.int32)
        ems = np.empty(many, np.float32)
        for at in range(0, many, CELLS):
            rows = slice(at, at + CELLS)
            self._name(padded[rows], chances[rows], terms[rows], ems[rows])
        here = slice(len(features))
        return chances[here], terms[here], np.exp2(ems[here])

    def _name(
        self,
        features: NDArray[np.float32],
        chances: NDArray[np.float32],
        terms: NDArray[np.int32],
        ems: NDArray[np.float32],
    ) -> None:
        """A multiple of 8 cells."""
        seen, scales = np.empty((len(ems), SEEN), np.uint8), np.empty(len(ems), np.float32)
        look(features, self.hidden, self.hidden_bias, self.size, self.size_bias, seen, scales, ems)
        totals, tops = np.empty((2, len(ems), len(self.weights)), np.float32)
        vocabulary = self.weights, self.factors, self.biases
        scan(seen, scales, *vocabulary, totals, tops)
        find_best(seen, scales, *vocabulary, totals, tops, chances, terms)


def _plain(held: dict[str, NDArray[Any]], name: str) -> NDArray[np.float32]:
    weights: NDArray[np.float32] = held[f"{name}weight_quantized"] * held[f"{name}weight_scale"]
    return weights


def _packed(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """(SEEN, terms) as the instruction takes them: four numbers of a term side by side, of 16 terms."""
    groups = weights.shape[1] // GROUP
    fours = weights.reshape(SEEN // 4, 4, groups, GROUP // LANES, LANES).transpose(2, 3, 0, 4, 1)
    return np.ascontiguousarray(fours).reshape(groups, GROUP // LANES, SEEN // 4, 4 * LANES)
