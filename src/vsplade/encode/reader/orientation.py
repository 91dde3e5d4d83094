"""Pages that were scanned on their side, upside down or askew: noticed, and turned before they are read.

An upright page pays next to nothing: it is read as it is, and the reading itself tells. Only where words are
read with little certainty, a part of the page is read in all four directions, straightened where the lines
are askew. The page is read again in the direction that is read most surely, if that is clearly better than as
it is. Pictures, drawings and pages in scripts that the reader does not know are read badly in every
direction, so they stay as they are.

By some degrees askew, a page is still read surely while it loses words. So the direction of its lines is
measured too, on a few thousand edges of letters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.reader.ink_windows import CELL, CONTRAST
from vsplade.types import Box

if TYPE_CHECKING:
    from PIL import Image

    from vsplade.encode.reader.detect import Cells

DOUBTFUL = 0.48
"""Pages that are read less surely than this may be turned. Of 210 scans and slides 97 in 100 are read more
surely upright, and 3 of 630 so when turned."""
AGREED = 0.87
"""Pages of which the reader is so much at one with itself about its words are not turned, however unsurely
they are read. Of 960 turned pages none is; of 64 slides that are read with doubt as they are, 24."""
BETTER = 1.15
"""Times as sure as it is read without: so much a page must gain by a turn."""
ENOUGH = 0.2
"""So surely it must be read then: what is read badly in every direction is no page of words."""
FEWEST = 5
"""WordPlaces of words, at least: where next to nothing stands, there is nothing to turn."""
MORE = 3.0
"""Or so many times as many words."""
STRAIGHTER = 1.03
"""The same for a turn by some degrees, which changes less."""
LEAST_SURE = 1.0
"""Words (each counts by how surely it is read) that a sample must show in the direction that is chosen."""
SAMPLE = 192
"""Pixels a side of the part of the page, with the most words, that is read in every direction."""
SETTLES, CLEARLY = 0.6, 1.5
"""Words, and times as many as in any other direction: then a part that is read as it is settles it."""
SMALL = 0.25
"""Of the page: a small copy brings large type within reach. It is read too where the part settles nothing."""
FARTHEST = 16
"""Degrees that lines may be askew."""
TOLERATED = 4.0
"""Degrees askew that are read as they are: at 5 the reader finds as many words as at 2."""
STEP, FINE_STEP = 1.0, 0.25
MOST_EDGES = 3_000
"""Edges that the direction of the lines is measured by: as good as all, and soon done."""
FEWEST_EDGES = 100
LINES_EDGE = 512
"""Longest edge of what it is measured on."""
STEEPER = 1.5
"""Times as steep as along the lines of a straight page: so clear it must be that lines are askew."""

ReadAll = Callable[[Sequence["Image.Image"]], "list[Reading]"]
"""Reads grey pictures at the size that they have."""


@dataclass(frozen=True)
class Reading:
    """How surely something was read: sums over its places, each with the chance of its best term."""

    places: int
    chance: float
    squared: float
    """Of the squares: words, each counted by how sure it is."""
    named: float
    """Of the products with the chance of all terms that were named there."""

    @classmethod
    def of(cls, cells: Cells) -> Reading:
        best = cells.probability[:, 0].astype(np.float64)
        named = float(best @ cells.probability.sum(1))
        return cls(len(best), float(best.sum()), float((best**2).sum()), named)

    def and_(self, other: Reading) -> Reading:
        return Reading(
            self.places + other.places,
            self.chance + other.chance,
            self.squared + other.squared,
            self.named + other.named,
        )

    @property
    def is_doubtful(self) -> bool:
        return self.has_words and self.certainty < DOUBTFUL

    @property
    def may_be_turned(self) -> bool:
        """As far as its reading tells. Of faint words or a picture it is doubtful whether they are words; of
        a turned page, which words: several are named at one place."""
        return self.is_doubtful and self.squared < AGREED * self.named

    @property
    def has_words(self) -> bool:
        return self.places >= FEWEST

    @property
    def certainty(self) -> float:
        """The mean chance of a word, sure ones counted more."""
        return self.squared / self.chance if self.chance else 0.0


@dataclass(frozen=True)
class WordPlaces:
    """Where a page seems to hold words: also on its side they are seen, if not read."""

    middle: NDArray[np.floating[Any]]
    """(n, 2) x, y, in fractions of the page."""
    chance: NDArray[np.floating[Any]]

    @classmethod
    def of(cls, cells: Cells) -> WordPlaces:
        return cls(cells.middle, cells.probability.sum(1))

    @property
    def weight(self) -> NDArray[np.floating[Any]]:
        """A few words that are read surely on a turned page count less so: they are what lies otherwise."""
        root: NDArray[np.floating[Any]] = np.sqrt(self.chance)
        return root


@dataclass(frozen=True)
class Pose:
    """What brings a page upright: a turn by ``skew`` degrees, then by quarters, both anticlockwise."""

    quarters: int = 0
    skew: float = 0.0

    def turned(self, image: Image.Image) -> Image.Image:
        """The page upright, in the colour of the paper where a turn by some degrees has nothing to show.

        It keeps its size: corners are cut off that hold blank paper on a page that was scanned askew. A
        larger sheet would be shrunk more for reading.
        """
        from PIL import Image

        if self.skew:
            image = image.rotate(self.skew, Image.Resampling.BICUBIC, fillcolor=_paper(image))
        if self.quarters:
            image = image.transpose(
                (Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)[
                    self.quarters - 1
                ]
            )
        return image

    def box_on_page(self, box: Box, page: tuple[int, int]) -> Box:
        """Where a box of the upright page lies on the page as it was given, which has this size."""
        if not self.quarters and not self.skew:
            return box
        corners = np.array([(x, y) for x in (box.left, box.right) for y in (box.top, box.bottom)])
        for _ in range(self.quarters):  # back, one quarter clockwise at a time
            corners = np.stack([1 - corners[:, 1], corners[:, 0]], 1)
        if self.skew:
            corners = self._askew(corners, page)
        low, high = corners.min(0).clip(0, 1), corners.max(0).clip(0, 1)
        return Box(float(low[0]), float(low[1]), float(high[0]), float(high[1]))

    def _askew(self, corners: NDArray[np.float64], page: tuple[int, int]) -> NDArray[np.float64]:
        """Fractions of the straightened page to fractions of the page: both have one size and one middle."""
        angle, size = math.radians(self.skew), np.array(page, np.float64)
        sine, cosine = math.sin(angle), math.cos(angle)
        x, y = ((corners - 0.5) * size).T
        return np.stack([x * cosine - y * sine, x * sine + y * cosine], 1) / size + 0.5


AS_IT_IS = Pose()


def _paper(image: Image.Image) -> int | tuple[int, ...]:
    """The colour of most of the page."""
    few = np.asarray(image)[::8, ::8]
    middle = np.median(few, axis=(0, 1)).astype(int)
    return int(middle) if middle.ndim == 0 else tuple(middle.tolist())


def is_askew(image: Image.Image) -> bool:
    """Whether the lines of a page that is read surely are more askew than the reader likes."""
    return bool(line_skew(image, "across"))


def find_pose(image: Image.Image, as_it_is: Reading, words: WordPlaces, edge: int, read: ReadAll) -> Pose:
    """How a page lies that may be turned; ``edge`` is the longest edge that pages are read at."""
    from vsplade.pages import fit

    page = fit(image.convert("L"), edge, enlarge=True)
    if as_it_is.may_be_turned:
        skew = 0.0 - line_skew(image, "across", "down")
        turns = [Pose(quarters) for quarters in (1, 2, 3)]
        turns += [Pose(quarters, skew) for quarters in range(4) if skew]
    else:
        turns = [Pose(0, -line_skew(image, "across"))]
    poses = [AS_IT_IS, *turns]
    found = read(_parts(page, words, poses))
    if not _is_settled(found):
        small = fit(page, round(max(page.size) * SMALL))
        found = [one.and_(two) for one, two in zip(found, read(_turned(small, poses)), strict=True)]
    before, *after = found
    best, pose = max(zip(after, turns, strict=True), key=lambda pair: pair[0].squared)
    surer = best.certainty >= (BETTER if pose.quarters else STRAIGHTER) * before.certainty
    gained = (surer and best.squared >= before.squared) or best.squared >= MORE * before.squared
    return pose if gained and best.certainty >= ENOUGH and best.squared >= LEAST_SURE else AS_IT_IS


def _is_settled(found: Sequence[Reading]) -> bool:
    """Whether the page is read best as it is, beyond doubt."""
    as_it_is, *others = found
    enough = max(SETTLES, CLEARLY * max(one.squared for one in others))
    return as_it_is.has_words and as_it_is.squared >= enough


def _turned(picture: Image.Image, poses: Sequence[Pose]) -> list[Image.Image]:
    return [pose.turned(picture) for pose in poses]


def _parts(page: Image.Image, words: WordPlaces, poses: Sequence[Pose]) -> list[Image.Image]:
    """A part of the page with many words, in every pose."""
    left, top = _many_words(page, words)
    around = SAMPLE // 4  # for the corners that a turn by some degrees brings in
    box = (left - around, top - around, left + SAMPLE + around, top + SAMPLE + around)
    part = page.crop((max(0, box[0]), max(0, box[1]), min(page.width, box[2]), min(page.height, box[3])))
    parts = []
    for turned in _turned(part, poses):
        across, down = (max(0, (side - SAMPLE) // 2) for side in turned.size)
        parts.append(turned.crop((across, down, turned.width - across, turned.height - down)))
    return parts


def _many_words(page: Image.Image, words: WordPlaces) -> tuple[int, int]:
    """Left and top of the square of the page with the most words."""
    shape = np.maximum(1, np.array([page.height, page.width]) // CELL)
    row, column = (words.middle[:, ::-1] * shape).astype(np.int64).clip(0, shape - 1).T
    weight = np.zeros(shape)
    np.add.at(weight, (row, column), words.weight)
    side = SAMPLE // CELL
    missing = [(1, max(0, side - cells)) for cells in shape.tolist()]
    sums = np.pad(weight, missing).cumsum(0).cumsum(1)
    squares = sums[side:, side:] - sums[:-side, side:] - sums[side:, :-side] + sums[:-side, :-side]
    top, left = np.unravel_index(int(squares.argmax()), squares.shape)
    return int(left) * CELL, int(top) * CELL


def line_skew(image: Image.Image, *directions: str) -> float:
    """Degrees, anticlockwise, that lines which run ``across`` a page or ``down`` it are askew; 0 where they
    are as straight as the reader needs them.

    Seen along the lines, the edges of letters lie in narrow bands: their profile has the steepest steps.
    """
    from vsplade.pages import grey_levels

    every = max(1, round(max(image.size) / LINES_EDGE))
    grey = np.ascontiguousarray(grey_levels(image)[::every, ::every])
    sides = {"across": grey, "down": np.rot90(grey)}
    return max(_steepest(*_edges_of(sides[direction])) for direction in directions)[1]


def _edges_of(grey: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """x and y of the pixels that differ from the one above, or of some of them."""
    step = np.maximum(grey[1:], grey[:-1])
    step -= np.minimum(grey[1:], grey[:-1])
    places = np.flatnonzero(step > CONTRAST)
    if len(places) > MOST_EDGES:
        places = places[np.linspace(0, len(places) - 1, MOST_EDGES).astype(np.int64)]
    y, x = np.divmod(places, grey.shape[1])
    return x.astype(np.float32), y.astype(np.float32)


def _steepest(x: NDArray[np.float32], y: NDArray[np.float32]) -> tuple[float, float]:
    """By how much the best angle is better than most, and the angle, or 0."""
    if len(x) < FEWEST_EDGES:
        return 0.0, 0.0

    angles = np.arange(-FARTHEST, FARTHEST + STEP, STEP)
    coarse = _steepness(x, y, angles)
    best = float(angles[int(coarse.argmax())])
    clear = float(coarse.max() / max(1.0, float(np.median(coarse))))
    straight = coarse[np.abs(angles) <= TOLERATED].max()
    if abs(best) <= TOLERATED or coarse.max() < STEEPER * straight:
        return clear, 0.0
    near = np.arange(best - STEP, best + STEP + FINE_STEP, FINE_STEP)
    return clear, float(near[int(_steepness(x, y, near).argmax())])


def _steepness(
    x: NDArray[np.float32], y: NDArray[np.float32], angles: NDArray[np.float64]
) -> NDArray[np.int64]:
    """How steep the profile is at each angle; all at once, because this is done for every page."""
    turn = np.radians(angles).astype(np.float32)[:, None]
    height = np.cos(turn) * y
    height += np.sin(turn) * x
    height -= height.min(axis=1, keepdims=True)
    row = height.astype(np.int64)
    rows, many = int(row.max()) + 2, len(angles)
    row += np.arange(many)[:, None] * rows
    profiles = np.bincount(row.ravel(), minlength=many * rows).reshape(many, rows)
    steep: NDArray[np.int64] = (np.diff(profiles, axis=1) ** 2).sum(axis=1)
    return steep
