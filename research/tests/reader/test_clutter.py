"""Photographs and text on end: what they hide is not asked for, what they leave alone stays."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")

from research.reader.clutter import Patches, back, cover, hide, photographs, random_patches
from research.reader.scenes import SIZE
from research.reader.typeset import Labels

CPU = torch.device("cpu")


def labels_at(*places: tuple[int, float, float]) -> Labels:
    """(window, x, y) of 10 px type, each a piece and a character."""
    window = torch.tensor([p[0] for p in places])
    xy = torch.tensor([[p[1], p[2]] for p in places])
    em, term = torch.full((len(places),), 10.0), torch.arange(len(places))
    whole = torch.ones(len(places), dtype=torch.bool)
    return Labels(window, xy, em, term, whole, window, xy, em, term)


def test_what_a_patch_hides_is_gone_and_its_neighbours_are_not_whole() -> None:
    patches = Patches(torch.tensor([1]), torch.tensor([[100, 100, 200, 200]]))
    labels = labels_at((1, 150.0, 150.0), (0, 150.0, 150.0), (1, 95.0, 150.0), (1, 300.0, 150.0))
    kept = hide(labels, patches, 2)
    assert kept.piece_term.tolist() == [1, 2, 3]
    assert kept.piece_whole.tolist() == [True, False, True]
    assert kept.character_class.tolist() == [1, 2, 3]


def test_patches_lie_where_they_say() -> None:
    mask = Patches(torch.tensor([0]), torch.tensor([[-5, 10, 20, 30]])).mask()
    assert int(mask.sum()) == 20 * 20
    assert bool(mask[0, 10, 0])
    assert not bool(mask[0, 9, 0])


def test_only_pixels_in_patches_change_and_windows_have_one_at_most() -> None:
    torch.manual_seed(0)
    before = torch.full((20, SIZE, SIZE), 0.25)
    after, kept = cover(before.clone(), labels_at((0, 5.0, 5.0)))
    changed = (after != before).flatten(1).any(1)
    assert 0 < int(changed.sum()) <= 4
    assert len(kept.piece_term) <= 1
    patches = random_patches(50, 0.5, CPU)
    assert len(patches.window.unique()) == len(patches.window) == 25


def test_ink_stays_readable_on_a_photograph() -> None:
    torch.manual_seed(1)
    planes = torch.zeros(3, 50, SIZE, SIZE)
    planes[1] = 1.0
    back(planes)
    backed = planes[1] != 1.0
    assert bool(backed.any())
    distance = (planes[0] - planes[1]).abs()[backed]
    assert float((distance > 0.15).float().mean()) > 0.95


def test_photographs_are_pictures() -> None:
    torch.manual_seed(2)
    picture = photographs(6, CPU)
    assert picture.shape == (6, SIZE, SIZE)
    assert float(picture.min()) >= 0
    assert float(picture.max()) <= 1
    assert bool((picture.flatten(1).std(1) > 0.02).all())
