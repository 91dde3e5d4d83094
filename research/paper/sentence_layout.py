"""A model in sentence-transformers' layout: a router with a document route (network, SPLADE pooling) and a
query route (a table).

    python -m research.paper.sentence_layout vsplade-model/model --out for-sentence-transformers/

That library's pooling knows no scale and no barred terms. So the scale is multiplied into the projection, and
barred terms get a bias that never scores.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from research.command import main
from research.paper.options import LayoutOptions
from vsplade.encode.modernvbert import checkpoint
from vsplade.encode.modernvbert.find_model import find_model
from vsplade.encode.modernvbert.model import SpladeModel, special_tokens
from vsplade.encode.modernvbert.model_files import (
    Checkpoint,
    copy_text_files,
    rope_parameters,
    with_repeats,
    write_json,
)
from vsplade.encode.modernvbert.processor import read_prompt

DOCUMENT, POOLING, QUERY = (
    "document_0_Transformer",
    "document_1_SpladePooling",
    "query_0_SparseStaticEmbedding",
)
_MODULES = "sentence_transformers.base.modules."
_SPARSE = "sentence_transformers.sparse_encoder.modules."
_NORM = re.compile(
    r"^(model\.text_model\.(embeddings\.norm|final_norm|layers\.\d+\.(attn|mlp)_norm)|projection_head\.norm)\.weight$"
)
_NEVER = -1.0
"""Bias of a term that must not score; its row is zero, so its logit is this everywhere."""


_TEMPLATE = (
    "{%- for message in messages -%}{%- set seen = message['content'] | selectattr('type', "
    "'equalto', 'image') | list -%}"
    "{%- if seen -%}{{ PAGE_PROMPT }}{%- else -%}"
    "{%- for part in message['content'] -%}{{ part['text'] }}{%- endfor -%}{%- endif -%}{%- endfor -%}"
)
"""That library sends all input through a chat template: pages get the page prompt, texts stay as they are."""
_COUNTING = "vsplade_queries"
_COUNTING_CODE = '''"""A static embedding in which a repeated word of a query adds up, as in the release."""

import torch
from sentence_transformers.sparse_encoder.modules.sparse_static_embedding import SparseStaticEmbedding


class CountedStaticEmbedding(SparseStaticEmbedding):
    def forward(self, features):
        ids, mask = features["input_ids"], features["attention_mask"]
        counts = torch.zeros(len(ids), self.num_dimensions, device=ids.device, dtype=self.weight.dtype)
        counts.scatter_add_(1, ids, mask.to(counts.dtype))
        features["sentence_embedding"] = counts * self.weight
        return features
'''


def save(source: Checkpoint, folder: Path, *, prompt: str = "", count_repeats: bool | None = None) -> None:
    """Write the routes; ``checkpoint.save`` into the same folder adds the release's own file.

    ``prompt`` is the text in every page's prompt. ``count_repeats`` (default: as the model has it) needs a
    few lines of code in the folder, so that library wants ``trust_remote_code=True``; its own static
    embedding counts a repeated word once.
    """
    from safetensors.torch import save_file

    model = source.model
    for part in (DOCUMENT, POOLING, QUERY):
        (folder / part).mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.contiguous().clone() for name, tensor in _document_tensors(source).items()}
    save_file(tensors, folder / DOCUMENT / "model.safetensors", metadata={"format": "pt"})
    rows = len(tensors["lm_head.bias"])
    write_json(folder / DOCUMENT / "config.json", _native_json(model, source.config, rows))
    write_json(folder / DOCUMENT / "sentence_bert_config.json", _document_settings())
    copy_text_files(source.source, folder / DOCUMENT)
    page = read_prompt(source.source or folder, prompt)
    template = _TEMPLATE.replace("PAGE_PROMPT", json.dumps(page, ensure_ascii=False))
    (folder / DOCUMENT / "chat_template.jinja").write_text(template, "utf-8")
    write_json(
        folder / POOLING / "config.json",
        {"pooling_strategy": "max", "activation_function": "relu", "embedding_dimension": rows},
    )
    table = torch.zeros(rows)
    table[: model.vocabulary] = model.query_table().detach().float().cpu()
    save_file({"weight": table}, folder / QUERY / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / QUERY / "config.json", {"frozen": True})
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if source.source is not None and (source.source / name).is_file():
            (folder / QUERY / name).write_bytes((source.source / name).read_bytes())
    copy_text_files(source.source, folder)
    _write_router(folder, model.repeats == "counted" if count_repeats is None else count_repeats)


def _document_tensors(source: Checkpoint) -> dict[str, Tensor]:
    """transformers' own names (``ModernVBertForMaskedLM``), the scale and the barred terms folded in."""
    model = source.model
    file: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        part, _, rest = name.partition(".")
        kind = source.kinds.get(name, tensor.dtype)
        if part == "body":
            file["model." + rest] = tensor.detach().cpu().to(kind)
        elif part == "head" and not rest.startswith("decoder."):
            file["projection_head." + rest] = tensor.detach().cpu().to(kind)
    rows = model.body.get_input_embeddings().weight.shape[0]
    decoder = model.head.decoder
    weight = torch.zeros(rows, decoder.weight.shape[1])
    bias = torch.full((rows,), _NEVER)
    allowed = model.allowed.bool().cpu()
    weight[: model.vocabulary][allowed] = decoder.weight.detach().float().cpu()[allowed] * model.scale
    bias[: model.vocabulary][allowed] = decoder.bias.detach().float().cpu()[allowed] * model.scale
    if _norm_biases(model):  # that library knows biases of all norms, or of none
        norms = [name for name in file if _NORM.search(name)]
        for name in norms:
            file.setdefault(name.replace(".weight", ".bias"), torch.zeros_like(file[name]))
    # A folded weight is a product: it keeps float32, or it would be rounded twice.
    return {**file, "lm_head.weight": weight, "lm_head.bias": bias}


