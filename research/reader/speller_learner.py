"""Several networks that spell, each with the average of its weights, and what they learn from one batch."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from research.reader.speller_network import SIZES, SpellerNetwork
from research.reader.word_changes import changed, stretched
from research.reader.word_store import Batch
from research.reader.word_supply import HEIGHT
from vsplade.encode.reader.spelling import STEP

WARM_UP = 300
"""Batches."""
AVERAGED = 0.9985
"""Of the average of the weights, what stays at every batch."""


def smaller(x: Tensor, height: int) -> Tensor:
    """Pictures as networks of this height see them."""
    if height == x.shape[2]:
        return x
    size = (height, x.shape[3] * height // x.shape[2])
    return functional.interpolate(x, size, mode="bilinear", antialias=True, align_corners=False)


def frames_of(widths: Tensor, height: int) -> Tensor:
    return (torch.div(widths * height, HEIGHT, rounding_mode="floor") + 3) // STEP


class Learner:
    """The networks, their averages, and one optimiser for all."""

    def __init__(self, names: Sequence[str], device: torch.device, rate: float, initial: Path | None) -> None:
        self.device, self.rate = device, rate
        self.networks: dict[str, SpellerNetwork] = {}
        for name in names:
            network = SpellerNetwork(SIZES[name])
            if initial is not None:
                network.load_state_dict(load_file(initial / f"{name}.safetensors"))
            self.networks[name] = network.to(device, memory_format=torch.channels_last)
        self.averages = {name: SpellerNetwork(SIZES[name]).to(device).eval() for name in names}
        for name, average in self.averages.items():
            average.load_state_dict(self.networks[name].state_dict())
        weights = [p for network in self.networks.values() for p in network.parameters()]
        groups = [
            {"params": [p for p in weights if p.ndim > 1], "weight_decay": 0.02},
            {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, rate, (0.9, 0.98), fused=device.type == "cuda")
        self.step = 0
        states = [(self.averages[name].state_dict(), self.networks[name].state_dict()) for name in names]
        kept = [(ours[key], theirs[key]) for ours, theirs in states for key in ours]
        kept = [(our, their) for our, their in kept if our.is_floating_point()]
        self._ours, self._theirs = [our for our, _ in kept], [their for _, their in kept]

    def learn(self, batch: Batch, done: float) -> Tensor:
        """One batch; the loss of each network."""
        self.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * min(1, self.step / WARM_UP) * (1 + math.cos(math.pi * done)) / 2
        most = (batch.pictures.shape[3] - 2) / batch.widths
        wider = torch.exp(torch.randn(len(batch.widths)) * 0.09).minimum(most)
        widths = (batch.widths * wider).long()
        with torch.no_grad():
            x = changed(stretched(batch.pictures, wider.to(self.device, non_blocking=True)))
            seen = {height: smaller(x, height) for height in {n.size.height for n in self.networks.values()}}
        all_logits, all_frames = [], []
        for network in self.networks.values():
            height = network.size.height
            with torch.autocast(self.device.type, torch.bfloat16):
                logits = network(seen[height].contiguous(memory_format=torch.channels_last))
            all_logits.append(logits.float().permute(2, 0, 1).log_softmax(-1))
            all_frames.append(frames_of(widths, height).clamp(max=logits.shape[2]))
        losses = self._losses(all_logits, all_frames, batch)
        self.optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()
        for network in self.networks.values():
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        self.optimizer.step()
        self._average()
        return losses.detach()

    def _losses(self, logits: list[Tensor], frames: list[Tensor], batch: Batch) -> Tensor:
        """All networks' in one call, which waits for the GPU once."""
        longest = max(len(some) for some in logits)
        joined = torch.cat([functional.pad(some, (0, 0, 0, 0, 0, longest - len(some))) for some in logits], 1)
        count = len(logits)
        loss = functional.ctc_loss(
            joined, batch.letters.long().repeat(count, 1), torch.cat(frames), batch.lengths.repeat(count),
            reduction="none", zero_infinity=True,
        )  # fmt: skip
        lengths = batch.lengths.to(self.device, non_blocking=True).repeat(count)
        return (loss / lengths).view(count, -1).mean(1)

    @torch.no_grad()
    def _average(self) -> None:
        stays = min(AVERAGED, (1 + self.step) / (10 + self.step))
        torch._foreach_lerp_(self._ours, self._theirs, 1 - stays)

    def save(self, out: Path) -> None:
        for name, average in self.averages.items():
            part = out / f"{name}.part"
            state = {
                key: value.detach().float().cpu().contiguous() for key, value in average.state_dict().items()
            }
            save_file(state, part)
            os.replace(part, out / f"{name}.safetensors")
