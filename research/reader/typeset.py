"""Fill the runs of many scenes with words at once: a list of glyphs to draw, and where every word piece lies.

All of it is array arithmetic on whatever device the word bank is on. A run is filled by summing word widths
and cutting the sum into lines; a word that straddles a line's end is left out, which leaves the right edge
ragged.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from research.reader.glyphs import LEVELS, Atlas
from research.reader.scenes import MACHINE, RUN, SIZE
from research.reader.words import CODE, WordBank, character_classes, upper_codes

LINES = 64
WORDS_IN_A_RUN = 600
NARROW = 0.41
"""Mean room of a small letter, in em, below which a face is narrow."""


@dataclass(frozen=True)
class Labels:
    """Flat lists over a batch of windows: word pieces and characters, in px of their window."""

    piece_window: Tensor
    piece_xy: Tensor  # (n, 2) middle
    piece_em: Tensor
    piece_term: Tensor
    piece_whole: Tensor  # the word lies wholly inside the window
    character_window: Tensor
    character_xy: Tensor
    character_em: Tensor
    character_class: Tensor

    @staticmethod
    def join(first: Labels, second: Labels, offset: int) -> Labels:
        """Labels of two batches laid one after the other; ``offset`` windows are in the first."""
        merged = {}
        for name in Labels.__dataclass_fields__:
            a, b = getattr(first, name), getattr(second, name)
            merged[name] = torch.cat([a, b + offset if name.endswith("window") else b])
        return Labels(**merged)


@dataclass(frozen=True)
class Glyphs:
    """What to draw: a pixel (x, y) of ``window`` in ``bounds`` gets the atlas' ``inverse @ (x, y, 1)``."""

    window: Tensor
    offset: Tensor
    size: Tensor  # (n, 2) height, width in the atlas
    inverse: Tensor  # (n, 6)
    bounds: Tensor  # (n, 4) x0, y0, x1, y1


def even_width(atlas: Atlas) -> Tensor:
    """Which faces give every letter the same room, as typewriters and tills do."""
    thin, wide = atlas.advance[:, CODE["i"]], atlas.advance[:, CODE["m"]]
    return (thin - wide).abs() < 0.01


def machine_weights(atlas: Atlas) -> Tensor:
    """How often each face stands for a till's or a form's: even and narrow ones far more than others."""
    letters = [CODE[letter] for letter in string.ascii_lowercase]
    width = atlas.advance[:, letters].mean(1)
    even, narrow = even_width(atlas), width < NARROW
    share = torch.full((atlas.fonts,), 0.02, device=atlas.advance.device)
    for some, weight in ((even, 1.0), (narrow & ~even, 0.5)):
        share += some * (weight * atlas.fonts / some.sum().clamp(min=1))
    return share


