"""What the parts of the reader's GPU path share: numbers there and back without needless waits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vsplade.encode.gpu.pipeline import Steps


@cache
def kernels() -> Any:
    """Triton comes with torch for CUDA, but not on every system."""
    try:
        from vsplade.encode.gpu import reader_kernels
    except ImportError:
        return None
    return reader_kernels


def to_device(numbers: Sequence[Any], device: torch.device, kind: Any) -> Tensor:
    """A small tensor, without waiting for the device."""
    plain = torch.tensor(numbers, dtype=kind)
    return plain.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else plain.to(device)


def fetch(*tensors: Tensor) -> Steps[list[np.ndarray[Any, Any]]]:
    """The tensors in main memory, when the device has made them."""
    if not tensors[0].is_cuda:
        yield None
        return [tensor.numpy() for tensor in tensors]
    here = [torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for tensor in tensors]
    for target, tensor in zip(here, tensors, strict=True):
        target.copy_(tensor, non_blocking=True)
    done = torch.cuda.Event(blocking=True)  # asleep, where torch would keep a processor busy
    done.record()
    yield done
    return [target.numpy() for target in here]


def rows_of(mask: Tensor, count: int) -> Tensor:
    """Where a flat mask is set, first to last, then zeros; ``count`` is at least how often.

    ``nonzero`` finds out how often by waiting for the device.
    """
    number = torch.arange(len(mask), device=mask.device)
    rows = torch.zeros(count + len(mask), dtype=torch.int64, device=mask.device)
    # what is not set goes behind the end, each to a place of its own
    rows.scatter_(0, torch.where(mask, mask.cumsum(0) - 1, number + count), number)
    return rows[:count]
