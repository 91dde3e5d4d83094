"""A model's folder: read strictly, written back as it was."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vsplade.encode.modernvbert import layouts
from vsplade.encode.modernvbert.model import SpladeModel
from vsplade.errors import InputError

WEIGHTS, CONFIG = "model.safetensors", "config.json"
ADDITIONAL_TOKENS = 40
"""Image tokens at the end of the embedding table, where the configuration does not say how many."""
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


def load(folder: Path, *, activation: str | None = None, dtype: torch.dtype = torch.float32) -> Checkpoint:
    """The model in a folder, in the release's layout, upstream ModernVBERT's, or sentence-transformers'.

    ``activation`` is the query table's where the configuration does not name one.
    """
    if (folder / "router_config.json").is_file() and not (folder / WEIGHTS).is_file():
        from vsplade.encode.modernvbert import routes

        return routes.load(folder, dtype)
    config = read_json(folder / CONFIG)
    path = folder / WEIGHTS
    file = read_tensors(path)
    vocabulary = scoring_terms(config, folder)
    if layouts.detect(file, path) == "release":
        renamed = layouts.from_release(file, path)
    else:
        renamed = layouts.from_upstream(file, vocabulary, path)
    named = config.get("query_activation")
    model = build(config, vocabulary, renamed.tensors, activation=named or activation or "softplus")
    wanted = model.state_dict()
    if "query.projection.weight" not in renamed.tensors:  # upstream: the table starts as a bag of words
        for name in ("query.projection.weight", "query.projection.bias"):
            renamed.tensors[name] = wanted[name].to(renamed.tensors["query.embeddings.weight"].dtype)
    layouts.check(wanted, renamed.tensors, path)
    model.load_state_dict(renamed.tensors)
    kinds = {name: tensor.dtype for name, tensor in renamed.tensors.items()}
    released = _release_config(config, vocabulary, model.query_activation)
    return Checkpoint(model.to(dtype).eval(), released, kinds, renamed.unused, folder)


def save(checkpoint: Checkpoint, folder: Path) -> None:
    """The release's layout: what ``load`` read is written back tensor by tensor, in the types it had."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    ours = {
        name: tensor.detach().cpu().to(checkpoint.kinds.get(name, tensor.dtype))
        for name, tensor in checkpoint.model.state_dict().items()
    }
    file = layouts.to_release(ours, checkpoint.unused, checkpoint.model.vocabulary)
    partial = folder / (WEIGHTS + ".partial")
    save_file(
        {name: tensor.contiguous().clone() for name, tensor in file.items()},
        partial,
        metadata={"format": "pt"},
    )
    os.replace(partial, folder / WEIGHTS)
    write_json(folder / CONFIG, checkpoint.config)
    copy_text_files(checkpoint.source, folder)


def build(
    config: Mapping[str, Any],
    vocabulary: int,
    tensors: Mapping[str, Tensor],
    activation: str,
    scale: float | None = None,
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
                config, vocabulary, with_vision_head=any(".vision_model.head." in name for name in tensors)
            ),
            vocabulary,
            activation=activation,
            dense_bias="head.dense.bias" in tensors,
            norm_bias="head.norm.bias" in tensors,
            fixed_table="query.weight" in tensors,
            scale=scale,
        )


def native_config(config: Mapping[str, Any], vocabulary: int, with_vision_head: bool) -> Any:
    """transformers' configuration: its embedding table holds the terms and the image tokens."""
    from transformers import ModernVBertConfig

    plain = json.loads(json.dumps(dict(config)))
    for key in ("text_config", "vision_config"):
        if not isinstance(plain.get(key), dict):
            raise InputError(
                f"config.json has no {key!r}: it is not the configuration of a ModernVBERT model."
            )
    plain["text_config"]["vocab_size"] = vocabulary + int(
        plain.get("additional_vocab_size", ADDITIONAL_TOKENS)
    )
    plain["vision_config"]["vision_use_head"] = with_vision_head
    plain["vision_config"].setdefault("model_type", "siglip_vision_model")
    plain["text_config"].setdefault("model_type", "modernbert")
    known = ("text_config", "vision_config", "image_token_id", "pixel_shuffle_factor", "unscored_token_ids")
    try:
        return ModernVBertConfig(
            **{key: plain[key] for key in known if key in plain}, tie_word_embeddings=False
        )
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(f"config.json cannot be read as ModernVBERT's: {error}.") from error


def scoring_terms(config: Mapping[str, Any], folder: Path) -> int:
    """Rows of the vocabulary that can score; the released configuration counts the others apart."""
    text = config.get("text_config")
    rows = text.get("vocab_size") if isinstance(text, dict) else None
    if not isinstance(rows, int) or rows < 1:
        raise InputError(
            f"{folder / CONFIG} does not tell the size of the vocabulary (text_config.vocab_size)."
        )
    return rows if "additional_vocab_size" in config else rows - ADDITIONAL_TOKENS


def _release_config(config: Mapping[str, Any], vocabulary: int, activation: str) -> dict[str, Any]:
    released: dict[str, Any] = json.loads(json.dumps(dict(config)))
    if "additional_vocab_size" not in released:
        released["vocab_size"] = vocabulary
        released["additional_vocab_size"] = ADDITIONAL_TOKENS
        released["text_config"]["vocab_size"] = vocabulary
    if activation != "softplus":
        released["query_activation"] = activation
    return released


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


def read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no {path.name} in {path.parent}.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON: {error}.") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} does not hold a JSON object.")
    return found


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def copy_text_files(source: Path | None, target: Path) -> None:
    for name in TEXT_FILES:
        if source is not None and (source / name).is_file() and source.resolve() != target.resolve():
            shutil.copyfile(source / name, target / name)