class Typesetter:
    def __init__(self, bank: WordBank, atlas: Atlas, font_weights: Tensor, device: torch.device) -> None:
        self.device, self.atlas = device, atlas
        self.characters = torch.from_numpy(bank.characters).to(device)
        self.pieces = torch.from_numpy(bank.pieces).to(device)
        self.piece_start = torch.from_numpy(bank.piece_start).to(device)
        self.piece_end = torch.from_numpy(bank.piece_end).to(device)
        self.stream = torch.from_numpy(bank.stream.astype(np.int64)).to(device)
        self.kind_start = torch.from_numpy(bank.kind_start.astype(np.int64)).to(device)
        self.classes = torch.from_numpy(character_classes()).to(device)
        self.upper = torch.from_numpy(upper_codes()).to(device)
        self.levels = torch.tensor(LEVELS, dtype=torch.float32, device=device)
        self.font_weights = font_weights.to(device)
        self.even = even_width(atlas).to(device)
        self.machine_weights = machine_weights(atlas).to(device)

    def _random(self, *shape: int) -> Tensor:
        return torch.rand(*shape, device=self.device)

    def _choose_words(self, run: dict[str, Tensor], count: Tensor, owner: Tensor, nth: Tensor) -> Tensor:
        """Running text from a random place of the run's kind, with a few words of other kinds strewn in."""
        shares = torch.tensor([0.40, 0.10, 0.32, 0.16, 0.02], device=self.device)
        kinds = torch.multinomial(shares, len(count), True)
        kind = torch.where(run["kind"] < 0, kinds, run["kind"].long())
        start, end = self.kind_start[kind], self.kind_start[kind + 1]
        base = start + (self._random(len(count)) * (end - start - count).clamp(min=1)).long()
        at = (base[owner] + nth).clamp(max=len(self.stream) - 1)
        other = (self._random(len(owner)) * len(self.stream)).long()
        return self.stream[torch.where(self._random(len(owner)) < 0.05, other, at)]

    def set(self, runs: Tensor, window: Tensor, forward: Tensor) -> tuple[Glyphs, Labels]:
        """Fill ``runs`` (r, len(RUN)) of ``window`` (r,); ``forward`` (windows, 2, 3): scene to picture."""
        run = {name: runs[:, i] for i, name in enumerate(RUN)}
        em, width = run["em"], run["width"].clamp(min=8)
        lines = (run["height"] / (em * run["leading"]) + 0.3).floor().clamp(1, LINES - 1)
        wanted = ((width / (em * 2.2) + 1) * lines * 1.15).ceil()
        wanted = torch.where(run["words"] > 0, torch.minimum(run["words"], wanted), wanted)
        count = wanted.clamp(1, WORDS_IN_A_RUN).long()
        owner = torch.repeat_interleave(torch.arange(len(runs), device=self.device), count)
        first = torch.cumsum(count, 0) - count
        nth = torch.arange(len(owner), device=self.device) - first[owner]
        word = self._choose_words(run, count, owner, nth)

        groups = torch.multinomial(self.font_weights, len(forward) * MACHINE, True).view(-1, MACHINE)
        machine = torch.multinomial(self.machine_weights, len(forward), True)[:, None]
        font = torch.cat([groups, machine], 1)[window, run["group"].long()]
        spacing = torch.where(self._random(len(runs)) < 0.12, self._random(len(runs)) * 0.15, 0.0) * em
        space = torch.where(self.even[font], self.atlas.advance[font, CODE["n"]], 0.2)
        gap = (space + 0.2 * self._random(len(runs))) * em + spacing

        codes = self.characters[word].long()
        codes = torch.where(run["upper"][owner, None] > 0, self.upper[codes], codes)
        advance = self.atlas.advance[font[owner, None], codes] * em[owner, None] + spacing[owner, None]
        advance = advance * (codes > 0)
        reach = torch.cumsum(advance, 1)
        length = reach[:, -1]
        run_on = torch.cumsum((length + gap[owner]).double(), 0)
        before = run_on - (length + gap[owner])
        position = (before - before[first][owner]).float()
        line = (position / width[owner]).floor()
        x = position - line * width[owner]
        kept = (line < lines[owner]) & (x + length <= width[owner] * 1.01) & (length > 0)
        owner, codes, reach, advance, word = owner[kept], codes[kept], reach[kept], advance[kept], word[kept]
        line, x, length = line[kept], x[kept], length[kept]
        x = run["x"][owner] + self._aligned(
            x, length, owner * LINES + line.long(), width[owner], run["align"][owner], owner
        )
        baseline = run["y"][owner] + em[owner] * (0.8 + line * run["leading"][owner])
        pen = x[:, None] + reach - advance
        glyphs = self._glyphs(codes, pen, baseline, em[owner], font[owner], window[owner], forward)
        labels = self._labels(word, codes, pen, advance, baseline, em[owner], window[owner], forward)
        return glyphs, labels

    def _aligned(
        self, x: Tensor, length: Tensor, key: Tensor, width: Tensor, align: Tensor, owner: Tensor
    ) -> Tensor:
        """Words of one line (``key``) set flush left, in the middle or right; a third of the runs even."""
        lines = int(key.max()) + 1 if len(key) else 0
        nth = torch.arange(len(x), device=self.device, dtype=torch.float32)

        def extreme(values: Tensor, which: str) -> Tensor:
            """The least or greatest value of each word's line."""
            start = torch.zeros(lines, device=self.device)
            return start.scatter_reduce_(0, key, values, which, include_self=False)[key]

        x = x - extreme(x, "amin")
        spare = width - extreme(x + length, "amax")
        first, last = extreme(nth, "amin"), extreme(nth, "amax")
        chance = self._random(int(owner.max()) + 1 if len(owner) else 0)
        justified = (chance[owner] < 0.35) & (align == 0) & (spare < 0.25 * width)
        spread = (nth - first) / (last - first).clamp(min=1)
        return x + torch.where(justified, spare * spread, align * spare / 2)

    def _glyphs(
        self,
        codes: Tensor,
        pen: Tensor,
        baseline: Tensor,
        em: Tensor,
        font: Tensor,
        window: Tensor,
        forward: Tensor,
    ) -> Glyphs:
        scale = torch.linalg.det(forward[:, :, :2]).abs().sqrt()
        level = torch.searchsorted(self.levels, em * scale[window] * 0.97).clamp(max=len(LEVELS) - 1)
        at, column = (codes > 0).nonzero(as_tuple=True)
        code, level, font = codes[at, column], level[at], font[at]
        size = self.atlas.size[font, level, code]
        k = em[at] / self.levels[level]
        bearing = self.atlas.bearing[font, level, code] * k[:, None]
        left, top = pen[at, column] + bearing[:, 1], baseline[at] - bearing[:, 0]
        affine = forward[window[at]]
        corners_x = torch.stack([left, left + size[:, 1] * k, left, left + size[:, 1] * k], 1)
        corners_y = torch.stack([top, top, top + size[:, 0] * k, top + size[:, 0] * k], 1)
        px = affine[:, 0, 0:1] * corners_x + affine[:, 0, 1:2] * corners_y + affine[:, 0, 2:3]
        py = affine[:, 1, 0:1] * corners_x + affine[:, 1, 1:2] * corners_y + affine[:, 1, 2:3]
        lowest = torch.stack([px.amin(1), py.amin(1)], 1).floor().clamp(0, SIZE)
        highest = torch.stack([px.amax(1), py.amax(1)], 1).ceil().clamp(0, SIZE)
        shown = ((highest - lowest) > 0).all(1) & (size[:, 0] > 0)
        back = torch.linalg.inv(affine[:, :, :2])
        shift = -(back @ affine[:, :, 2:3])[..., 0] - torch.stack([left, top], 1)
        inverse = torch.cat([back, shift[..., None]], 2).view(-1, 6) / k[:, None]
        bounds = torch.cat([lowest, highest], 1).int()
        offset = self.atlas.offset[font, level, code]
        return Glyphs(window[at][shown], offset[shown], size[shown], inverse[shown], bounds[shown])

    def _labels(
        self,
        word: Tensor,
        codes: Tensor,
        pen: Tensor,
        advance: Tensor,
        baseline: Tensor,
        em: Tensor,
        window: Tensor,
        forward: Tensor,
    ) -> Labels:
        middle_y = baseline - em * 0.3
        ends = pen + advance
        scale = torch.linalg.det(forward[:, :, :2]).abs().sqrt()[window] * em

        def place(n: Tensor, x: Tensor) -> Tensor:
            affine = forward[window[n]]
            return affine[:, :, 0] * x[:, None] + affine[:, :, 1] * middle_y[n][:, None] + affine[:, :, 2]

        everyone = torch.arange(len(word), device=self.device)
        left, right = place(everyone, pen[:, 0]), place(everyone, ends.amax(1))
        margin = (scale * 0.35)[:, None]
        whole = ((left > margin) & (left < SIZE - margin) & (right > margin) & (right < SIZE - margin)).all(1)
        terms = self.pieces[word].long()
        at, nth = (terms >= 0).nonzero(as_tuple=True)
        start, end = self.piece_start[word[at], nth].long(), self.piece_end[word[at], nth].long()
        xy = place(at, (pen[at, start] + ends[at, end - 1]) / 2)
        inside = ((xy > 0) & (xy < SIZE)).all(1)
        at, nth, xy = at[inside], nth[inside], xy[inside]
        c_at, c_nth = (codes > 0).nonzero(as_tuple=True)
        c_xy = place(c_at, (pen[c_at, c_nth] + ends[c_at, c_nth]) / 2)
        c_in = ((c_xy > 0) & (c_xy < SIZE)).all(1)
        c_at, c_nth, c_xy = c_at[c_in], c_nth[c_in], c_xy[c_in]
        return Labels(
            window[at], xy, scale[at], terms[at, nth], whole[at],
            window[c_at], c_xy, scale[c_at], self.classes[codes[c_at, c_nth]],
        )  # fmt: skip
