"""The losses: find the middle of every word piece, name it, tell its size, and read characters on the way."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from research.reader.targets import Targets
from vsplade.encode.gpu.network import CHARACTER_CLASSES, Reader, cell_features


@dataclass(frozen=True)
class Losses:
    word: Tensor
    name: Tensor
    character: Tensor
    size: Tensor
    right: Tensor  # (pieces,) whether each asked piece was named right
    window: Tensor  # (pieces,) its window
    found: Tensor  # (pieces,) whether its cell fires
    false_alarms: Tensor  # cells that fire without a piece, per piece
    living: Tensor  # share of the head's units that fire on any piece of the batch


def word_loss(logits: Tensor, targets: Targets) -> Tensor:
    """Binary cross-entropy over the cells that count, per piece: rare words weigh as much as empty paper."""
    each = functional.binary_cross_entropy_with_logits(logits.float(), targets.word, reduction="none")
    return (each * targets.counted).sum() / targets.word.sum().clamp(min=1)


def name_weights(terms: Tensor, vocabulary: int) -> Tensor:
    """Frequent terms are learnt soon; weigh a term by its count in the batch to the power -0.4, mean 1."""
    count = torch.bincount(terms, minlength=vocabulary)[terms].float()
    weights = count.pow(-0.4)
    return weights / weights.mean()


def character_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy on half cells; blanks, the great majority, weigh a twentieth."""
    n, _, height, width = logits.shape
    logits = logits.float().view(n, 2, CHARACTER_CLASSES, height, width).permute(0, 3, 4, 1, 2)
    logits = logits.reshape(-1, CHARACTER_CLASSES)
    weight = torch.ones(CHARACTER_CLASSES, device=logits.device)
    weight[0] = 0.05
    return functional.cross_entropy(logits, target.reshape(-1), weight=weight, ignore_index=-1)


def size_loss(guess: Tensor, em: Tensor) -> Tensor:
    """How far off the size of the type is, in octaves."""
    return (guess.float() - em.log2()).abs().sum() / max(1, len(em))


def reader_losses(
    model: Reader,
    outputs: tuple[Tensor, Tensor, Tensor, Tensor],
    targets: Targets,
    most_pieces: int,
    generator: torch.Generator,
) -> Losses:
    logits, fine, coarse, middle = outputs
    pieces = len(targets.piece_term)
    chosen = torch.randperm(pieces, device=logits.device, generator=generator)[:most_pieces]
    window, row = targets.piece_window[chosen], targets.piece_row[chosen]
    column = targets.piece_column[chosen]
    terms = targets.piece_term[chosen]
    seen = model.head.look(cell_features(fine, coarse, window, row, column))
    named = model.head.name(seen)
    each = functional.cross_entropy(named.float(), terms, reduction="none")
    name = (each * name_weights(terms, model.config.vocabulary)).sum() / max(1, len(terms))
    fires = (logits.detach() > -1.0) & targets.counted
    alarms = (fires & (targets.word == 0)).sum() / targets.word.sum().clamp(min=1)
    return Losses(
        word_loss(logits, targets),
        name,
        character_loss(model.characters(middle), targets.characters),
        size_loss(model.size(seen)[:, 0], targets.piece_em[chosen]),
        named.detach().argmax(1) == terms,
        window,
        logits.detach()[window, row, column] > -1.0,
        alarms,
        (seen.detach() > 0).any(0).float().mean(),
    )
