"""Tiny random checkpoints in every layout, and a plain second implementation of the model to compare with."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

TERMS, EXTRA = 600, 40
ROWS = TERMS + EXTRA
IMAGE_TOKEN = ROWS - 1
SPECIAL = (590, 591, 592, 593, 594)  # [UNK] [CLS] [SEP] [PAD] [MASK]
TILE, PATCH, SHUFFLE, WIDTH, EYE, HEADS = 32, 4, 2, 32, 24, 4
TOKENS_A_TILE = (TILE // PATCH // SHUFFLE) ** 2


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def config(released: bool = True) -> dict[str, Any]:
    text = {
        "model_type": "modernbert",
        "hidden_size": WIDTH,
        "intermediate_size": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": HEADS,
        "vocab_size": TERMS if released else ROWS,
        "local_attention": 8,
        "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0,
        "global_attn_every_n_layers": 3,
        "pad_token_id": SPECIAL[3],
        "bos_token_id": SPECIAL[1],
        "eos_token_id": SPECIAL[2],
        "cls_token_id": SPECIAL[1],
        "sep_token_id": SPECIAL[2],
    }
    vision = {
        "model_type": "siglip_vision_model",
        "hidden_size": EYE,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": TILE,
        "patch_size": PATCH,
    }
    found = {
        "model_type": "modernvbert",
        "text_config": text,
        "vision_config": vision,
        "image_token_id": IMAGE_TOKEN,
        "pixel_shuffle_factor": SHUFFLE,
        "unscored_token_ids": list(SPECIAL),
    }
    return {**found, "additional_vocab_size": EXTRA, "vocab_size": TERMS} if released else found


def upstream_tensors(seed: int = 0) -> dict[str, Tensor]:
    """By transformers' own class, so that names and shapes are not ours; larger weights than its initial
    ones.
    """
    from transformers import ModernVBertConfig, ModernVBertForMaskedLM

    plain = config(released=False)
    native = ModernVBertConfig(
        **{k: plain[k] for k in ("text_config", "vision_config", "image_token_id", "pixel_shuffle_factor")}
    )
    native.vision_config.vision_use_head = False
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, tensor in ModernVBertForMaskedLM(native).state_dict().items():
        noise = torch.randn(tensor.shape, generator=generator)
        is_norm = "norm" in name and name.endswith("weight")
        tensors[name] = 1 + 0.1 * noise if is_norm else 0.15 * noise
    return {
        name.replace("model.vision_model.", "model.vision_model.vision_model."): tensor
        for name, tensor in tensors.items()
    }


def released_tensors(seed: int = 0) -> dict[str, Tensor]:
    """The release's names, written out here once more rather than taken from the code under test."""
    generator = torch.Generator().manual_seed(seed + 1)
    file = {}
    for name, tensor in upstream_tensors(seed).items():
        if name == "model.text_model.embeddings.tok_embeddings.weight":
            file["encoder.encoder." + name] = tensor[:TERMS].clone()
            file["encoder.encoder." + name.replace(".weight", ".additional_embedding.weight")] = tensor[
                TERMS:
            ].clone()
        elif name == "model.connector.modality_projection.weight":
            file["encoder.encoder.model.connector.modality_projection.proj.weight"] = tensor
        elif name.startswith("model."):
            file["encoder.encoder." + name.replace("vision_model.vision_model.", "vision_model.")] = tensor
        elif name.startswith("projection_head."):
            file["encoder.mlm_head." + name.removeprefix("projection_head.")] = tensor
        else:
            file["encoder.mlm_head.decoder." + name.removeprefix("lm_head.")] = tensor[:TERMS].clone()
    file["query_encoder.embeddings.weight"] = file[
        "encoder.encoder.model.text_model.embeddings.tok_embeddings.weight"
    ].clone()
    file["query_encoder.projection.weight"] = torch.randn(1, WIDTH, generator=generator)
    file["query_encoder.projection.bias"] = torch.randn(1, generator=generator)
    return file


