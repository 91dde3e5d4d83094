"""LoRA in files, as peft writes it: found, checked and folded into the weights it belongs to.

Works on torch's tensors and on numpy's alike: the query side has no torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vsplade.encode.modernvbert.find_model import find_model
from vsplade.errors import InputError, MissingExtraError
from vsplade.jsonl import read_object

ADAPTER, ADAPTER_CONFIG, WEIGHTS = "adapter_model.safetensors", "adapter_config.json", "model.safetensors"
_LORA = re.compile(
    r"(?P<module>.+)\.lora_(?P<embedding>embedding_)?(?P<side>[AB])(\.(?P<adapter>(?!weight$)\w+))?(\.weight)?"
)
_SAVED = re.compile(r"\.modules_to_save(\.\w+)?\.(?=\w+$)")
_BODY = "encoder.encoder."
_ALIKE = {
    "vision_model.vision_model.": "vision_model.",
    "modality_projection.proj.": "modality_projection.",
    "mlm_head.decoder.": "lm_head.",
    "mlm_head.": "projection_head.",
}
"""Names of the layouts that mean the same."""


def plain_name(name: str) -> str:
    """Without what wrappers put in (peft, data-parallel training, the compiler); ``backbone.`` is an older
    name of the encoder.
    """
    name = name.removeprefix("module.").replace("_orig_mod.", "").replace("base_model.model.", "")
    if name.startswith("backbone."):
        rest = name.removeprefix("backbone.")
        name = {"model": _BODY, "encoder": "encoder.", "mlm_head": "encoder."}.get(
            rest.split(".")[0], ""
        ) + rest
    return name.replace("encoder.backbone.", _BODY, 1) if name.startswith("encoder.backbone.") else name


def is_adapter_only(folder: Path) -> bool:
    return (folder / ADAPTER).is_file() and not (folder / WEIGHTS).is_file()


def base_folder(folder: Path) -> Path:
    """Of an adapter: the folder that its configuration names, or the one in the hub's cache."""
    named = read_object(folder / ADAPTER_CONFIG, optional=True).get("base_model_name_or_path")
    if isinstance(named, str) and named:
        for path in (folder / named, Path(named).expanduser(), _from_hub(named)):
            if path is not None and (path / WEIGHTS).is_file():
                return path.resolve()
    raise InputError(
        f"{folder} holds a LoRA adapter without its base model, {named or 'which it does not name'}: "
        f"download the base and write its folder into {ADAPTER_CONFIG} as base_model_name_or_path."
    )


def _from_hub(name: str) -> Path | None:
    """A base is never downloaded by itself: only what is there already is taken."""
    try:
        return find_model(name, download=False)
    except (InputError, MissingExtraError):
        return None


def files_folder(folder: Path) -> Path:
    """Where the tokenizer and the configurations are: an adapter's folder often leaves them to its base."""
    lacking = not (folder / "tokenizer.json").is_file() or not (folder / "config.json").is_file()
    return base_folder(folder) if is_adapter_only(folder) and lacking else folder


def weight_files(folder: Path) -> list[Path]:
    """The files whose tensors make the model: its own, or a base's and the adapter's."""
    if is_adapter_only(folder):
        return [base_folder(folder) / WEIGHTS, folder / ADAPTER]
    if not (folder / ADAPTER).is_file():
        return [folder / WEIGHTS]
    named = read_object(folder / ADAPTER_CONFIG, optional=True).get("base_model_name_or_path")
    if isinstance(named, str) and named and (folder / named).resolve() == folder.resolve():
        return [folder / WEIGHTS, folder / ADAPTER]
    raise InputError(
        f"{folder} holds both {WEIGHTS} and {ADAPTER}, and {ADAPTER_CONFIG} does not name this folder as "
        "the base: remove the adapter if it is merged already, or set base_model_name_or_path "
        "to '.' if it is not."
    )


def merged(file: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Plain names and plain weights: each LoRA is added to its layer, saved modules take their places."""
    plain: dict[str, Any] = {}
    saved: dict[str, Any] = {}
    pairs: dict[str, dict[str, Any]] = {}
    for name, tensor in ((plain_name(name), tensor) for name, tensor in file.items()):
        if found := _LORA.fullmatch(name):
            side = (found["embedding"] or "") + found["side"]
            if side in pairs.setdefault(found["module"], {}):
                raise InputError(f"{folder} holds several adapters of {found['module']}: keep one of them.")
            pairs[found["module"]][side] = tensor
        elif ".lora_" in name:
            raise InputError(
                f"{folder}: {name} belongs to a kind of LoRA that cannot be merged here (plain LoRA can)."
            )
        elif _SAVED.search(name):
            saved[_SAVED.sub(".", name)] = tensor
        elif ".original_module." not in name:
            plain[name.replace(".base_layer.", ".")] = tensor
    for name, tensor in saved.items():
        plain[_place(name, plain) or name] = tensor
    if pairs:
        alpha, root = _strength(folder)
        for module, pair in pairs.items():
            _add(plain, module, pair, alpha, root, folder)
    return plain


def _add(
    plain: dict[str, Any], module: str, pair: Mapping[str, Any], alpha: float, root: bool, folder: Path
) -> None:
    name = _place(module + ".weight", plain)
    if name is None:
        raise InputError(
            f"{folder}: the LoRA of {module} has no weight to be added to; its base is another model."
        )
    embedding = "embedding_" if "embedding_A" in pair or "embedding_B" in pair else ""
    down, up = (pair.get(embedding + side) for side in "AB")
    if down is None or up is None:
        raise InputError(f"{folder}: half of the LoRA of {module} is missing. Download the folder again.")
    weight = plain[name]
    change = _float(up) @ _float(down) * (alpha / (math.sqrt(len(down)) if root else len(down)))
    change = change.T if embedding else change
    if change.shape != weight.shape:
        raise InputError(
            f"{folder}: the LoRA of {module} is for a weight of {tuple(change.shape)}, "
            f"not {tuple(weight.shape)}."
        )
    total = _float(weight) + change
    plain[name] = total.to(weight.dtype) if hasattr(weight, "float") else total


def _place(name: str, plain: Mapping[str, Any]) -> str | None:
    """The adapter may have been made on the body alone, or on another layout than the base's."""
    if name in plain:
        return name
    wanted = _common_name(name)
    return next((known for known in plain if _common_name(known) == wanted), None)


def _common_name(name: str) -> str:
    """As transformers calls it, whatever the layout."""
    name = name.removeprefix(_BODY).removeprefix("encoder.").removeprefix("model.")
    for here, there in _ALIKE.items():
        name = name.replace(here, there, 1)
    return name


def _float(tensor: Any) -> Any:
    return tensor.float() if hasattr(tensor, "float") else tensor


def _strength(folder: Path) -> tuple[float, bool]:
    settings = read_object(folder / ADAPTER_CONFIG, optional=True)
    if settings.get("rank_pattern") or settings.get("alpha_pattern") or settings.get("use_dora"):
        raise InputError(
            f"{folder / ADAPTER_CONFIG} uses DoRA or a rank or alpha of its own for some layers, which "
            "cannot be merged here: merge it with peft (merge_and_unload) and save the result."
        )
    alpha = settings.get("lora_alpha")
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)):
        raise InputError(
            f"{folder} holds LoRA weights, but no {ADAPTER_CONFIG} with lora_alpha tells how strong they "
            "are: copy that file there."
        )
    return float(alpha), bool(settings.get("use_rslora"))
