"""The query side of a model: a tokenizer and a table of weights. Needs numpy and the ``tokenizers`` wheel,
not torch.

It is made once from a model's folder and kept in the user's cache, so that a search opens two small files;
``export`` writes it anywhere, and that folder is enough to search an index on a machine without the model.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.cache import cache_folder
from vsplade.encode.modernvbert import adapters
from vsplade.encode.modernvbert.find_model import find_model
from vsplade.encode.modernvbert.processor import ProcessorSettings, load_tokenizer
from vsplade.encode.modernvbert.tensors import TensorFile
from vsplade.errors import InputError, MissingExtraError
from vsplade.jsonl import read_object
from vsplade.types import SparseVector

TABLE, FACTS = "query.npy", "vsplade-query.json"
SPECIAL_TOKENS = (50280, 50281, 50282, 50283, 50284)
"""[UNK] [CLS] [SEP] [PAD] [MASK]: never a term."""
_FORMAT = 1
ADDITIONAL_TOKENS = 40
"""Image tokens at the end of the embedding table, where the configuration does not say how many."""
_QUERY, _DECODER = "query_encoder.", "encoder.mlm_head.decoder.weight"


@dataclass(frozen=True)
class QuerySide:
    """Weights for terms and the tokenizer that finds them; also the encoder's vocabulary."""

    folder: Path
    name: str
    fingerprint: str
    longest_edge: int
    table: NDArray[np.float32]
    repeats: str = "counted"
    """A repeated word of a query adds up (``counted``, the release) or weighs ``once`` (the paper)."""

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.folder)

    def token(self, term: int) -> str:
        """The piece as text; one that goes on a word begins with ``##``."""
        text = str(self.tokenizer.decode([term], skip_special_tokens=False))
        return text.strip() or text if text[:1].isspace() else "##" + text

    def encode(self, text: str) -> SparseVector:
        """Every token's weight, once or as often as it stands in the query; no special tokens."""
        counts = Counter(self.terms(text))
        once = self.repeats == "once"
        return SparseVector.from_dict(
            {term: (1 if once else count) * float(self.table[term]) for term, count in counts.items()}
        )

    def terms(self, text: str) -> list[int]:
        """The vocabulary's terms in a text, in order; special tokens are none."""
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        return [term for term in ids if term < len(self.table)]


def open_side(folder: Path) -> QuerySide:
    try:
        facts = json.loads((folder / FACTS).read_text("utf-8"))
        if facts["format"] != _FORMAT:
            raise InputError(
                f"{folder / FACTS} is of format {facts['format']}, this version reads {_FORMAT}."
            )
        table = np.load(folder / TABLE, allow_pickle=False)
        if table.dtype != np.float32 or table.ndim != 1 or not np.isfinite(table).all() or (table < 0).any():
            raise InputError(f"{folder / TABLE} is not a table of query weights. Export it again.")
        return QuerySide(
            folder, str(facts["name"]), str(facts["fingerprint"]), int(facts["longest_edge"]), table,
            query_repeats(facts),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder} holds no sound query side ({error}). Export it again from the model."
        ) from error


def has_side(folder: Path) -> bool:
    return (folder / FACTS).is_file() and (folder / TABLE).is_file()


def export(model: Path, target: Path, name: str, bag: bool = False) -> QuerySide:
    """Write the query side of the model in a folder; ``name`` is the encoder's name that an index will
    remember. With ``bag`` every word weighs 1, whatever table the model has.
    """
    table = bag_weights(model) if bag else query_weights(model)
    target.mkdir(parents=True, exist_ok=True)
    np.save(target / (TABLE + ".partial.npy"), table)
    os.replace(target / (TABLE + ".partial.npy"), target / TABLE)
    texts = adapters.files_folder(model)
    if (texts / "tokenizer.json").resolve() != (target / "tokenizer.json").resolve():
        load_tokenizer(texts)  # a broken one is found now, not at the first search
        shutil.copyfile(texts / "tokenizer.json", target / "tokenizer.json")
    facts = {
        "format": _FORMAT,
        "name": name,
        "fingerprint": fingerprint(model),
        "longest_edge": ProcessorSettings.read(texts).longest_edge,
        "source": _stamp(model),
        "query_repeats": _repeats_of(model),
    }
    partial = target / (FACTS + ".partial")
    partial.write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    os.replace(partial, target / FACTS)  # last: a folder with it is complete
    return open_side(target)