def write_tokenizer(folder: Path) -> None:
    """Byte-level BPE with no merges, the special tokens and the image tokens at their places."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["Ġ" + word for word in ("red", "green", "blue", "page", "total")] + [
        "red",
        "green",
        "blue",
        "page",
    ]
    merges, vocabulary = [], list(letters)
    for word in words:
        for end in range(2, len(word) + 1):
            if word[:end] not in vocabulary:
                vocabulary.append(word[:end])
                merges.append((word[: end - 1], word[end - 1]))
    vocabulary += [f"[unused{n}]" for n in range(SPECIAL[0] - len(vocabulary))]
    numbered = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.BPE(vocab=numbered, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"] + [
        f"[unused{n}]" for n in range(1000, 1000 + TERMS - 595)
    ]
    cells = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    names += ["<end_of_utterance>", *cells, "<global-img>", "<fake_token_around_image>", "<image>"]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    assert tokenizer.get_vocab_size() == ROWS
    assert tokenizer.token_to_id("<image>") == IMAGE_TOKEN
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", SPECIAL[1]), ("[SEP]", SPECIAL[2])]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "mask_token": "[MASK]",
        "model_max_length": 8192,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_folder(
    folder: Path, tensors: dict[str, Tensor], released: bool = True, longest_edge: int = 96
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config(released)))
    write_tokenizer(folder)
    pictures = {
        "do_convert_rgb": True,
        "do_image_splitting": True,
        "do_normalize": True,
        "do_pad": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "resample": 1,
        "image_processor_type": "Idefics3ImageProcessor",
        "processor_class": "Idefics3Processor",
        "rescale_factor": 1 / 255,
        "max_image_size": {"longest_edge": TILE},
        "size": {"longest_edge": longest_edge},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(pictures))
    (folder / "processor_config.json").write_text(
        json.dumps({"image_seq_len": TOKENS_A_TILE, "processor_class": "Idefics3Processor"})
    )
    return folder


# -- the model once more, plainly, from the tensors of a released file -------------------------------------


def plain_logits(file: dict[str, Tensor], ids: list[int], tiles: Tensor | None) -> Tensor:
    """(positions, terms) of one page, before the scale."""
    body = {name.removeprefix("encoder.encoder.model."): tensor for name, tensor in file.items()}
    table = torch.cat(
        [
            body["text_model.embeddings.tok_embeddings.weight"],
            body["text_model.embeddings.tok_embeddings.additional_embedding.weight"],
        ]
    )
    inputs = table[torch.tensor(ids)].clone()
    if tiles is not None:
        seen = torch.cat([_connect(body, _see(body, tile)) for tile in tiles])
        inputs[[n for n, token in enumerate(ids) if token == IMAGE_TOKEN]] = seen
    hidden = _read(body, inputs)
    dense = F.gelu(hidden @ file["encoder.mlm_head.dense.weight"].T)
    dense = _norm(dense, file["encoder.mlm_head.norm.weight"], None, 1e-5)
    return dense @ file["encoder.mlm_head.decoder.weight"].T + file["encoder.mlm_head.decoder.bias"]


def plain_vector(file: dict[str, Tensor], ids: list[int], tiles: Tensor | None) -> Tensor:
    logits = plain_logits(file, ids, tiles) * WIDTH**-0.25
    weights = torch.log(1 + logits.clamp(min=0)).amax(0)
    weights[list(SPECIAL)] = 0
    return weights


def _norm(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    normed = centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + eps) * weight
    return normed if bias is None else normed + bias


def _attend(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None = None) -> Tensor:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ v


def _see(body: dict[str, Tensor], tile: Tensor) -> Tensor:
    """SigLIP on one tile: (patches, width)."""
    g = {k.removeprefix("vision_model."): v for k, v in body.items() if k.startswith("vision_model.")}
    n = TILE // PATCH
    patches = tile.reshape(3, n, PATCH, n, PATCH).permute(1, 3, 0, 2, 4).reshape(n * n, -1)
    x = (
        patches @ g["embeddings.patch_embedding.weight"].reshape(EYE, -1).T
        + g["embeddings.patch_embedding.bias"]
    )
    x = x + g["embeddings.position_embedding.weight"]
    for layer in range(2):
        p = f"encoder.layers.{layer}."
        y = _norm(x, g[p + "layer_norm1.weight"], g[p + "layer_norm1.bias"], 1e-6)
        q, k, v = (
            (y @ g[f"{p}self_attn.{w}_proj.weight"].T + g[f"{p}self_attn.{w}_proj.bias"])
            .reshape(-1, 2, EYE // 2)
            .transpose(0, 1)
            for w in "qkv"
        )
        out = _attend(q, k, v).transpose(0, 1).reshape(-1, EYE)
        x = x + out @ g[p + "self_attn.out_proj.weight"].T + g[p + "self_attn.out_proj.bias"]
        y = _norm(x, g[p + "layer_norm2.weight"], g[p + "layer_norm2.bias"], 1e-6)
        y = F.gelu(y @ g[p + "mlp.fc1.weight"].T + g[p + "mlp.fc1.bias"], approximate="tanh")
        x = x + y @ g[p + "mlp.fc2.weight"].T + g[p + "mlp.fc2.bias"]
    return _norm(x, g["post_layernorm.weight"], g["post_layernorm.bias"], 1e-6)


def _connect(body: dict[str, Tensor], seen: Tensor) -> Tensor:
    """Neighbouring patches side by side, then projected."""
    n = TILE // PATCH // SHUFFLE
    square = seen.reshape(n, SHUFFLE, n, SHUFFLE, EYE).permute(0, 2, 1, 3, 4).reshape(n * n, -1)
    return square @ body["connector.modality_projection.proj.weight"].T


def _rotate(x: Tensor, theta: float) -> Tensor:
    length, half = x.shape[1], x.shape[2] // 2
    angle = torch.arange(length)[:, None] / theta ** (torch.arange(half) / half)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def _read(body: dict[str, Tensor], inputs: Tensor) -> Tensor:
    g = {k.removeprefix("text_model."): v for k, v in body.items() if k.startswith("text_model.")}
    x = _norm(inputs, g["embeddings.norm.weight"], None, 1e-5)
    far = (
        torch.arange(len(x))[:, None] - torch.arange(len(x))[None]
    ).abs() > 4  # local_attention 8: 4 to a side
    for layer in range(4):
        p = f"layers.{layer}."
        everywhere = layer % 3 == 0
        y = x if layer == 0 else _norm(x, g[p + "attn_norm.weight"], None, 1e-5)
        q, k, v = (y @ g[p + "attn.Wqkv.weight"].T).reshape(-1, 3, HEADS, WIDTH // HEADS).permute(1, 2, 0, 3)
        theta = 160000.0 if everywhere else 10000.0
        out = _attend(_rotate(q, theta), _rotate(k, theta), v, None if everywhere else far)
        x = x + out.transpose(0, 1).reshape(-1, WIDTH) @ g[p + "attn.Wo.weight"].T
        y = _norm(x, g[p + "mlp_norm.weight"], None, 1e-5)
        wide, gate = (y @ g[p + "mlp.Wi.weight"].T).chunk(2, -1)
        x = x + (F.gelu(wide) * gate) @ g[p + "mlp.Wo.weight"].T
    return _norm(x, g["final_norm.weight"], None, 1e-5)
