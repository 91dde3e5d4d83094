"""Where the terms of a page's vector stand: each where it was read with most certainty."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.reader.bigrams import PAIRS, Neighbours
from vsplade.encode.reader.boxes import box_on_ink
from vsplade.encode.reader.detect import Cells
from vsplade.encode.tokenizer import Tokenizer, letters_of
from vsplade.types import Box


def term_boxes(
    cells: Cells,
    terms: NDArray[np.uint32],
    grey: NDArray[np.uint8],
    tokenizer: Tokenizer,
    neighbours: Neighbours,
) -> list[Box]:
    """For each term of a page's vector the place that spoke loudest for it; around both words of a pair."""

    def around(row: int, term: int) -> Box:
        letters = letters_of(tokenizer.token(term))
        return box_on_ink(grey, letters, cells.middle[row], cells.pixel[row], float(cells.em[row]))

    # of several good places, the one on the largest copy is the most exact
    value = cells.probability / (cells.pixel[:, :1] / cells.pixel[:, :1].min(initial=1.0)) ** 0.5
    strongest = np.zeros(len(tokenizer), np.int64)
    order = np.argsort(value, axis=None, kind="stable")
    strongest[cells.term.ravel()[order]] = order // cells.term.shape[1]  # the last write, the best, stays
    words = terms[terms < len(tokenizer)]
    boxes = [around(int(strongest[term]), int(term)) for term in words]
    for left, right in _best_pairs(cells, terms[len(words) :].astype(np.int64) - len(tokenizer), neighbours):
        boxes.append(around(left, int(cells.term[left, 0])).around(around(right, int(cells.term[right, 0]))))
    return boxes


def _best_pairs(cells: Cells, numbers: NDArray[np.int64], neighbours: Neighbours) -> list[tuple[int, int]]:
    """The cells of both words of each pair, where it is likeliest."""
    standing = neighbours.on_page(cells)
    number, chance, left, right = (
        np.concatenate([getattr(some, name) for some in (standing.whole, standing.pairs)])
        for name in ("number", "chance", "left", "right")
    )
    order = np.argsort(chance, kind="stable")
    best = np.zeros(PAIRS, np.int64)
    best[number[order]] = order
    return list(zip(left[best[numbers]].tolist(), right[best[numbers]].tolist(), strict=True))
