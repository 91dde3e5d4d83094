"""The reader's network in torch: for training, for export, and for encoding on a GPU.

Two parts, so that the arithmetic goes where there is ink. The *trunk* is a small convolutional net over the
picture: it tells for every cell of 8 x 8 pixels whether the middle of a word piece lies there, and gives the
cell's features. The *head* runs only on those cells (some hundreds a page) and names the piece out of the
whole vocabulary. Type is read between about 7 and 38 px; larger type is read on smaller copies of the page,
so the net need not learn size.

Only dense convolutions, batch norm and ReLU: they fold into plain convolutions and quantise to 8 bits. The
picture is folded first, 4 x 4 pixels to 16 channels: a convolution over one channel keeps a CPU's vector
units idle (docs/log.md has the times).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from vsplade.encode.reader.ink_windows import FOLD

CHARACTER_CLASSES = 38  # blank, a-z, 0-9, anything else: supervision in training only


@dataclass(frozen=True)
class NetworkConfig:
    vocabulary: int = 31_744
    stem: int = 0
    """Channels between the folded picture and the fine grid; 0 goes there at once."""
    fine: int = 48
    middle: int = 96
    coarse: int = 224
    fine_blocks: int = 1
    middle_blocks: int = 2
    coarse_blocks: int = 3
    inner: float = 1.0
    """Share of a block's channels that there are between its two convolutions."""
    hidden: int = 512
    rank: int = 256
    """Numbers that terms are named from, made of the hidden ones; 0 names them from those at once."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def convolution(
    inputs: int, outputs: int, kernel: tuple[int, int] = (3, 3), stride: int = 1
) -> nn.Sequential:
    padding = ((kernel[0] - 1) // 2, (kernel[1] - 1) // 2)
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False), nn.BatchNorm2d(outputs)
    )


class ResidualBlock(nn.Module):
    """Residual: a 3 x 3, then a second kernel, which is wide and flat where whole words must be seen."""

    def __init__(self, channels: int, inner: int, second: tuple[int, int] = (3, 3)) -> None:
        super().__init__()
        self.first = convolution(channels, inner)
        self.second = convolution(inner, channels, second)
        self.rounded = nn.Identity()
        """Stands wherever the shipped files round to 8 bits, so that training can round there, too."""

    def forward(self, x: Tensor) -> Tensor:
        inner = self.rounded(functional.relu(self.first(x)))
        added: Tensor = self.rounded(self.second(inner))
        return cast(Tensor, self.rounded(functional.relu(x + added)))


class Trunk(nn.Module):
    """Picture (batch, 1, height, width), white = 0 and black = 1, sides multiples of 16 -> cells and their
    features.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        if config.stem:
            self.stem = convolution(FOLD * FOLD, config.stem)
            self.to_fine = convolution(config.stem, config.fine, (2, 2))
        else:
            self.to_fine = convolution(FOLD * FOLD, config.fine)

        def block(channels: int, second: tuple[int, int] = (3, 3)) -> ResidualBlock:
            return ResidualBlock(channels, round(channels * config.inner), second)

        self.fine = nn.Sequential(*(block(config.fine) for _ in range(config.fine_blocks)))
        self.to_middle = convolution(config.fine, config.middle, stride=2)
        self.middle = nn.Sequential(*(block(config.middle) for _ in range(config.middle_blocks)))
        self.to_coarse = convolution(config.middle, config.coarse, stride=2)
        self.coarse = nn.Sequential(*(block(config.coarse, (1, 7)) for _ in range(config.coarse_blocks)))
        self.up = convolution(config.coarse, config.middle, (1, 1))
        self.join = block(config.middle, (1, 7))
        self.word = nn.Conv2d(config.middle, 1, 1)
        nn.init.constant_(self.word.bias, -4.0)  # few cells hold a word
        self.rounded = nn.Identity()

    def _active(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.rounded(functional.relu(x)))

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Word-middle logits (b, h/8, w/8), fine features, coarse features, and the features characters are
        read from.
        """
        return self.read(functional.pixel_unshuffle(picture, FOLD))

    def read(self, folded: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The same from a picture that is folded already, (batch, 16, height / 4, width / 4)."""
        x = folded
        if hasattr(self, "stem"):
            # a place and the ones above and to the left of it
            x = functional.pad(self._active(self.stem(x)), (1, 0, 1, 0))
        x = self.fine(self._active(self.to_fine(x)))
        middle = self.middle(self._active(self.to_middle(x)))
        coarse = self.coarse(self._active(self.to_coarse(middle)))
        lifted = functional.interpolate(self.rounded(self.up(coarse)), scale_factor=2.0, mode="nearest")
        joined = self.join(self._active(middle + lifted))
        return self.word(joined)[:, 0], joined, coarse, middle


class Head(nn.Module):
    """Features of chosen cells (n, middle + coarse) -> vocabulary logits (n, vocabulary)."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.hidden = nn.Linear(config.middle + config.coarse, config.hidden)
        self.narrow = nn.Linear(config.hidden, config.rank) if config.rank else nn.Identity()
        self.vocabulary = nn.Linear(config.rank or config.hidden, config.vocabulary)

    def forward(self, features: Tensor) -> Tensor:
        return self.name(self.look(features))

    def look(self, features: Tensor) -> Tensor:
        return functional.relu(self.hidden(features))

    def name(self, seen: Tensor) -> Tensor:
        logits: Tensor = self.vocabulary(self.narrow(seen))
        return logits


class Reader(nn.Module):
    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.trunk = Trunk(config)
        self.head = Head(config)
        self.size = nn.Linear(config.hidden, 1)
        """Of the type in a cell, from what the head sees there: the logarithm (base 2) of its em in px."""
        self.characters = nn.Conv2d(config.middle, 2 * CHARACTER_CLASSES, 1)
        """Left and right half of a cell: what character has its middle there. Dropped after training."""


def cell_features(fine: Tensor, coarse: Tensor, batch: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """What the head sees of a cell: its own features and those of the coarse cell around it."""
    near = fine.permute(0, 2, 3, 1)[batch, row, column]
    wide = coarse.permute(0, 2, 3, 1)[batch, row // 2, column // 2]
    return torch.cat([near, wide], dim=1)


def fold_norms(module: nn.Module) -> None:
    """Batch norms into the convolutions before them, all the way down, in place."""
    for child in module.children():
        fold_norms(child)
    if isinstance(module, nn.Sequential) and len(module) == 2 and isinstance(module[1], nn.BatchNorm2d):
        module[0] = fuse_conv_bn_eval(module[0], module[1])
        module[1] = nn.Identity()
