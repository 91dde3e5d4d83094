"""Cutting a page along blank paper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from vsplade.encode.reader.ink_windows import (
    BLOCK,
    CELL,
    MARGIN_ACROSS,
    MARGIN_DOWN,
    cut,
    filled,
    ink_cells,
    windows,
)


@st.composite
def inked_maps(draw: st.DrawFn) -> np.ndarray:
    rows, columns = draw(st.integers(1, 12)) * 2, draw(st.integers(1, 12)) * 2
    seed, share = draw(st.integers(0, 2**32 - 1)), draw(st.floats(0, 1))
    return np.random.default_rng(seed).random((rows, columns)) < share**3


def print_of(inked: np.ndarray, paper: int = 255) -> np.ndarray:
    """A page with a fine check in the cells that are inked."""
    check = np.where(np.indices((CELL, CELL)).sum(0) % 2, 255 - paper, paper).astype(np.uint8)
    return np.kron(inked.astype(np.uint8), check - paper).astype(np.uint8) + np.uint8(paper)


def lettering(words: dict[tuple[int, int], str], size: int = 12, side: int = 640) -> np.ndarray:
    page = Image.new("L", (side, side), 255)
    for place, word in words.items():
        ImageDraw.Draw(page).text(place, word, fill=0, font=ImageFont.load_default(size))
    return np.array(page)


def work(page: np.ndarray) -> float:
    """Share of a page that is read."""
    shown, _ = windows(page)
    return sum((bottom - top) * (right - left) for top, left, bottom, right in shown) * CELL**2 / page.size


@settings(max_examples=150, deadline=None)
@given(inked_maps())
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


@settings(max_examples=150, deadline=None)
@given(inked_maps(), st.sampled_from([0, 255]))
def test_every_inked_cell_is_read_once_with_a_margin_and_never_more_than_the_page(
    inked: np.ndarray, paper: int
) -> None:
    page = print_of(inked, paper)
    shown, owner = windows(page)
    found = ink_cells(page)
    assert found[inked].all()
    assert sum((bottom - top) * (right - left) for top, left, bottom, right in shown) <= found.size
    rows, columns = found.shape
    for row, column in zip(*np.nonzero(found), strict=True):
        top, left, bottom, right = shown[owner[row, column]]
        assert top <= max(0, row - MARGIN_DOWN)
        assert bottom >= min(rows, row + 1 + MARGIN_DOWN)
        assert left <= max(0, column - MARGIN_ACROSS)
        assert right >= min(columns, column + 1 + MARGIN_ACROSS)


@settings(max_examples=150, deadline=None)
@given(inked_maps())
def test_windows_begin_and_end_on_the_coarse_grid_and_hold_their_own_cells(inked: np.ndarray) -> None:
    shown, owner = windows(print_of(inked))
    seen = np.zeros(owner.shape, bool)
    for number, (top, left, bottom, right) in enumerate(shown):
        assert all(side * CELL % BLOCK == 0 for side in (top, left, bottom, right))
        seen[top:bottom, left:right] = True
        own = owner == number
        assert own.any()
        own[top:bottom, left:right] = False
        assert not own.any()
    assert ((owner >= 0) == seen).all()


def test_where_windows_overlap_a_cell_belongs_to_the_one_whose_ink_it_is() -> None:
    inked = np.zeros((40, 120), bool)
    inked[8:13, 4:60] = inked[14:19, 50:110] = True
    shown, owner = windows(print_of(inked))
    assert len(shown) == 2
    assert shown[1][0] < 13 < shown[0][2]  # both show the empty row between them, and a row of ink
    assert (owner[8:13, 4:60] == 0).all()
    assert (owner[14:19, 50:110] == 1).all()


@pytest.mark.parametrize("tone", [0, 128, 255])
def test_blank_paper_of_any_tone_costs_nothing(tone: int) -> None:
    shown, owner = windows(np.full((320, 640), tone, np.uint8))
    assert shown == []
    assert (owner == -1).all()


def test_a_page_full_of_ink_is_read_as_it_is() -> None:
    shown, owner = windows(print_of(np.ones((40, 60), bool)))
    assert shown == [(0, 0, 40, 60)]
    assert (owner == 0).all()


def test_two_columns_are_read_apart() -> None:
    inked = np.zeros((80, 80), bool)
    inked[8:72, 4:25] = inked[8:72, 52:75] = True
    page = print_of(inked)
    assert len(windows(page)[0]) == 2
    assert work(page) < 0.65


def test_light_text_on_dark_paper_is_ink() -> None:
    page = 255 - lettering({(200, 200): "lighthouse"})
    assert len(windows(page)[0]) == 1
    assert 0 < work(page) < 0.03


@pytest.mark.parametrize("thick", [1, 2, 3, 40])
def test_frames_and_the_dark_edges_of_scans_do_not_tie_a_page_together(thick: int) -> None:
    page = lettering({(100, 100): "harbour", (420, 500): "traffic"})
    page[8 : 8 + thick, 8:632] = page[8:632, 8 : 8 + thick] = 0
    page[600 : 600 + thick, 8:632] = page[40:600, 320:322] = 0
    assert work(page) < 0.06
    _, owner = windows(page)
    assert owner[106 // CELL, 120 // CELL] != owner[506 // CELL, 440 // CELL]
    assert min(owner[106 // CELL, 120 // CELL], owner[506 // CELL, 440 // CELL]) >= 0


@pytest.mark.parametrize("letter", "1lI7a")
@pytest.mark.parametrize("size", [7, 9, 12, 20, 34])
def test_a_letter_alone_in_a_ruled_box_is_read(letter: str, size: int) -> None:
    large = Image.fromarray(lettering({(1001, 1006): letter}, size * 4, 2560))
    page = np.array(large.resize((640, 640), Image.Resampling.LANCZOS))
    page[230:231, 200:440] = page[300:301, 200:440] = page[230:300, 240:241] = 0
    _, owner = windows(page)
    ink = np.argwhere(page[232:299, 242:440] < 128)
    middle = (ink.min(0) + ink.max(0)) // 2 + (232, 242)
    assert owner[tuple(middle // CELL)] >= 0


def test_dust_is_left_out_but_not_by_a_letter() -> None:
    """Specks of up to 2 x 2 pixels over the whole page; one of them stands where an i has its dot."""
    page = lettering({(300, 300): "n"})
    alone = work(page)
    assert alone > 0
    for row, column in np.random.default_rng(0).integers(0, 16, (100, 2)) * 40 + 10:
        if abs(row - 306) > 24 or abs(column - 304) > 24:
            page[row : row + 1 + row // 40 % 2, column : column + 1 + column // 40 % 2] = 0
    assert work(page) == alone
    page[296:298, 303:305] = 0
    shown, owner = windows(page)
    assert len(shown) == 1
    assert owner[296 // CELL, 303 // CELL] == 0


def test_a_spiral_is_cut_no_deeper_than_python_can_go() -> None:
    inked = np.zeros((1200, 1200), bool)
    top, left, bottom, right = 0, 0, 1199, 1199
    while right - left > 8:  # frames in frames, each open at one place, so that every cut peels one side off
        inked[top, left : right + 1] = True
        inked[top + 2 : bottom + 1, right] = True
        inked[bottom, left : right - 2] = True
        inked[top + 4 : bottom - 1, left] = True
        top, left, bottom, right = top + 4, left + 4, bottom - 4, right - 4
    covered = np.zeros(inked.shape, np.int64)
    for a, b, c, d in cut(inked):
        covered[a:c, b:d] += 1
    assert (covered[inked] == 1).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-5, 14)] * 4), max_size=8), st.integers(1, 10), st.integers(1, 10))
def test_rectangles_fill_their_cells(corners: list[tuple[int, ...]], rows: int, columns: int) -> None:
    rectangles = [(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in corners]
    expected = np.zeros((rows, columns), bool)
    for top, left, bottom, right in rectangles:
        expected[max(0, top) : max(0, bottom), max(0, left) : max(0, right)] = True
    made = filled(np.array(rectangles, np.int64).reshape(-1, 4), (rows, columns))
    np.testing.assert_array_equal(made, expected)


def test_known_ink_counts_as_none() -> None:
    page = lettering({(40, 40): "harbour", (400, 500): "traffic"})
    known = np.zeros((80, 80), bool)
    known[:40] = True
    (only,), owner = windows(page, known)
    assert only[0] >= 500 // CELL - 2
    assert (owner[:40] == -1).all()
    assert len(windows(page)[0]) == 2
