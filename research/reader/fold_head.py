"""An exported reader whose head has only the units that fire: the same terms, for less than half of the work.

Most units of the shipped head never fire (docs/log.md). Without them, the two layers after them are one small
matrix: terms are named straight from the units that are left. Its 8-bit weights are rounded one unit after
the other. What rounding one changes is made good by those that follow, as far as units fire together on real
pages, and what is left on average goes into the bias. So it is nearer to the exact head than before.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor

from research.command import main
from research.reader.export import calibration_windows, export_head
from research.reader.options import FoldOptions
from research.reader.revive import living, word_features
from vsplade.cli.common import note
from vsplade.encode.gpu.detect_torch import load_network
from vsplade.encode.gpu.network import Reader
from vsplade.errors import InputError

STEP = 16
"""The number of units is a multiple of it, filled up with silent ones: matrix units like that."""
RIDGE = 0.01
"""Of the mean variance of a unit, added to each: units that nearly always fire together must not blow up."""
LARGEST = 127

Say = Callable[[str], None]


def folded(old: Reader, alive: Tensor) -> Reader:
    """The same reader with only the units that are alive, and one layer instead of two after them."""
    count, kept = int(alive.sum()), alive.nonzero()[:, 0]
    config = replace(old.config, hidden=-(-count // STEP) * STEP, rank=0)
    new: Reader = Reader(config).eval()
    new.trunk = old.trunk
    for parameter in (*new.head.parameters(), *new.size.parameters()):
        parameter.zero_()
    words, narrow = old.head.vocabulary, old.head.narrow
    new.head.hidden.weight[:count] = old.head.hidden.weight[kept]
    new.head.hidden.bias[:count] = old.head.hidden.bias[kept]
    new.head.vocabulary.weight[:, :count] = (words.weight.double() @ narrow.weight[:, kept].double()).float()
    new.head.vocabulary.bias.copy_(words.bias.double() + words.weight.double() @ narrow.bias.double())
    new.size.weight[:, :count] = old.size.weight[:, kept]
    new.size.bias.copy_(old.size.bias)
    return new


def rounded(weight: NDArray[Any], seen: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """8-bit weights (terms, units), and the step of each term, fitted to what the units said on real pages.

    Units one by one, the most varied first: the error of each is passed on to those that are still exact.
    """
    step = np.maximum(np.abs(weight).max(1), 1e-12) / LARGEST
    spread = np.cov(seen.T)
    order = np.argsort(-np.diag(spread))
    spread = spread[order][:, order] + RIDGE * np.diag(spread).mean() * np.eye(len(order))
    passed = np.linalg.cholesky(np.linalg.inv(spread)).T
    exact = weight[:, order].astype(np.float64)
    whole = np.zeros(weight.shape, np.int8)
    for at, unit in enumerate(order):
        whole[:, unit] = np.clip(np.round(exact[:, at] / step), -LARGEST, LARGEST)
        error = (exact[:, at] - whole[:, unit] * step) / passed[at, at]
        exact[:, at + 1 :] -= np.outer(error, passed[at, at + 1 :])
    return whole, step.astype(np.float32)


def _replace(path: Path, values: dict[str, NDArray[Any]]) -> None:
    """Put constants of an ONNX file in the place of those that have their names."""
    model = onnx.load(str(path))
    for tensor in model.graph.initializer:
        if tensor.name in values:
            tensor.CopyFrom(onnx.numpy_helper.from_array(values.pop(tensor.name), tensor.name))
    assert not values, f"{path} has no {', '.join(values)}"
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


@torch.no_grad()
def fold_head(options: FoldOptions, say: Say = print) -> dict[str, Any]:
    """Write an exported reader again, without the units of its head that never fire."""
    settings = json.loads((options.model / "reader.json").read_text("utf-8"))
    old = load_network(options.model, settings)
    if not old.config.rank:
        raise InputError(f"{options.model} has only living units already.")
    features = word_features(old, calibration_windows(options.pdfs, options.windows, options.seed))
    alive = living(old.head, features)
    say(f"{int(alive.sum())} of {len(alive)} units fire on {len(features)} cells")
    new = folded(old, alive)
    seen, words = new.head.look(features).double().numpy(), new.head.vocabulary
    whole, step = rounded(words.weight.numpy(), seen)
    kept = whole * step[:, None]
    words.bias += torch.from_numpy((words.weight.numpy() - kept) @ seen.mean(0)).float()
    words.weight.copy_(torch.from_numpy(kept))
    options.out.mkdir(parents=True, exist_ok=True)
    export_head(new, options.out)
    name = "head.vocabulary.weight"
    _replace(options.out / "head.onnx", {f"{name}_quantized": whole.T.copy(), f"{name}_scale": step})
    if not (options.out / "trunk.onnx").exists():
        shutil.copy(options.model / "trunk.onnx", options.out)
    digest = hashlib.blake2b(digest_size=8)
    for part in ("trunk.onnx", "head.onnx"):
        digest.update((options.out / part).read_bytes())
    settings |= {"weights": digest.hexdigest(), "network": new.config.to_json()}
    (options.out / "reader.json").write_text(json.dumps(settings, indent=1) + "\n", "utf-8")
    return {"out": str(options.out), "units": int(alive.sum()), "network": new.config.to_json()}


if __name__ == "__main__":
    main(fold_head, FoldOptions, say=note)
