"""Everything that decides a training run, at the values of the paper's section on hyper-parameters.

Where the paper is silent, a default is the public training code's.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TypeVar

from vsplade.config import make_options
from vsplade.errors import InputError

CHOICES = {
    "query": ("softplus", "log1p_relu", "relu", "one"),
    "query_start": ("random", "ones"),
    "repeats": ("once", "counted"),
    "captions": ("gated", "rank", "cosine", "none"),
    "flops_warm_up": ("quadratic", "linear"),
    "precision": ("float32", "bfloat16"),
}
PRESETS = ("quality", "efficient")
Config = TypeVar("Config", bound="PaperConfig")


@dataclass(frozen=True)
class PaperConfig:
    """The defaults are what ``quality`` and ``efficient`` share; a file holds what differs from them."""

    query: str = "softplus"
    """The query table: ``softplus``, ``log1p_relu`` (the ablation that collapses, as the public code has it),
    ``relu``, or ``one`` (a plain bag of words).
    """
    query_start: str = "random"
    """Where a new table's projection starts: ``random``, or ``ones`` (every term weighs 1)."""
    repeats: str = "once"
    """A word that a query repeats: ``once`` (the paper's mask), or ``counted`` (as the release serves it).
    The trained model carries it, and serves queries in the same way.
    """
    captions: str = "gated"
    """``gated`` (ranked, and gating the page), ``rank`` only, ``cosine`` alignment beside the rank, or
    ``none``.
    """
    temperature: float = 0.1
    score_clamp: float = 100.0
    """Largest score over the temperature, on either side of 0; 0: none. There is no gradient beyond it."""
    gate_temperature: float = 0.5
    gate_weight: float = 5.0
    cosine_weight: float = 5.0
    """Of the alignment in the ablation; the paper gives none, so it is the gate's."""
    caption_rank_weight: float = 1.0
    page_flops: float = 0.01
    caption_flops: float = 0.005
    flops_warm_up: str = "quadratic"
    flops_warm_up_steps: int = 500
    batch: int = 42
    """Pairs a GPU."""
    accumulate: int = 4
    """Batches whose gradients make one step. Each ranks its own pairs only."""
    epochs: float = 3.0
    """Passes over the image pairs."""
    steps: int = 0
    """Instead of epochs, where above 0."""
    rate: float = 5e-4
    warm_up: float = 0.05
    decay: float = 0.2
    weight_decay: float = 0.01
    clip: float = 5.0
    """Largest norm of a step's gradient; 0 leaves it as it is."""
    lora_rank: int = 32
    """0 trains all of the network."""
    lora_alpha: float = 32.0
    lora_vision: bool = False
    """Adapt the vision tower and the connector too, not only the text layers and the head."""
    longest_query: int = 128
    longest_caption: int = 1024
    gradient_checkpointing: bool = True
    precision: str = "bfloat16"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} is one of {', '.join(allowed)}, not {getattr(self, name)!r}.")
        for name in (
            "temperature",
            "gate_temperature",
            "batch",
            "epochs",
            "rate",
            "longest_query",
            "longest_caption",
            "accumulate",
        ):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} must be above 0, not {getattr(self, name)}.")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not 0 <= value < math.inf:
                raise InputError(f"{field.name} must be 0 or more, not {value}.")
        if self.warm_up + self.decay > 1:
            raise InputError("warm_up and decay are shares of the run: together they are at most 1.")
        if self.batch < 2:
            raise InputError("A batch needs 2 pairs at least: the other pairs are the negatives.")


def load_config(
    name: str | Path,
    changes: Mapping[str, object] | None = None,
    kind: type[Config] = PaperConfig,  # type: ignore[assignment]
) -> Config:
    """``quality``, ``efficient``, or a TOML file; ``changes`` go on top. Unknown keys are refused."""
    if str(name) in PRESETS:
        text = (resources.files("vsplade.train") / "configs" / f"{name}.toml").read_text("utf-8")
    else:
        try:
            text = Path(name).read_text("utf-8")
        except OSError as error:
            raise InputError(
                f"There is no configuration {name}: give a TOML file, or one of {', '.join(PRESETS)}."
            ) from error
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} is not sound TOML: {error}.") from error
    return make_options(kind, {**found, **(changes or {})}, f"The training configuration {name}")


def differences(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    """What a person must know when two runs were not configured alike."""
    keys = sorted(one.keys() | other.keys())
    return [
        f"{key}: {one.get(key)!r} -> {other.get(key)!r}" for key in keys if one.get(key) != other.get(key)
    ]
