"""Wear changes how a page looks, not where things are."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")

from torch import Tensor

from research.reader.degrade import age_planes, blur, degrade, dots, faint, fax, jpeg, resample, streak, swell

SIZE = 512


def texture(n: int) -> Tensor:
    """Blocks of random darkness, as sharp as print."""
    torch.manual_seed(0)
    small = (torch.rand(n, SIZE // 8, SIZE // 8) < 0.3).float()
    return small.repeat_interleave(8, 1).repeat_interleave(8, 2) * 0.9


def best_shift(before: Tensor, after: Tensor, reach: int = 3) -> tuple[float, int, int]:
    """(correlation, dy, dx) of the shift at which two pictures agree best, whatever the polarity."""
    a = before - before.mean()
    found = []
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            b = torch.roll(after - after.mean(), (-dy, -dx), (0, 1))
            found.append((abs(float((a * b).sum() / (a.norm() * b.norm() + 1e-9))), dy, dx))
    return max(found)


def test_degrade_keeps_shape_range_and_places() -> None:
    before = texture(24)
    after = degrade(before.clone())
    assert after.shape == before.shape
    assert bool(torch.isfinite(after).all())
    assert 0 <= float(after.min()) <= float(after.max()) <= 1
    corner = slice(SIZE - 128, SIZE)  # a change of scale shows most in the far corner
    shifts = [best_shift(before[n, corner, corner], after[n, corner, corner]) for n in range(len(before))]
    clear = [shift for shift in shifts if shift[0] > 0.5]
    assert len(clear) > 18
    assert {shift[1:] for shift in clear} == {(0, 0)}


def test_degrade_does_something_and_differs_by_window() -> None:
    before = texture(1).repeat(16, 1, 1)
    after = degrade(before.clone())
    assert all(float((after[n] - after[n - 1]).abs().mean()) > 1e-3 for n in range(1, 16))


def centroid(x: Tensor) -> Tensor:
    axis = torch.arange(SIZE) + 0.5
    return torch.stack([(x.sum(1) * axis).sum(), (x.sum(0) * axis).sum()]) / x.sum()


@pytest.mark.parametrize("factor", [0.62, 0.75, 0.87])
def test_resampling_does_not_shift_the_far_corner(factor: float) -> None:
    x = torch.zeros(1, SIZE, SIZE)
    x[0, 480:496, 470:490] = 1
    moved = centroid(resample(x, factor, factor)[0]) - centroid(x[0])
    assert float(moved.abs().max()) < 0.1


def test_a_fax_loses_lines_not_dots_and_moves_nothing() -> None:
    x = torch.zeros(2, SIZE, SIZE)
    x[0, 100:200:2, 100:200] = 1  # lines one pixel high
    x[1, 100:200, 100:200:2] = 1  # and one pixel wide
    level, steep = torch.full((2, 1, 1), 0.5), torch.full((2, 1, 1), 20.0)
    faxed = fax(x, level, steep)
    down, across = (float(faxed[n, 110:190, 110:190].std()) for n in (0, 1))
    assert down < across / 2, f"lines {down:.3f}, dots {across:.3f}"
    square = torch.zeros(1, SIZE, SIZE)
    square[0, 300:320, 400:430] = 1
    worn = fax(square, level[:1], steep[:1])[0]
    assert float((centroid(worn * (worn > 0.05)) - centroid(square[0])).abs().max()) < 0.2


def test_blur_swell_and_jpeg_keep_the_middle() -> None:
    x = torch.zeros(1, SIZE, SIZE)
    x[0, 100:120, 200:230] = 1
    one = torch.ones(1, 1, 1)
    for worn in (blur(x, one), swell(x, one * 0.5), swell(x, one * -0.5), jpeg(x, one * 0.5)):
        near = worn[0] * (worn[0] > 0.05)
        assert float((centroid(near) - centroid(x[0])).abs().max()) < 0.1


def test_swell_thickens_and_thins() -> None:
    x = torch.zeros(1, SIZE, SIZE)
    x[0, 100:120, 200:230] = 1
    one = torch.ones(1, 1, 1)
    assert float(swell(x, one).sum()) == 22 * 32
    assert float(swell(x, -one).sum()) == 18 * 28
    assert torch.equal(swell(x, 0 * one), x)


def test_a_flat_page_survives_jpeg() -> None:
    flat = torch.full((1, SIZE, SIZE), 0.5)
    assert float((jpeg(flat, torch.full((1, 1, 1), 0.2)) - flat).abs().max()) < 0.02


def test_paper_ages_in_place_and_within_range() -> None:
    planes = torch.stack([torch.full((4, SIZE, SIZE), 0.1), torch.ones(4, SIZE, SIZE), texture(4)])
    torch.manual_seed(1)
    age_planes(planes)
    assert 0 <= float(planes[0].min()) <= float(planes[0].max()) <= 1
    assert 0 <= float(planes[2].min()) <= float(planes[2].max()) <= 1
    assert bool((planes[1] == 1).all())


def test_streaks_and_dots_take_ink_away_and_leave_paper_alone() -> None:
    x = torch.zeros(2, SIZE, SIZE)
    x[:, 100:300, 100:300] = 0.9
    full = torch.ones(2, 1, 1)
    torch.manual_seed(0)
    for worn in (streak(x, full * 0.7, full), dots(x, full * 2.5, full)):
        assert bool((worn <= x).all())
        assert bool((worn[x == 0] == 0).all())
        assert 0.1 < float(worn[x > 0].mean()) < 0.8
    columns = streak(x, full * 0, full)[0, 100:300, 100:300]
    assert bool((columns == columns[:1]).all()), "a dead element is silent from top to bottom"
    assert 0 < float((columns[0] == 0).float().mean()) < 0.15
    assert torch.equal(dots(x, full * 2.5, full * 0), x)


def test_faint_print_keeps_its_order_of_tones() -> None:
    x = texture(1)
    one = torch.ones(1, 1, 1)
    pale = faint(x, one * 0.15, one * 0.5, one * 0)
    assert float(pale.max() - pale.min()) < 0.15
    assert bool((pale[x > 0.5].min() > pale[x < 0.5].max()).all())
