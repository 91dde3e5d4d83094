"""The parts of a model's folder: configuration, tensors and the files beside them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vsplade.encode.modernvbert.model import SpladeModel
from vsplade.encode.modernvbert.query import query_repeats
from vsplade.errors import InputError

WEIGHTS, CONFIG = "model.safetensors", "config.json"
ROPE_THETA = 160_000.0
"""Of the text model that ModernVBERT was made from, in its global and in its local layers."""
TEXT_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "preprocessor_config.json",
    "processor_config.json", "chat_template.jinja", "chat_template.json",
)  # fmt: skip
"""Files that belong to a model besides its weights and configuration; copied as they are."""


@dataclass
class Checkpoint:
    """A model and what is needed to write it back."""

    model: SpladeModel
    config: dict[str, Any]
    """``config.json`` of the release's layout."""
    kinds: dict[str, torch.dtype]
    """The type each tensor had in its file, by our names."""
    unused: dict[str, Tensor] = field(default_factory=dict)
    source: Path | None = None


def build(
    config: Mapping[str, Any],
    vocabulary: int,
    rows: int,
    tensors: Mapping[str, Tensor],
    activation: str,
    scale: float | None = None,
    query_start: str = "ones",
) -> SpladeModel:
    """An empty model of the right structure; parts that a configuration leaves open follow the tensors
    there are.
    """
    from transformers.initialization import no_init_weights

    with (
        no_init_weights()
    ):  # every weight is read from the file: drawing 300 million of them first takes longer
        return SpladeModel(
            native_config(
                config, rows, with_vision_head=any(".vision_model.head." in name for name in tensors)
            ),
            vocabulary,
            activation=activation,
            dense_bias="head.dense.bias" in tensors,
            norm_bias="head.norm.bias" in tensors,
            fixed_table="query.weight" in tensors,
            scale=scale,
            query_start=query_start,
        )


def native_config(config: Mapping[str, Any], rows: int, with_vision_head: bool) -> Any:
    """transformers' configuration; its embedding table of ``rows`` holds the terms and the image tokens."""
    from transformers import ModernVBertConfig

    plain = json.loads(json.dumps(dict(config)))
    for key in ("text_config", "vision_config"):
        if not isinstance(plain.get(key), dict):
            raise InputError(
                f"config.json has no {key!r}: it is not the configuration of a ModernVBERT model."
            )
    text, vision = plain["text_config"], plain["vision_config"]
    text["vocab_size"] = rows
    text["model_type"], vision["model_type"] = (
        "modernbert",
        "siglip_vision_model",
    )  # whatever they were called
    text["rope_parameters"] = rope_parameters(text)
    vision["vision_use_head"] = with_vision_head
    if "embed_dim" in vision:  # the older code's word
        vision.setdefault("hidden_size", vision.pop("embed_dim"))
    known = ("text_config", "vision_config", "image_token_id", "pixel_shuffle_factor", "unscored_token_ids")
    try:
        native = ModernVBertConfig(
            **{key: plain[key] for key in known if key in plain}, tie_word_embeddings=False
        )
    except Exception as error:  # the library's own validation errors have no common parent
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError(f"config.json cannot be read as ModernVBERT's: {first[:200]}.") from error
    if not 0 <= native.image_token_id < rows:
        raise InputError(
            f"config.json names the image token {native.image_token_id}, but the embedding table has {rows} "
            "rows: this model cannot read pages."
        )
    return native


def rope_parameters(text: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Rotary bases of both kinds of layers. Where nothing is said it is the text model's own base everywhere;
    transformers would take plain ModernBERT's 10,000 for local layers.
    """
    given = text.get("rope_parameters") or {}
    if "rope_theta" in given or "rope_type" in given:  # one entry for all layers
        given = {"full_attention": given, "sliding_attention": given}
    found = {}
    for kind, key in (("full_attention", "global_rope_theta"), ("sliding_attention", "local_rope_theta")):
        theta = text.get(key) or text.get("rope_theta") or ROPE_THETA
        found[kind] = {"rope_type": "default", "rope_theta": float(theta), **(given.get(kind) or {})}
    return found


def with_repeats(config: Mapping[str, Any], repeats: str) -> dict[str, Any]:
    """The release's own counting needs no word in the configuration."""
    return dict(config) if query_repeats(config) == repeats else {**config, "query_repeats": repeats}


def read_tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise InputError(
            f"There is no {path.name} in {path.parent}. Give a folder with a model, or a hub name."
        )
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except SafetensorError as error:
        raise InputError(f"{path} is not a sound safetensors file ({error}). Download it again.") from error
    return tensors


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def copy_text_files(source: Path | None, target: Path) -> None:
    for name in TEXT_FILES:
        if source is not None and (source / name).is_file() and source.resolve() != target.resolve():
            shutil.copyfile(source / name, target / name)
