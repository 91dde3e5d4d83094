"""Training as if weights and activations had 8 bits already, wherever the shipped files round.

The gradient passes as it is, so that the network learns to live with it.
"""

from __future__ import annotations

import sys
from functools import partial

import torch
from torch import Tensor, nn


def round_to_8_bits(trunk: nn.Module, on: bool = True) -> None:
    """From now on, or no longer; the last convolution, which finds words, stays exact."""
    if on == is_rounding(trunk):
        return
    for name, module in trunk.named_modules():
        if isinstance(module, nn.Identity):
            rounding = rounded
        elif isinstance(module, nn.Conv2d) and name != "word":
            rounding = partial(_convolve, module)
        else:
            continue
        if on:
            module.forward = rounding
        else:
            del module.forward
    if "torch._dynamo" in sys.modules:  # what was compiled knows nothing of it
        torch.compiler.reset()


def is_rounding(trunk: nn.Module) -> bool:
    return "forward" in vars(trunk.rounded)


def rounded(x: Tensor) -> Tensor:
    """What 8 bits keep: 255 steps from the least to the most that pictures hold on average."""
    with torch.no_grad():
        exact = x.float()
        low = exact.amin((1, 2, 3)).mean().clamp(max=0.0)
        high = exact.amax((1, 2, 3)).mean()
        step = ((high - low) / 255).clamp(min=1e-12)
        kept = torch.maximum(torch.minimum(exact, high), low)
        error = (kept / step).round() * step - exact
    return x + error.to(x.dtype)


def _convolve(module: nn.Conv2d, x: Tensor) -> Tensor:
    """Weights in 8 bits: the largest of each output channel is 127 steps."""
    with torch.no_grad():
        step = module.weight.abs().amax((1, 2, 3), keepdim=True).clamp(min=1e-12) / 127
        error = (module.weight / step).round() * step - module.weight
    result: Tensor = module._conv_forward(x, module.weight + error, module.bias)
    return result