def cached(model: Path, name: str, bag: bool = False) -> QuerySide:
    """From the cache, made anew when the model's files changed."""
    target = cached_side(name, bag)
    if has_side(target):
        stamp = json.loads((target / FACTS).read_text("utf-8")).get("source")
        if stamp == _stamp(model):
            return open_side(target)
    return export(model, target, name, bag)


def cached_side(name: str, bag: bool = False) -> Path:
    """A folder of its own for every model."""
    readable = "".join(char if char.isalnum() or char in "-_." else "-" for char in Path(name).name)[-60:]
    number = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
    return cache_folder() / "query" / f"{readable}-{number}{'-bag' if bag else ''}"


def open_model(model: str, download: bool, bag: bool = False) -> tuple[QuerySide, Path | None]:
    """The query side, and the model's folder unless there is the query side alone. With ``bag`` every word of
    a query weighs 1.
    """
    known = Path(model).expanduser()
    if known.is_dir() and has_side(known) and not (known / "config.json").is_file():
        return open_side(known.resolve()), None
    name = str(known.resolve()) if known.is_dir() else model
    try:
        folder = find_model(model, download=download)
    except (InputError, MissingExtraError):
        kept = cached_side(name, bag)
        if has_side(kept):  # the model is gone or out of reach; searching needs the side only
            return open_side(kept), None
        raise
    return cached(folder, name, bag), folder


def query_weights(model: Path) -> NDArray[np.float32]:
    """The table of a model in a folder, computed with numpy."""
    config = read_object(adapters.files_folder(model) / "config.json", optional=True)
    static = sorted(model.glob("query_*SparseStaticEmbedding/model.safetensors"))
    if (model / adapters.WEIGHTS).is_file() or adapters.is_adapter_only(model):
        table = _from_release(model, config)
    elif static:
        table = TensorFile(static[0]).read("weight")
    else:
        raise InputError(f"{model} has no model.safetensors, so there are no query weights to take from it.")
    return _barred(np.maximum(table, 0).astype(np.float32), config)


def bag_weights(model: Path) -> NDArray[np.float32]:
    """A table of ones for a model with or without a table of its own: a plain backbone, too."""
    config = read_object(adapters.files_folder(model) / "config.json", optional=True)
    shapes = {
        adapters.plain_name(name): found.shape
        for path in adapters.weight_files(model)
        for name, found in TensorFile(path).tensors.items()
    }
    if _DECODER in shapes:
        rows = shapes[_DECODER][0]
    elif "lm_head.weight" in shapes:
        rows = shapes["lm_head.weight"][0] - additional_tokens(config)
    else:
        raise InputError(f"{model} has no masked-language-model head: it gives no weights of words.")
    return _barred(np.ones(max(rows, 0), np.float32), config)


def _barred(table: NDArray[np.float32], config: Mapping[str, Any]) -> NDArray[np.float32]:
    special = config.get("unscored_token_ids", SPECIAL_TOKENS)
    table[[token for token in special if token < len(table)]] = 0
    return table


def additional_tokens(config: Mapping[str, Any]) -> int:
    """Rows at the end of one whole embedding table that are image tokens, not terms."""
    found = config.get("additional_vocab_size") or ADDITIONAL_TOKENS
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise InputError(f"config.json: additional_vocab_size is a number of tokens, not {found!r}.")
    return found