def _norm_biases(model: SpladeModel) -> bool:
    return bool(model.config.text_config.norm_bias) or model.head.norm.bias is not None


def _native_json(model: SpladeModel, config: Mapping[str, Any], rows: int) -> dict[str, Any]:
    native: dict[str, Any] = json.loads(json.dumps(with_repeats(config, model.repeats)))
    native["model_type"] = "modernvbert"
    native["architectures"] = ["ModernVBertForMaskedLM"]
    native["tie_word_embeddings"] = False
    native["additional_vocab_size"] = rows - model.vocabulary
    native["unscored_token_ids"] = list(special_tokens(model.config))
    for part, kind in (("text_config", "modernbert"), ("vision_config", "siglip_vision_model")):
        native[part]["model_type"] = kind
    native["text_config"]["vocab_size"] = rows
    native["text_config"]["classifier_bias"] = model.head.dense.bias is not None
    native["text_config"]["norm_bias"] = _norm_biases(model)
    native["text_config"]["rope_parameters"] = rope_parameters(native["text_config"])
    native["vision_config"]["vision_use_head"] = bool(model.config.vision_config.vision_use_head)
    native.pop("vocab_size", None)
    return native


def _document_settings() -> dict[str, Any]:
    output = {"method": "forward", "method_output_name": "logits"}
    return {
        "transformer_task": "fill-mask",
        "modality_config": {
            "text": output,
            "image": output,
            "message": {**output, "format": "structured"},
        },
        "module_output_name": "token_embeddings",
    }


def _write_router(folder: Path, count_repeats: bool) -> None:
    static = _SPARSE + "sparse_static_embedding.SparseStaticEmbedding"
    if count_repeats:
        (folder / f"{_COUNTING}.py").write_text(_COUNTING_CODE, "utf-8")
        static = f"{_COUNTING}.CountedStaticEmbedding"
    types = {
        DOCUMENT: _MODULES + "transformer.Transformer",
        POOLING: _SPARSE + "splade_pooling.SpladePooling",
        QUERY: static,
    }
    router = {
        "types": types,
        "structure": {"document": [DOCUMENT, POOLING], "query": [QUERY]},
        "parameters": {"default_route": "document", "allow_empty_key": True, "route_mappings": {}},
    }
    write_json(folder / "router_config.json", router)
    write_json(
        folder / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": _MODULES + "router.Router"}]
    )
    write_json(
        folder / "config_sentence_transformers.json",
        {"model_type": "SparseEncoder", "similarity_fn_name": "dot"},
    )


def write_layout(options: LayoutOptions) -> dict[str, Any]:
    """Write a model as sentence-transformers loads it."""
    source = checkpoint.load(find_model(options.model))
    save(source, options.out, prompt=options.prompt, count_repeats=False if options.once else None)
    return {"out": str(options.out)}


if __name__ == "__main__":
    main(write_layout, LayoutOptions)
