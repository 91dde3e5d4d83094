"""Labels to targets: the band of sizes, cells that do not count, text that cannot be seen."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")


from research.reader.scenes import SIZE
from research.reader.targets import GRID, Targets, build_targets
from research.reader.typeset import Labels

NOISY = torch.arange(SIZE * SIZE).view(1, SIZE, SIZE).remainder(2).float()


def labels_of(*pieces: tuple[float, float, float, int, bool]) -> Labels:
    """(x, y, em, term, whole), each also a character of class 5."""
    xy = torch.tensor([[p[0], p[1]] for p in pieces]).view(-1, 2)
    em = torch.tensor([float(p[2]) for p in pieces])
    zero = torch.zeros(len(pieces), dtype=torch.long)
    term, whole = torch.tensor([p[3] for p in pieces]), torch.tensor([p[4] for p in pieces])
    return Labels(zero, xy, em, term, whole, zero, xy, em, zero + 5)


def target_of(*pieces: tuple[float, float, float, int, bool], picture: torch.Tensor = NOISY) -> Targets:
    return build_targets(labels_of(*pieces), picture)


@pytest.mark.parametrize(
    ("em", "word", "counted", "character"),
    [
        (6.0, 1, True, 5),
        (40.0, 1, True, 5),
        (5.99, 0, False, -1),
        (40.01, 0, False, -1),
        (4.5, 0, False, -1),
        (60.0, 0, False, -1),
        (4.49, 0, True, 0),
        (60.1, 0, True, 0),
    ],
)
def test_the_band_of_sizes(em: float, word: int, counted: bool, character: int) -> None:
    targets = target_of((100.0, 52.0, em, 9, True))
    assert float(targets.word[0, 6, 12]) == word
    assert bool(targets.counted[0, 6, 12]) is counted
    assert int(targets.characters[0, 6, 25]) == character
    assert targets.piece_term.tolist() == ([9] if word else [])
    assert float(targets.word.sum()) == word
    assert int((~targets.counted).sum()) == (not counted)


def test_a_word_cut_by_the_edge_is_neither_asked_for_nor_forbidden() -> None:
    targets = target_of((508.0, 300.0, 12.0, 3, False))
    assert not bool(targets.counted[0, 37, 63])
    assert float(targets.word.sum()) == 0


def test_a_whole_word_wins_over_a_cut_one_in_the_same_cell() -> None:
    targets = target_of((100.0, 52.0, 12.0, 3, True), (101.0, 53.0, 12.0, 4, False))
    assert bool(targets.counted[0, 6, 12])
    assert float(targets.word[0, 6, 12]) == 1
    assert targets.piece_term.tolist() == [3]


def test_text_that_cannot_be_seen_is_not_asked_for() -> None:
    flat = torch.full((1, SIZE, SIZE), 0.4)
    targets = target_of((100.0, 52.0, 12.0, 3, True), picture=flat)
    assert float(targets.word.sum()) == 0
    assert not bool(targets.counted[0, 6, 12])
    faint = flat + 0.1 * NOISY
    assert float(target_of((100.0, 52.0, 12.0, 3, True), picture=faint).word.sum()) == 1


def test_the_last_pixel_belongs_to_the_last_cell() -> None:
    targets = target_of((511.99, 511.99, 12.0, 3, True), (0.01, 0.01, 12.0, 4, True))
    assert targets.piece_row.tolist() == [GRID - 1, 0]
    assert targets.piece_column.tolist() == [GRID - 1, 0]
    assert int(targets.characters[0, GRID - 1, 2 * GRID - 1]) == 5


def test_windows_do_not_mix() -> None:
    one = labels_of((100.0, 52.0, 12.0, 3, True))
    both = Labels.join(one, one, 1)
    targets = build_targets(both, NOISY.repeat(2, 1, 1))
    assert targets.piece_window.tolist() == [0, 1]
    assert targets.word.sum((1, 2)).tolist() == [1, 1]
