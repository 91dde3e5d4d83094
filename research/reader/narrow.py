"""A trained reader with narrower blocks: half of the arithmetic, and most of what it had learned.

A block adds to its stream what two convolutions make of it. Fewer channels will do between the two: those go
whose loss the others can best make good, told by least squares, and the second convolution is fitted anew, so
that the stream after the block is as it was. Block after block, on windows of real pages; what the blocks
before lost is part of what the next one is fitted to. `research.reader.train --initial` goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from research.command import main
from research.reader.export import calibration_windows
from research.reader.options import NarrowOptions
from research.reader.weights import load_weights
from vsplade.cli.common import note
from vsplade.encode.gpu.network import NetworkConfig, Reader, ResidualBlock, Trunk
from vsplade.errors import InputError
from vsplade.train import training_checkpoint

BATCH = 8
PLACES = 3500
"""Places of a batch of windows that are looked at, chosen at random."""
RIDGE = 1e-4
"""Of the mean power of an input, added to each: channels that say the same must not blow weights up."""
AT_ONCE = 8
"""An eighth of the channels that are left goes at a time, then the rest is judged anew."""


Say = Callable[[str], None]


class _Reached(Exception):
    """Carries what goes into a block; the layers after it need not run."""

    def __init__(self, stream: Tensor) -> None:
        self.stream = stream


def _stop(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    raise _Reached(inputs[0])


def streams(trunk: Trunk, block: ResidualBlock, windows: Tensor) -> Iterator[Tensor]:
    """What goes into a block, batch after batch of windows."""
    hook = block.register_forward_pre_hook(_stop)
    try:
        for batch in windows.split(BATCH):
            try:
                trunk(batch[:, None])
            except _Reached as reached:
                yield reached.stream
    finally:
        hook.remove()


class Regression:
    """Sums for fitting a block's second convolution: how its inputs go together, and with what is wanted."""

    def __init__(self, block: ResidualBlock) -> None:
        self.block = block
        second = block.second[0]
        assert isinstance(second, nn.Conv2d)
        self.channels, self.kernel, self.padding = second.in_channels, second.kernel_size, second.padding
        self.taps = self.kernel[0] * self.kernel[1]
        width = self.channels * self.taps + 1  # and a constant
        self.inputs = torch.zeros(width, width, dtype=torch.float64)
        self.wanted = torch.zeros(width, second.out_channels, dtype=torch.float64)
        self.power = 0.0

    def add(self, old_stream: Tensor, new_stream: Tensor) -> None:
        """The block on the new stream must lead where the old one on the old stream led."""
        wanted = old_stream + self.block.second(functional.relu(self.block.first(old_stream))) - new_stream
        inner = functional.relu(self.block.first(new_stream))
        patches = functional.unfold(inner, self.kernel, padding=self.padding).transpose(1, 2).flatten(0, 1)
        targets = wanted.flatten(2).transpose(1, 2).flatten(0, 1)
        chosen = torch.randperm(len(patches))[:PLACES]
        x = functional.pad(patches[chosen], (0, 1), value=1.0)
        self.inputs += (x.T @ x).double()
        self.wanted += (x.T @ targets[chosen]).double()
        self.power += float(targets[chosen].square().sum())

    def _rows(self, kept: Tensor) -> Tensor:
        taps = kept[:, None] * self.taps + torch.arange(self.taps)
        return torch.cat([taps.flatten(), torch.tensor([len(self.inputs) - 1])])

    def _solve(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse of the sums of the channels that are kept, and their best weights."""
        rows = self._rows(kept)
        sums = self.inputs[rows][:, rows].clone()
        sums.diagonal()[:-1].add_(RIDGE * self.inputs.diagonal()[:-1].mean())
        inverse = torch.linalg.inv(sums)
        return inverse, inverse @ self.wanted[rows]

    def choose(self, count: int) -> Tensor:
        """The channels to keep: each time, those go without which the rest can explain the most."""
        kept = torch.arange(self.channels)
        while len(kept) > count:
            inverse, weights = self._solve(kept)
            shape = (len(kept), self.taps)
            blocks = inverse[:-1, :-1].view(*shape, *shape).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
            own = weights[:-1].view(*shape, -1)
            loss = (own * torch.linalg.solve(blocks, own)).sum((1, 2))
            leave = min(len(kept) - count, max(1, len(kept) // AT_ONCE))
            kept = kept[loss.argsort()[leave:].sort().values]
        return kept

    def fit(self, kept: Tensor) -> tuple[Tensor, Tensor, float]:
        """Weights (outputs, kept, height, width) and biases, and the share of what was wanted they miss."""
        _, weights = self._solve(kept)
        rows = self._rows(kept)
        missed = self.power - 2 * float((weights * self.wanted[rows]).sum())
        missed += float((weights * (self.inputs[rows][:, rows] @ weights)).sum())
        kernel = weights[:-1].view(len(kept), *self.kernel, -1).permute(3, 0, 1, 2)
        return kernel.float(), weights[-1].float(), missed / max(self.power, 1e-12)


def set_block(
    new: ResidualBlock, old: ResidualBlock, kept: Tensor, kernel: Tensor, bias: Tensor, stream: Tensor
) -> None:
    """Kept channels as they were; the second convolution as fitted, its norm such that it changes nothing."""
    first, norm, second, after = new.first[0], new.first[1], new.second[0], new.second[1]
    first.weight.copy_(old.first[0].weight[kept])
    for name in ("weight", "bias", "running_mean", "running_var"):
        getattr(norm, name).copy_(getattr(old.first[1], name)[kept])
    # weights as large as the old ones were: the optimizer's steps should mean the same to them
    scale = (old.second[0].weight.square().mean((1, 2, 3)) / kernel.square().mean((1, 2, 3))).sqrt()
    second.weight.copy_(kernel * scale[:, None, None, None])
    made = second(functional.relu(new.first(stream)))
    mean, variance = made.mean((0, 2, 3)), made.var((0, 2, 3))
    after.running_mean.copy_(mean)
    after.running_var.copy_(variance)
    after.weight.copy_((variance + after.eps).sqrt() / scale)
    after.bias.copy_(bias + mean / scale)


@torch.no_grad()
def narrowed(old: Reader, inner: float, windows: Tensor, say: Say = print) -> Reader:
    """The same reader with ``inner`` of its blocks' channels between their convolutions."""
    config: NetworkConfig = replace(old.config, inner=inner)
    new = Reader(config).eval()
    held = old.state_dict()
    same = {n: held[n] for n, t in new.state_dict().items() if held[n].shape == t.shape}
    new.load_state_dict(same, strict=False)
    for name, block in old.trunk.named_modules():
        if not isinstance(block, ResidualBlock):
            continue
        smaller = new.trunk.get_submodule(name)
        assert isinstance(smaller, ResidualBlock)
        regression = Regression(block)
        pairs = zip(streams(old.trunk, block, windows), streams(new.trunk, smaller, windows), strict=True)
        for old_stream, new_stream in pairs:
            regression.add(old_stream, new_stream)
        kept = regression.choose(smaller.first[0].out_channels)
        kernel, bias, missed = regression.fit(kept)
        set_block(smaller, block, kept, kernel, bias, new_stream)
        say(f"{name}: {regression.channels} to {len(kept)} channels, {missed:.1%} of its part not explained")
    return new


def narrow(options: NarrowOptions, say: Say = print) -> dict[str, Any]:
    """Make a trained reader's blocks narrower; training goes on from there."""
    tensors, header = load_weights(options.checkpoint)
    config = NetworkConfig(**header["network"])
    if not 0 < options.inner < config.inner:
        raise InputError(
            f"--inner must be above 0 and below {config.inner}, which the checkpoint has already."
        )
    old = Reader(config).eval()
    training_checkpoint.load_model(old, tensors)
    torch.manual_seed(options.seed)
    new = narrowed(old, options.inner, calibration_windows(options.pdfs, options.windows, options.seed), say)
    saved = {f"model.{name}": tensor for name, tensor in new.state_dict().items()}
    training_checkpoint.save(options.out, saved, {**header, "network": new.config.to_json()})
    return {"out": str(options.out), "network": new.config.to_json()}


if __name__ == "__main__":
    main(narrow, NarrowOptions, say=note)
