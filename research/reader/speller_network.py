"""The network that spells single words: convolutions that see a word's picture, and more that look along it.

Every second column of pixels says a letter or none (connectionist temporal classification).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from vsplade.encode.reader.spelling import LETTERS, STEP


@dataclass(frozen=True)
class Size:
    """Of a network: the height of its pictures, channels of the convolutions that see, and how far apart the
    columns lie that each of those along the word joins.
    """

    height: int
    see: tuple[int, int, int]
    width: int
    apart: tuple[int, ...]


SIZES = {
    "slim": Size(24, (24, 48, 80), 144, (1, 2, 4, 1)),
    "low": Size(24, (32, 64, 96), 192, (1, 2, 4, 1, 2, 1)),
    "high": Size(32, (24, 48, 96), 160, (1, 2, 4, 1, 2)),
    "large": Size(32, (24, 64, 112), 192, (1, 2, 4, 1, 2, 4)),
}


class Along(nn.Module):
    """A convolution along the word, added to what it saw."""

    def __init__(self, width: int, apart: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, (1, 3), padding=(0, apart), dilation=(1, apart), bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x + self.norm(self.conv(x)))


def _seeing(inputs: int, outputs: int, kernel: Any, stride: Any, padding: Any) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())


class SpellerNetwork(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        one, two, three = size.see
        self.see = nn.Sequential(
            _seeing(1, one, 5, STEP, 2),
            _seeing(one, two, 3, (2, 1), 1),
            _seeing(two, three, 3, (2, 1), 1),
            _seeing(three, size.width, (size.height // 8, 3), 1, (0, 1)),  # the rows that are left become one
        )
        self.spell = nn.Sequential(*(Along(size.width, apart) for apart in size.apart))
        self.out = nn.Conv2d(size.width, len(LETTERS) + 1, 1)

    def forward(self, pictures: Tensor) -> Tensor:
        """(words, 1, height, width), ink 1 and paper 0, to logits (words, letters, frames)."""
        logits: Tensor = self.out(self.spell(self.see(pictures)))
        return logits.squeeze(2)


class Chances(nn.Module):
    def __init__(self, network: SpellerNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, pictures: Tensor) -> Tensor:
        return self.network(pictures).softmax(1)
