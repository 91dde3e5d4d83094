"""A model's folder: read strictly, written back as it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vsplade.encode.modernvbert import adapters, layouts
from vsplade.encode.modernvbert.model_files import (
    CONFIG,
    WEIGHTS,
    Checkpoint,
    build,
    copy_text_files,
    read_tensors,
    with_repeats,
    write_json,
)
from vsplade.encode.modernvbert.query import additional_tokens, query_repeats
from vsplade.errors import InputError
from vsplade.jsonl import read_object


def load(
    folder: Path,
    *,
    activation: str | None = None,
    dtype: torch.dtype = torch.float32,
    query_start: str = "ones",
) -> Checkpoint:
    """The model in a folder, in the release's layout, upstream ModernVBERT's, or sentence-transformers'.

    ``activation`` is the query table's where the configuration does not name one; ``query_start`` is where
    the table of a model without one starts.
    """
    if (folder / "router_config.json").is_file() and not (folder / WEIGHTS).is_file():
        return _load_routes(folder, dtype)
    texts = adapters.files_folder(folder)
    config = read_object(texts / CONFIG)
    path = adapters.weight_files(folder)[-1]
    file = _read_all(folder)
    if layouts.detect(file, path) == "release":
        renamed = layouts.from_release(file, path)
    else:
        renamed = layouts.from_upstream(file, additional_tokens(config), path)
    vocabulary = len(renamed.tensors["head.decoder.weight"])
    rows = len(renamed.tensors[layouts.EMBEDDING])
    bare = not any(name.startswith("query.") for name in renamed.tensors)
    named = config.get("query_activation") or activation or ("one" if bare else "softplus")
    model = build(config, vocabulary, rows, renamed.tensors, activation=named, query_start=query_start)
    model.repeats = query_repeats(config)
    wanted = model.state_dict()
    if bare:  # trained with plain bags of words as queries
        renamed.tensors["query.embeddings.weight"] = renamed.tensors[layouts.EMBEDDING][:vocabulary].clone()
    if bare or renamed.fresh_table:  # a table that starts anew
        for name in ("query.projection.weight", "query.projection.bias"):
            renamed.tensors[name] = wanted[name].to(renamed.tensors["query.embeddings.weight"].dtype)
    layouts.check(wanted, renamed.tensors, path)
    model.load_state_dict(renamed.tensors)
    kinds = {name: tensor.dtype for name, tensor in renamed.tensors.items()}
    released = _release_config(config, vocabulary, rows, model.query_activation)
    return Checkpoint(model.to(dtype).eval(), released, kinds, renamed.unused, texts)


def _load_routes(folder: Path, dtype: torch.dtype) -> Checkpoint:
    """Of sentence-transformers' layout: a router with a document route and a query route. The projection is
    taken as it is, with scale 1; the table of a static embedding stays a plain table.
    """
    structure = read_object(folder / "router_config.json").get("structure")
    if not isinstance(structure, dict) or not {"document", "query"} <= set(structure):
        raise InputError(f"{folder / 'router_config.json'} names no document and query route.")
    document, query = folder / str(structure["document"][0]), folder / str(structure["query"][0])
    config = read_object(document / "config.json")
    path = document / "model.safetensors"
    file = read_tensors(path)
    static = read_tensors(query / "model.safetensors")
    renamed = layouts.from_upstream(file, additional_tokens(config), path)
    rows, vocabulary = (len(renamed.tensors[name]) for name in (layouts.EMBEDDING, "head.decoder.weight"))
    del renamed.tensors["query.embeddings.weight"]
    if set(static) != {"weight"} or len(static["weight"]) < vocabulary:
        raise InputError(
            f"{query / 'model.safetensors'} is no static embedding of {vocabulary} terms or more."
        )
    renamed.tensors["query.weight"] = static["weight"][:vocabulary]
    released = {**config, "additional_vocab_size": rows - vocabulary}
    model = build(released, vocabulary, rows, renamed.tensors, activation="softplus", scale=1.0)
    layouts.check(model.state_dict(), renamed.tensors, path)
    model.load_state_dict(renamed.tensors)
    model.repeats = query_repeats(config)
    kinds = {name: tensor.dtype for name, tensor in renamed.tensors.items()}
    return Checkpoint(model.to(dtype).eval(), config, kinds, renamed.unused, document)


def _read_all(folder: Path) -> dict[str, Tensor]:
    """All tensors of a model by the names they have without wrappers, LoRA merged."""
    file: dict[str, Tensor] = {}
    for path in adapters.weight_files(folder):
        file |= read_tensors(path)
    return adapters.merged(file, folder)


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
    write_json(folder / CONFIG, with_repeats(checkpoint.config, checkpoint.model.repeats))
    copy_text_files(checkpoint.source, folder)


def _release_config(config: Mapping[str, Any], vocabulary: int, rows: int, activation: str) -> dict[str, Any]:
    released: dict[str, Any] = json.loads(json.dumps(dict(config)))
    if "additional_vocab_size" not in released:
        released["vocab_size"] = vocabulary
        released["additional_vocab_size"] = rows - vocabulary
        released["text_config"]["vocab_size"] = vocabulary
    if activation != "softplus":
        released["query_activation"] = activation
    return released
