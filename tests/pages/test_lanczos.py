"""Loops that numba compiles shrink a page as Pillow does, to the last bit."""

from __future__ import annotations

import numpy as np
import PIL
import pytest
from PIL import Image

from vsplade.pages import fit, grey_levels
from vsplade.pages.lanczos import fit_grey

STEPS = 0 if int(PIL.__version__.split(".")[0]) >= 13 else 2
"""Levels that strips may differ by: Pillow shrank them in another order before."""


@pytest.mark.parametrize("edge", [1536, 1024, 410, 164, 37, 1])
@pytest.mark.parametrize("size", [(1083, 1400), (1241, 1754), (1024, 768), (640, 480), (17, 23), (8, 8)])
def test_pages_are_pillows(size: tuple[int, int], edge: int) -> None:
    noise = np.random.default_rng(edge).integers(0, 256, size[::-1], np.uint8)
    picture = Image.fromarray(noise)
    for enlarge in (False, True):
        ours, theirs = fit_grey(picture, edge, enlarge), fit(picture, edge, enlarge)
        assert ours.mode == "L"
        assert ours.size == theirs.size
        assert (grey_levels(ours) == np.asarray(theirs)).all()
        assert (np.asarray(ours) == np.asarray(theirs)).all()


@pytest.mark.parametrize(
    "size", [(1, 1), (1, 900), (5, 900), (900, 5), (333, 4000), (4000, 333), (2480, 3508)]
)
def test_strips_and_large_scans_are_too(size: tuple[int, int]) -> None:
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, size[::-1], np.uint8))
    for edge in (1024, 164, 16, 3):
        ours, theirs = (np.asarray(way(picture, edge), np.int16) for way in (fit_grey, fit))
        assert np.abs(ours - theirs).max() <= STEPS


def test_what_is_given_stays_as_it_is() -> None:
    picture = Image.fromarray(np.full((90, 60), 7, np.uint8))
    assert fit_grey(picture, 0) is picture
    assert fit_grey(picture, 200) is picture
    smaller = fit_grey(picture, 45)
    assert np.asarray(picture).min() == np.asarray(smaller).max() == 7
    assert smaller.transpose(Image.Transpose.ROTATE_90).size == (45, 30)
