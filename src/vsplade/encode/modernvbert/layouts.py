"""Names of tensors in files, and ours: the release's layout and the upstream backbone's, both ways and
strictly.

The release: ``encoder.encoder.model.*`` (the body, its embedding split in two tables),
``encoder.mlm_head.*`` and
``query_encoder.*``. Upstream ModernVBERT: one embedding table, the vision tower nested twice,
``projection_head.*``
and ``lm_head.*`` with rows for the image tokens too. Every tensor of a file is accounted for by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vsplade.errors import InputError

BODY, HEAD, QUERY = "encoder.encoder.model.", "encoder.mlm_head.", "query_encoder."
EMBEDDING = "body.text_model.embeddings.tok_embeddings.weight"
_TOKENS = "text_model.embeddings.tok_embeddings.weight"
_MORE_TOKENS = "text_model.embeddings.tok_embeddings.additional_embedding.weight"
_CONNECTOR, _FILE_CONNECTOR = (
    "connector.modality_projection.weight",
    "connector.modality_projection.proj.weight",
)
_CONNECTOR_BESIDE = "model." + _CONNECTOR
UNUSED = frozenset({"text_model.layers.0.attn_norm.weight"})
"""In some files though the first layer has no norm: kept, and written back."""


@dataclass(frozen=True)
class Renamed:
    """A file's tensors under our names; ``unused`` ones are kept under the file's."""

    tensors: dict[str, Tensor]
    unused: dict[str, Tensor]
    fresh_table: bool = False
    """The query table's projection is not in the file."""


def detect(names: Iterable[str], path: Path) -> str:
    """``release`` or ``upstream``."""
    found = list(names)
    if any(name.startswith(BODY) for name in found):
        return "release"
    if not any(name.startswith(("lm_head.", "projection_head.")) for name in found) and any(
        ".text_model." in name for name in found
    ):
        raise InputError(
            f"{path} has no masked-language-model head (projection_head, lm_head): it is an embedding model, "
            "which gives no weights of words."
        )
    if any(name.startswith(("model.text_model.", "projection_head.", "lm_head.")) for name in found):
        return "upstream"
    raise InputError(
        f"{path} is no V-SPLADE or ModernVBERT checkpoint: no tensor begins with {BODY!r} or "
        "'model.text_model.'. "
        f"It begins with {', '.join(sorted(found)[:3]) or 'nothing'}."
    )


def from_release(file: Mapping[str, Tensor], path: Path) -> Renamed:
    ours: dict[str, Tensor] = {}
    unused: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in file.items():
        if name.startswith(HEAD):
            ours["head." + name.removeprefix(HEAD)] = tensor
        elif name.startswith(QUERY):
            ours["query." + name.removeprefix(QUERY)] = tensor
        elif not name.startswith(BODY):
            unknown.append(name)
        elif (rest := name.removeprefix(BODY)) in UNUSED:
            unused[name] = tensor
        elif rest == _FILE_CONNECTOR:
            ours["body." + _CONNECTOR] = tensor
        else:
            ours["body." + rest] = tensor
    if unknown:
        raise InputError(f"{path} has tensors that this layout does not know: {_list(unknown)}.")
    terms = ours.get("head.decoder.weight")
    if terms is None:
        raise InputError(f"{path} lacks the tensor {HEAD}decoder.weight.")
    _join_tokens(ours, len(terms), BODY, path)
    return Renamed(ours, unused)


def _join_tokens(ours: dict[str, Tensor], terms: int, prefix: str, path: Path) -> None:
    """One embedding table; a file may hold it so, or the image tokens' rows apart."""
    main, more = EMBEDDING, "body." + _MORE_TOKENS
    whole = main in ours and len(ours[main]) > terms
    absent = [name for name in (main, more) if name not in ours and not (whole and name == more)]
    if absent:
        raise InputError(
            f"{path} lacks the tensors {_list(prefix + name.removeprefix('body.') for name in absent)}."
        )
    if more not in ours:
        return
    if ours[main].shape[1:] != ours[more].shape[1:]:
        raise InputError(f"{path}: {prefix + _TOKENS} and {prefix + _MORE_TOKENS} are of different widths.")
    ours[main] = torch.cat([ours[main], ours.pop(more)])


