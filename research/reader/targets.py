"""Labels to what the losses need: cells that hold the middle of a piece, cells to ignore, characters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from research.reader.scenes import SIZE
from research.reader.typeset import Labels
from vsplade.encode.reader.ink_windows import CELL

GRID = SIZE // CELL
READ = (6.0, 40.0)
"""Type of these sizes (px) must be read; the pyramid at inference brings every size into this band."""
PERHAPS = (4.5, 60.0)
"""Type out of the band but within this one is neither asked for nor forbidden."""

VISIBLE = 0.03
"""Standard deviation of the darkness around a word below which nobody could read it."""


@dataclass(frozen=True)
class Targets:
    word: Tensor  # (windows, GRID, GRID) 1 where the middle of a piece lies
    counted: Tensor  # (windows, GRID, GRID) False where either answer is right
    piece_window: Tensor
    piece_row: Tensor
    piece_column: Tensor
    piece_term: Tensor
    piece_em: Tensor
    characters: Tensor  # (windows, GRID, 2 * GRID) class, -1 where it does not count


def contrast(pictures: Tensor) -> Tensor:
    """How much the pixels around each cell differ, (windows, GRID, GRID)."""
    moments = torch.stack([pictures, pictures**2], 1)
    spread = functional.avg_pool2d(moments, 24, CELL, 8, count_include_pad=False)
    return (spread[:, 1] - spread[:, 0] ** 2).clamp(min=0).sqrt()


def build_targets(labels: Labels, pictures: Tensor) -> Targets:
    """``pictures`` as the reader gets them: text that wear has wiped out is not asked for."""
    device, windows = labels.piece_xy.device, len(pictures)
    row = (labels.piece_xy[:, 1] / CELL).long().clamp(0, GRID - 1)
    column = (labels.piece_xy[:, 0] / CELL).long().clamp(0, GRID - 1)
    cell = (labels.piece_window * GRID + row) * GRID + column
    em = labels.piece_em
    visible = contrast(pictures).view(-1)[cell] > VISIBLE
    asked = (em >= READ[0]) & (em <= READ[1]) & labels.piece_whole & visible
    vague = ~asked & (em >= PERHAPS[0]) & (em <= PERHAPS[1])
    word = torch.zeros(windows * GRID * GRID, device=device)
    counted = torch.ones(windows * GRID * GRID, dtype=torch.bool, device=device)
    counted[cell[vague]] = False
    counted[cell[asked]] = True
    word[cell[asked]] = 1.0

    c_em = labels.character_em
    c_row = (labels.character_xy[:, 1] / CELL).long().clamp(0, GRID - 1)
    c_column = (labels.character_xy[:, 0] / (CELL // 2)).long().clamp(0, 2 * GRID - 1)
    c_cell = (labels.character_window * GRID + c_row) * 2 * GRID + c_column
    characters = torch.zeros(windows * GRID * 2 * GRID, dtype=torch.long, device=device)
    good = (c_em >= READ[0]) & (c_em <= READ[1])
    unsure = ~good & (c_em >= PERHAPS[0]) & (c_em <= PERHAPS[1])
    characters[c_cell[unsure]] = -1
    characters[c_cell[good]] = labels.character_class[good]
    return Targets(
        word.view(windows, GRID, GRID),
        counted.view(windows, GRID, GRID),
        labels.piece_window[asked],
        row[asked],
        column[asked],
        labels.piece_term[asked],
        em[asked],
        characters.view(windows, GRID, 2 * GRID),
    )
