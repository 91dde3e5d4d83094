"""Checkpoints without pickle: tensors in safetensors, the rest in its header; written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from vsplade.errors import InputError


def save(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    temporary = path.with_name(path.name + ".partial")
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(plain, temporary, metadata={"vsplade": json.dumps(header)})
    os.replace(temporary, path)


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    if not path.exists():
        raise InputError(f"There is no checkpoint at {path}. Check the path, or start without --resume.")
    with safe_open(path, framework="pt") as file:
        header = json.loads((file.metadata() or {}).get("vsplade", "{}"))
        return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118 - not a mapping


def load_model(model: nn.Module, tensors: dict[str, Tensor], prefix: str = "model.") -> None:
    """Strict: a missing, extra or misshapen tensor is an error that names it."""
    found = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    wanted = model.state_dict()
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    shapes = [n for n in wanted.keys() & found.keys() if wanted[n].shape != found[n].shape]
    if missing or extra or shapes:
        raise InputError(
            f"The checkpoint does not fit the model: missing {missing[:5]}, unexpected {extra[:5]}, "
            f"of another shape {sorted(shapes)[:5]}. Was it trained with another configuration?"
        )
    model.load_state_dict(found)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{n}.{key}": torch.as_tensor(v) for n, values in state.items() for key, v in values.items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> bool:
    """False where the checkpoint carries no optimizer state (a shipped model)."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, n, key = name.split(".", 2)
            state.setdefault(int(n), {})[key] = tensor
    for number, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"]):
        for key, tensor in state.get(number, {}).items():
            if tensor.shape == parameter.shape:
                # In the parameter's own memory format: the fused step refuses others.
                state[number][key] = torch.empty_like(parameter, dtype=tensor.dtype).copy_(tensor)
    if state:
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return bool(state)
