"""A folder with a model of the released size and random weights, for measuring speed and memory.

    python -m research.bench.full_size FOLDER            # 252 million parameters, bfloat16
    python -m research.bench.full_size FOLDER --small    # a few, to try the benchmarks on a CPU

Speed does not depend on the values of weights. The tokenizer is a plain byte-level one with the special and
image tokens at their released places; only the lengths of prompts matter here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.command import main, option

TERMS, EXTRA = 50_368, 40
SPECIAL = 50_280


def configuration(small: bool) -> dict[str, Any]:
    heads, layers, eyes, edge = (4, 3, 2, 64) if small else (12, 22, 12, 512)
    width = 64 if small else 768
    text = {
        "model_type": "modernbert", "hidden_size": width, "intermediate_size": width * 3 // 2,
        "num_hidden_layers": layers, "num_attention_heads": heads, "vocab_size": TERMS,
        "pad_token_id": 50_283,
        "bos_token_id": 50_281, "eos_token_id": 50_282, "cls_token_id": 50_281, "sep_token_id": 50_282,
    }  # fmt: skip
    vision = {
        "model_type": "siglip_vision_model", "hidden_size": width, "intermediate_size": 4 * width,
        "num_hidden_layers": eyes, "num_attention_heads": heads, "image_size": edge, "patch_size": 16,
    }  # fmt: skip
    return {
        "model_type": "modernvbert", "text_config": text, "vision_config": vision, "vocab_size": TERMS,
        "image_token_id": TERMS + EXTRA - 1, "pixel_shuffle_factor": 2 if small else 4,
        "additional_vocab_size": EXTRA,
    }  # fmt: skip


def write_tokenizer(folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = letters + [f"[filler{n}]" for n in range(SPECIAL - len(letters))]
    tokenizer = Tokenizer(models.BPE(vocab={token: n for n, token in enumerate(vocabulary)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    names += [f"[unused{n}]" for n in range(TERMS - SPECIAL - len(names))]
    cells = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    names += ["<end_of_utterance>", *cells, "<global-img>", "<fake_token_around_image>", "<image>"]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", SPECIAL + 1), ("[SEP]", SPECIAL + 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def random_tensors(plain: dict[str, Any]) -> dict[str, Any]:
    """Every tensor of the model by its name, drawn in bfloat16 from one pool of numbers."""
    import torch

    from vsplade.encode.modernvbert.model import SpladeModel
    from vsplade.encode.modernvbert.model_files import native_config

    with torch.device("meta"):
        model = SpladeModel(native_config(plain, TERMS + EXTRA, with_vision_head=False), TERMS)
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(1 << 22, generator=generator)
    tensors = {}
    for name, empty in model.state_dict().items():
        size = empty.numel()
        if empty.dim() == 1:
            made = torch.ones(size) if "norm" in name and name.endswith("weight") else torch.zeros(size)
        else:
            start = int(torch.randint(len(numbers), (1,), generator=generator))
            made = numbers.roll(start).repeat(-(-size // len(numbers)))[:size] * empty[0].numel() ** -0.5
        tensors[name] = made.to(torch.bfloat16).view(empty.shape)
    # One term in a hundred can score, as many as a trained model's pages have.
    tensors["head.decoder.bias"].fill_(-1000.0)[::100] = 0.0
    # So can the letters, which all texts of the benchmarks are made of: or nothing would be learned.
    tensors["head.decoder.bias"][:256] = 0.0
    tensors["query.projection.bias"].fill_(0.54)
    return tensors


def write_model(folder: Path, small: bool = False) -> Path:
    """Nothing is done where the folder is complete already."""
    from safetensors.torch import save_file

    from vsplade.encode.modernvbert import layouts

    if (folder / "config.json").is_file():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    plain = configuration(small)
    edge = plain["vision_config"]["image_size"]
    file = layouts.to_release(random_tensors(plain), {}, TERMS)
    save_file({n: t.contiguous().clone() for n, t in file.items()}, folder / "model.safetensors")
    write_tokenizer(folder)
    pictures = {"max_image_size": {"longest_edge": edge}, "size": {"longest_edge": 4 * edge}, "resample": 1}
    (folder / "preprocessor_config.json").write_text(json.dumps(pictures))
    tokens = (edge // 16 // plain["pixel_shuffle_factor"]) ** 2
    (folder / "processor_config.json").write_text(json.dumps({"image_seq_len": tokens}))
    (folder / "config.json").write_text(json.dumps(plain))
    return folder


@dataclass(frozen=True)
class FullSizeOptions:
    folder: Path = option("The folder to write.", argument=True)
    small: bool = option("A few parameters, to try the benchmarks on a CPU.", False)


def full_size(options: FullSizeOptions) -> str:
    """Write a model of the released size with random weights, for measuring speed and memory."""
    return str(write_model(options.folder, options.small))


if __name__ == "__main__":
    main(full_size, FullSizeOptions)
