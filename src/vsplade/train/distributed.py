"""One process or many (torchrun): vectors of all processes as candidates, gradients as of one large batch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, rank: int, size: int) -> Tensor:
        ctx.rows = slice(rank * len(own), (rank + 1) * len(own))
        parts = [torch.empty_like(own) for _ in range(size)]
        dist.all_gather(parts, own.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None]:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)  # every process's loss has a say in every row
        return total[ctx.rows], None, None


@dataclass(frozen=True)
class World:
    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def gather(self, own: Tensor) -> Tensor:
        """All processes' rows in order of rank; the gradient finds its way back to each."""
        if self.size == 1:
            return own
        gathered: Tensor = _Gather.apply(own, self.rank, self.size)
        return gathered

    def average_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """After it, every process has the gradient of the mean of all processes' losses."""
        if self.size == 1:
            return
        for parameter in parameters:
            if (
                parameter.grad is not None
            ):  # all processes' batches are of one kind: it is none in all, or in no one
                dist.all_reduce(parameter.grad)
                parameter.grad /= self.size

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether it is so in one process at least."""
        if self.size == 1:
            return flag
        found = torch.tensor(float(flag), device=device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return bool(found.item())

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier()


@contextmanager
def joined() -> Iterator[World]:
    """The world that torchrun made, left again at the end; a world of one without it."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield World()
        return
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield World(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
