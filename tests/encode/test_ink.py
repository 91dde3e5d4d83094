"""Cutting a page along blank paper."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vsplade.encode.ink import BLOCK, cut, ink_blocks, rectangles, widen


@st.composite
def block_maps(draw: st.DrawFn) -> np.ndarray:
    rows, columns = draw(st.integers(1, 24)), draw(st.integers(1, 24))
    seed, share = draw(st.integers(0, 2**32 - 1)), draw(st.floats(0, 1))
    return np.random.default_rng(seed).random((rows, columns)) < share**3


@settings(max_examples=150, deadline=None)
@given(block_maps())
def test_cuts_hold_all_ink_once_and_are_tight(inked: np.ndarray) -> None:
    covered = np.zeros(inked.shape, np.int64)
    for top, left, bottom, right in cut(inked):
        covered[top:bottom, left:right] += 1
        part = inked[top:bottom, left:right]
        assert part[0].any()
        assert part[-1].any()
        assert part[:, 0].any()
        assert part[:, -1].any()
    assert (covered[inked] == 1).all()
    assert covered.max(initial=0) <= 1


def test_blank_paper_of_any_tone_costs_nothing() -> None:
    for tone in (0, 128, 255):
        assert rectangles(np.full((320, 640), tone, np.uint8)) == []


def test_two_columns_far_apart_are_read_apart() -> None:
    page = np.full((640, 640), 250, np.uint8)
    page[64:576, 32:200] = np.where(np.indices((512, 168)).sum(0) % 8 < 4, 0, 250)
    page[64:576, 420:600] = np.where(np.indices((512, 180)).sum(0) % 8 < 4, 0, 250)
    found = rectangles(page)
    assert len(found) == 2
    read = sum((bottom - top) * (right - left) for top, left, bottom, right in found) * BLOCK**2
    assert read < 0.65 * page.size


def test_light_text_on_dark_paper_is_ink() -> None:
    page = np.full((160, 160), 30, np.uint8)
    page[70:80, 40:120:6] = 220
    assert ink_blocks(page).any()
    assert len(rectangles(page)) == 1


def test_widening_reaches_every_neighbour() -> None:
    inked = np.zeros((5, 5), bool)
    inked[2, 2] = True
    assert widen(inked)[1:4, 1:4].all()
    assert widen(inked).sum() == 9
