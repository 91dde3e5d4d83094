"""Whether kernels of our own run: on CUDA, where triton came with torch, unless they are switched off."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

SWITCH = "VSPLADE_KERNELS"
"""Environment variable; 0 leaves everything to torch's own operations."""


@lru_cache(maxsize=1)
def kernels_allowed() -> bool:
    return os.environ.get(SWITCH, "1") != "0" and find_spec("triton") is not None


def kernels_run_on(tensor: Tensor) -> bool:
    return tensor.is_cuda and tensor.element_size() <= 4 and kernels_allowed()