def to_release(
    ours: Mapping[str, Tensor], unused: Mapping[str, Tensor], vocabulary: int
) -> dict[str, Tensor]:
    file: dict[str, Tensor] = dict(unused)
    for name, tensor in ours.items():
        part, _, rest = name.partition(".")
        if name == EMBEDDING:
            file[BODY + _TOKENS], file[BODY + _MORE_TOKENS] = tensor[:vocabulary], tensor[vocabulary:]
        elif part == "body":
            file[BODY + (_FILE_CONNECTOR if rest == _CONNECTOR else rest)] = tensor
        else:
            file[{"head": HEAD, "query": QUERY}[part] + rest] = tensor
    return file


def from_upstream(file: Mapping[str, Tensor], additional: int, path: Path) -> Renamed:
    """The query table's embeddings are the backbone's own; its projection starts anew. The last
    ``additional`` rows of the embedding table are image tokens.
    """
    ours: dict[str, Tensor] = {}
    unused: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in file.items():
        rest = name.removeprefix("model.").replace("vision_model.vision_model.", "vision_model.", 1)
        if name.startswith("projection_head."):
            ours["head." + name.removeprefix("projection_head.")] = tensor
        elif name in ("lm_head.weight", "lm_head.bias"):
            ours["head.decoder." + name.removeprefix("lm_head.")] = tensor
        elif not name.startswith("model."):
            unknown.append(name)
        elif rest in UNUSED:
            unused[BODY + rest] = tensor
        elif rest == _FILE_CONNECTOR and _CONNECTOR_BESIDE not in file:  # as older upstream code names it
            ours["body." + _CONNECTOR] = tensor
        else:
            ours["body." + rest] = tensor
    if unknown:
        raise InputError(f"{path} has tensors that this layout does not know: {_list(unknown)}.")
    if EMBEDDING not in ours:
        raise InputError(f"{path} lacks the tensor model.{_TOKENS}.")
    if "body." + _MORE_TOKENS in ours:
        _join_tokens(ours, len(ours[EMBEDDING]), "model.", path)
    vocabulary = len(ours[EMBEDDING]) - additional
    for name in ("head.decoder.weight", "head.decoder.bias"):
        if name not in ours:
            raise InputError(f"{path} lacks the tensor lm_head.{name.rpartition('.')[2]}.")
        ours[name] = ours[name][: max(vocabulary, 0)]
    if vocabulary < 1:
        raise InputError(
            f"{path}: {len(ours[EMBEDDING])} rows of embeddings are too few for {additional} image tokens."
        )
    ours["query.embeddings.weight"] = ours[EMBEDDING][:vocabulary].clone()
    return Renamed(ours, unused, fresh_table=True)


def check(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], path: Path) -> None:
    """A missing, extra or misshapen tensor is an error that names it, by the name it has or would have in a
    file.
    """
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    shapes = [
        f"{_shown(name)} is {tuple(found[name].shape)}, not {tuple(wanted[name].shape)}"
        for name in sorted(wanted.keys() & found.keys())
        if wanted[name].shape != found[name].shape
    ]
    problems = []
    if missing:
        problems.append("it lacks " + _list(map(_shown, missing)))
    if extra:
        problems.append("it has, in excess, " + _list(map(_shown, extra)))
    if shapes:
        problems.append("; ".join(shapes[:6]) + (f" and {len(shapes) - 6} more" if len(shapes) > 6 else ""))
    if problems:
        raise InputError(
            f"{path} does not fit its config.json: {'; '.join(problems)}. Download the folder again."
        )


def _shown(name: str) -> str:
    part, _, rest = name.partition(".")
    return {"body": BODY, "head": HEAD, "query": QUERY}.get(part, part + ".") + rest


def _list(names: Iterable[str]) -> str:
    found = sorted(names)
    return ", ".join(found[:6]) + (f" and {len(found) - 6} more" if len(found) > 6 else "")
