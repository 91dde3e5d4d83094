"""The weights of a reader out of its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.train.training_checkpoint import load


def load_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """A reader's tensors in float32, and the header with its network's configuration."""
    tensors, header = load(path)
    if "network" not in header:
        raise InputError(f"{path} is not a checkpoint of the reader: it does not tell its network.")
    if header.get("vocabulary") != Tokenizer.load().fingerprint:
        raise InputError(
            f"{path} was trained with another vocabulary than this package's. Use the version of vsplade "
            "that it was trained with, or train anew."
        )
    return {name: t.float() if t.is_floating_point() else t for name, t in tensors.items()}, header
