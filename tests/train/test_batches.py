"""Pairs to tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from vsplade.train.batches import joined


@pytest.mark.parametrize("pinned", [False, True])
def test_tiles_of_all_pages_in_memory_that_a_gpu_may_fetch_from(
    monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    asked, empty = [], torch.empty

    def noted(*given: Any, pin_memory: bool, **others: Any) -> Any:
        asked.append(pin_memory)
        return empty(*given, **others)  # there may be no GPU here to pin it for

    monkeypatch.setattr(torch, "empty", noted)
    parts = [np.full((count, 4, 4, 3), count, np.uint8) for count in (1, 3, 2)]
    tiles = joined(parts, pinned)
    assert asked == [pinned]
    assert tiles.dtype == torch.uint8
    assert np.array_equal(tiles.numpy(), np.concatenate(parts))
