"""A trained reader's head with its silent units woken, and with no more rank than it needs.

A unit that never fires gets no gradient, and stays silent for good: after the first hour of training, with
its high rates, 421 of the head's 512 units were (docs/log.md). Here each of them starts anew as the boundary
between two words of real pages, so that it fires on about half of them; nothing hears it yet, so the reader
reads as before. What is written between the head's two last layers has only as many dimensions as there are
units that fire, so it fits into a lower rank, which costs less to name from. Training goes
on from there (`--initial`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from research.command import main
from research.reader.export import calibration_windows
from research.reader.options import ReviveOptions
from research.reader.weights import load_weights
from vsplade.cli.common import note
from vsplade.encode.gpu.network import Head, NetworkConfig, Reader, cell_features
from vsplade.errors import InputError
from vsplade.train import training_checkpoint

BATCH = 8
LEAST_LOGIT = -4.0
"""Of the cells that are looked at: those that the shipped reader names."""
FIRES = 1e-4
"""Share of the cells, at least, that a living unit fires on."""

Say = Callable[[str], None]


def word_features(reader: Reader, windows: Tensor) -> Tensor:
    """What the head sees of every cell of the windows that may hold a word."""
    found = []
    for batch in windows.split(BATCH):
        word, fine, coarse, _ = reader.trunk(batch[:, None])
        found.append(cell_features(fine, coarse, *torch.nonzero(word > LEAST_LOGIT, as_tuple=True)))
    return torch.cat(found)


def living(head: Head, features: Tensor) -> Tensor:
    return (head.look(features) > 0).float().mean(0) > FIRES


def wake(reader: Reader, features: Tensor, alive: Tensor) -> None:
    """Silent units become boundaries half way between two cells, as steep as the living ones; what comes
    after them does not listen yet.
    """
    head, asleep = reader.head, int((~alive).sum())
    one, other = features[torch.randint(len(features), (2, asleep))]
    across = one - other
    spread = (features @ across.T).std(0).clamp(min=1e-6)
    usual = (features @ head.hidden.weight[alive].T).std(0).median()
    weight = across * (usual / spread)[:, None]
    head.hidden.weight[~alive] = weight
    head.hidden.bias[~alive] = -(weight * (one + other) / 2).sum(1)
    for layer in (head.narrow, reader.size):
        layer.weight[:, ~alive] = 0


def lower_rank(head: Head, alive: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of ``narrow`` and ``vocabulary`` and the latter's bias that make the same logits at ``rank``.

    Of the directions that no living unit writes to, those stay that the vocabulary listens to most.
    """
    basis, written = torch.linalg.qr(head.narrow.weight[:, alive].double())
    full = torch.linalg.qr(basis, mode="complete").Q
    spare = full[:, basis.shape[1] :]
    words = head.vocabulary.weight.double()
    loudest = torch.linalg.svd(words @ spare, full_matrices=False).Vh[: rank - basis.shape[1]]
    directions = torch.cat([basis, spare @ loudest.T], 1)
    narrow = torch.zeros(rank, len(alive), dtype=torch.float64)
    narrow[: len(written), alive] = written
    bias = head.vocabulary.bias.double() + words @ head.narrow.bias.double()
    return narrow.float(), (words @ directions).float(), bias.float()


@torch.no_grad()
def revived(old: Reader, rank: int, windows: Tensor, say: Say = print) -> Reader:
    """The same reader, as far as one can see, with a head that can learn more."""
    features = word_features(old, windows)
    if len(features) < 2:
        raise InputError("The reader finds no words on these pages; give PDFs of printed text.")
    alive = living(old.head, features)
    if not int(alive.sum()) <= rank <= old.config.rank:
        raise InputError(
            f"--rank must be between {int(alive.sum())}, the units that fire, and {old.config.rank}, which "
            f"the checkpoint has; not {rank}."
        )
    say(f"{int(alive.sum())} of {len(alive)} units fire on {len(features)} cells")
    new: Reader = Reader(replace(old.config, rank=rank)).eval()
    held = {name: t for name, t in old.state_dict().items() if t.shape == new.state_dict()[name].shape}
    new.load_state_dict(held, strict=False)
    narrow, vocabulary, bias = lower_rank(old.head, alive, rank)
    new.head.narrow.weight.copy_(narrow)
    new.head.narrow.bias.zero_()
    new.head.vocabulary.weight.copy_(vocabulary)
    new.head.vocabulary.bias.copy_(bias)
    wake(new, features, alive)
    say(f"{int(living(new.head, features).sum())} fire now")
    return new


def revive(options: ReviveOptions, say: Say = print) -> dict[str, Any]:
    """Wake the units of a trained reader's head that never fire; training goes on from there."""
    tensors, header = load_weights(options.checkpoint)
    old: Reader = Reader(NetworkConfig(**header["network"])).eval()
    training_checkpoint.load_model(old, tensors)
    torch.manual_seed(options.seed)
    windows = calibration_windows(options.pdfs, options.windows, options.seed)
    new = revived(old, options.rank or old.config.rank, windows, say)
    saved = {f"model.{name}": tensor for name, tensor in new.state_dict().items()}
    training_checkpoint.save(options.out, saved, {**header, "network": new.config.to_json()})
    return {"out": str(options.out), "network": new.config.to_json()}


if __name__ == "__main__":
    main(revive, ReviveOptions, say=note)