def _from_release(model: Path, config: Mapping[str, Any]) -> NDArray[np.float32]:
    files = [TensorFile(path) for path in adapters.weight_files(model)]
    path = files[-1].path
    plain = {adapters.plain_name(name): (file, name) for file in files for name in file.tensors}
    tensors = adapters.merged(
        {name: file.read(stored) for name, (file, stored) in plain.items() if _QUERY in name}, model
    )
    if not tensors and _DECODER in plain:  # trained with plain bags of words as queries
        file, stored = plain[_DECODER]
        return np.ones(file.tensors[stored].shape[0], np.float32)
    names = [_QUERY + part for part in ("embeddings.weight", "projection.weight", "projection.bias")]
    missing = [name for name in names if name not in tensors]
    if missing:
        raise InputError(
            f"{path} has no query table ({', '.join(missing)} missing): a plain backbone cannot "
            "answer queries. "
            "Train it first, or use a released V-SPLADE model."
        )
    shapes = [tensors[name].shape for name in names]
    rows, width = shapes[0] if len(shapes[0]) == 2 else (0, 0)
    if [*shapes[1:]] != [(1, width), (1,)] or not rows:
        found = ", ".join(f"{name} is {shape}" for name, shape in zip(names, shapes, strict=True))
        raise InputError(
            f"{path} has a query table that does not fit together: {found}. Download the folder again."
        )
    embeddings, projection, bias = (tensors[name].astype(np.float64) for name in names)
    raw = embeddings @ projection.reshape(-1) + bias.reshape(-1)
    activation = config.get("query_activation", "softplus")
    if activation == "one":
        return np.ones(len(raw), np.float32)
    made = np.logaddexp(0, raw) if activation == "softplus" else np.maximum(raw, 0)
    return (np.log1p(made) if activation == "log1p_relu" else made).astype(np.float32)


def query_repeats(config: Mapping[str, Any]) -> str:
    """What a configuration says of words that a query repeats; nothing is the release, which counts them."""
    found = config.get("query_repeats", "counted")
    if found not in ("counted", "once"):
        raise InputError(
            f"query_repeats is 'counted' or 'once', not {found!r}. Mend the model's config.json."
        )
    return str(found)


def _repeats_of(model: Path) -> str:
    root = adapters.files_folder(model) / "config.json"
    document = sorted(model.glob("document_*/config.json"))
    return query_repeats(read_object(root if root.is_file() or not document else document[0], optional=True))


def fingerprint(model: Path) -> str:
    """Of everything that decides a vector: weights, tokenizer and configurations."""
    digest = hashlib.blake2b(digest_size=12)
    for path in _files(model):
        digest.update(_shown(path, model).encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    text = read_object(adapters.files_folder(model) / "config.json", optional=True).get("text_config") or {}
    if text and not {"rope_parameters", "local_rope_theta"} & set(text):
        digest.update(b"local_rope_theta 160000")  # earlier versions took 10,000: their vectors are others
    return f"modernvbert-{digest.hexdigest()}"


def _files(model: Path) -> list[Path]:
    """A folder in both layouts is the model of its own ``model.safetensors``: the other one is a copy."""
    kinds = [
        "config.json",
        "tokenizer.json",
        "preprocessor_config.json",
        "processor_config.json",
        "chat_template.*",
        "adapter_*",
    ]
    whole = (model / "model.safetensors").is_file()
    patterns = (
        [*kinds, "model.safetensors"]
        if whole
        else [*kinds, "*/*.safetensors", "*/config.json", "*/*token*.json"]
    )
    found = {path for pattern in patterns for path in model.glob(pattern) if path.is_file()}
    if adapters.is_adapter_only(model):
        found |= set(_files(adapters.base_folder(model)))
    return sorted(found)


def _shown(path: Path, model: Path) -> str:
    return str(path.relative_to(model)) if path.is_relative_to(model) else f"base/{path.name}"


def _stamp(model: Path) -> list[list[object]]:
    return [[_shown(p, model), p.stat().st_size, p.stat().st_mtime_ns] for p in _files(model)]
