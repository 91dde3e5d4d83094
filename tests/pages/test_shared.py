"""Pages in shared memory: slots come back, held pages stay, and without slots the pipe serves."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vsplade.pages import RenderedPage, grey_levels, name_files, render
from vsplade.pages.shared_memory import SharedSlots

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is shared on Linux only")


def test_a_slot_is_free_when_the_last_view_is_gone() -> None:
    slots = SharedSlots(2, 100)
    first, second = slots.take(5)
    assert slots.take(1) == []
    pixels = slots.pixels(first, 100)
    part = pixels.reshape(10, 10)[2:]
    del pixels
    gc.collect()
    assert slots.take(1) == []
    del part
    gc.collect()
    assert slots.take(1) == [first]
    slots.give_back(second)
    slots.close()
    assert slots.take(1) == [second]


def make_pages(folder: Path, count: int) -> list[str]:
    rng = np.random.default_rng(0)
    for n in range(count):
        Image.fromarray(rng.integers(0, 256, (60, 20 + n), np.uint8)).save(folder / f"{n:02}.png")
    return [str(folder / f"{n:02}.png") for n in range(count)]


@pytest.mark.parametrize("available", [True, False])
def test_pages_that_are_held_stay_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available: bool
) -> None:
    """More pages than there are slots: the rest comes through the pipe, and none is overwritten."""
    if not available:
        monkeypatch.setattr(sys.modules["vsplade.pages.shared_memory"].os, "memfd_create", _refuse)
    paths = make_pages(tmp_path, 40)
    held = [
        result.page.image for result in render(name_files(paths), 60, grey=True, workers=2) if page(result)
    ]
    assert len(held) == 40
    for path, image in zip(paths, held, strict=True):
        with Image.open(path) as expected:
            np.testing.assert_array_equal(np.asarray(image), np.asarray(expected))
            np.testing.assert_array_equal(grey_levels(image), np.asarray(expected))


def page(result: object) -> bool:
    return isinstance(result, RenderedPage)


def _refuse(*_: object) -> int:
    raise OSError("no memory to share")


def test_colour_pages_use_slots_too(tmp_path: Path) -> None:
    colours = np.random.default_rng(0).integers(0, 256, (50, 60, 3), np.uint8)
    Image.fromarray(colours).save(tmp_path / "a.png")
    (result,) = render(name_files([str(tmp_path / "a.png")]), 60, workers=1)
    assert isinstance(result, RenderedPage)
    np.testing.assert_array_equal(np.asarray(result.page.image), colours)
