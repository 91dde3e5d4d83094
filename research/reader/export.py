"""Checkpoint to the files that ship.

The trunk becomes an ONNX graph quantised to 8 bits (static, per channel, calibrated on real pages with wear),
the head one with 8-bit weights and dynamic activations that ends in the best few terms of each cell, and in
the size of the type there.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import Tensor, nn

from research.command import main
from research.reader.degrade import degrade
from research.reader.options import ExportOptions
from research.reader.probe import BEST, load_reader
from research.reader.realpages import PagePool, read_pages
from research.reader.text_layers import page_jobs
from vsplade.encode.gpu.network import Head, Reader, Trunk, fold_norms
from vsplade.encode.reader.detect import fold
from vsplade.encode.reader.ink_windows import FOLD
from vsplade.encode.tokenizer import Tokenizer
from vsplade.encode.weighting import PageWeighting
from vsplade.errors import InputError

GROUP = 64
"""Neighbouring terms of which only the best is looked at first."""
SETTINGS: dict[str, Any] = {
    "longest_edge": 1024,  # px that pages are read at
    "scales": [
        0.4,
        0.16,
    ],  # small copies of the page: each brings another range of type into the readable band
    "tiny": 8.0,  # em in px: a page is read again if half of its type is smaller than this,
    "zoom": 1.5,  # so many times as large
    "large": 7.0,  # em in px: smaller type on a small copy has been read on the page itself
    "floor": -4.0,  # word logit above which a cell is named: doubtful cells still add evidence,
    "doubt": 0.4,  # the chance that there is a word counts to this power
    **asdict(PageWeighting()),  # counts to weights
    "related": 0.2,  # share of a query term's weight that words of the same stem get
    "points": {
        "quality": {"least": 0.5, "common": 2.0, "pair": 0.3},
        "efficient": {"least": 1.5, "common": 0.0},
    },  # a term is kept whose expected count times query weight, or "common" if more, is above "least";
    # neighbours whose expected count is above "pair"
    "pairs": {"gap": 2.8, "saturation": 0.5, "weight": 4.0, "share": 0.25},  # of neighbours: the widest gap
    # in em, the constant of their page weight, their query weight, and the share of both that pages hold, so
    # that single words come first there
    "lightest": 1.0,  # query terms that weigh less are left out
}
"""How cells become vectors; docs/log.md has the measurements behind each number."""
OPSET = 17


class TrunkGraph(nn.Module):
    def __init__(self, trunk: Trunk) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        word, fine, coarse, _ = self.trunk.read(picture)
        return word, fine, coarse


def best_terms(chance: Tensor, terms: int) -> tuple[Tensor, Tensor]:
    """The BEST values of each row of ``terms``, and their places: in onnxruntime, just what its TopK finds.

    TopK looks at one value after the other, a maximum at many at a time. The best few values are within the
    best few groups, and these are put back into order: of equal values TopK prefers the first.
    """
    size = math.gcd(GROUP, terms)
    count = terms // size
    best = torch.topk(chance.view(-1, count, size).amax(2), BEST, dim=1).indices
    groups = torch.topk(best, BEST, dim=1, largest=False).values
    first = torch.arange(chance.shape[0])[:, None] * count  # a gather of whole groups, by their number in all
    near = chance.view(-1, size)[first + groups].flatten(1)
    values, places = torch.topk(near, BEST, dim=1)
    return values, groups.gather(1, places // size) * size + places % size


class HeadGraph(nn.Module):
    """Features to the BEST terms of each cell and their probabilities, and to the em in px, by ``size``."""

    def __init__(self, head: Head, size: nn.Linear) -> None:
        super().__init__()
        self.head = head
        self.size = size

    def forward(self, features: Tensor) -> tuple[Tensor, ...]:
        seen = self.head.look(features)
        # softmax over everything, not logsumexp of it: onnxruntime's is vectorised and three times faster
        chance = torch.softmax(self.head.name(seen), 1)
        probability, term = best_terms(chance, self.head.vocabulary.out_features)
        return probability, term.to(torch.int32), torch.exp(self.size(seen)[:, 0] * math.log(2))


class SizeGraph(nn.Module):
    """Features to the em alone: what must be known of a cell before it is worth naming."""

    def __init__(self, head: Head, size: nn.Linear) -> None:
        super().__init__()
        self.head = head
        self.size = size

    def forward(self, features: Tensor) -> Tensor:
        return torch.exp(self.size(self.head.look(features))[:, 0] * math.log(2))


class RealWindows(CalibrationDataReader):
    def __init__(self, windows: Tensor) -> None:
        self.items: Iterator[Tensor] = iter(windows)

    def get_next(self) -> dict[str, np.ndarray] | None:
        item = next(self.items, None)
        return None if item is None else {"picture": fold(item.numpy())}


def calibration_windows(pdfs: Path, count: int, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    jobs = page_jobs(sorted(pdfs.rglob("*.pdf")), 4, (1000, 1700), seed)[:60]
    pages = list(read_pages(jobs, 2))
    if not pages:
        raise InputError(f"{pdfs} holds no PDF with a text layer; the 8-bit ranges need some real pages.")
    windows, _ = PagePool(pages, torch.device("cpu")).windows(count)
    half = count // 2
    return torch.cat([windows[:half], degrade(windows[half:].clone())]).float()


def join_padding(path: Path) -> None:
    """A padding and the convolution after it become one node: alone, it runs in float and takes longer."""
    model = onnx.load(str(path))
    nodes = model.graph.node
    for pad in [node for node in nodes if node.op_type == "Pad"]:
        (user,) = (node for node in nodes if pad.output[0] in node.input)
        sides = next(onnx.numpy_helper.to_array(t) for t in model.graph.initializer if t.name == pad.input[1])
        (border,) = (item for item in user.attribute if item.name == "pads")
        border.ints[:] = [have + more for have, more in zip(border.ints, sides[[2, 3, 6, 7]], strict=True)]
        user.input[0] = pad.input[0]
        nodes.remove(pad)
    onnx.save(model, str(path))


def export_trunk(reader: Reader, windows: Tensor, out: Path, method: CalibrationMethod) -> None:
    graph = TrunkGraph(reader.trunk).eval()
    axes = {"picture": {0: "batch", 2: "height", 3: "width"}}
    axes["word"] = {0: "batch", 1: "rows", 2: "columns"}
    axes["fine"] = {0: "batch", 2: "rows", 3: "columns"}
    axes["coarse"] = {0: "batch", 2: "coarse_rows", 3: "coarse_columns"}
    with tempfile.TemporaryDirectory() as folder:
        plain, ready = Path(folder) / "plain.onnx", Path(folder) / "ready.onnx"
        torch.onnx.export(
            graph, (torch.rand(1, FOLD * FOLD, 16, 24),), str(plain), input_names=["picture"],
            output_names=["word", "fine", "coarse"], dynamic_axes=axes, opset_version=OPSET, dynamo=False,
        )  # fmt: skip
        quant_pre_process(str(plain), str(ready), skip_symbolic_shape=True)
        join_padding(ready)
        (out / "trunk.float.onnx").write_bytes(ready.read_bytes())
        quantize_static(
            str(ready), str(out / "trunk.onnx"), RealWindows(windows), quant_format=QuantFormat.QDQ,
            per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
            calibrate_method=method,
            extra_options={"CalibMovingAverage": True},  # the mean over windows, as `rounding.rounded`
        )  # fmt: skip


def export_head(reader: Reader, out: Path) -> None:
    _export_cells(
        reader, HeadGraph(reader.head, reader.size), ["probability", "term", "em"], out / "head.onnx"
    )
    _export_cells(reader, SizeGraph(reader.head, reader.size), ["em"], out / "size.onnx")


def _export_cells(reader: Reader, graph: nn.Module, outputs: list[str], path: Path) -> None:
    """A graph over the features of cells, with 8-bit weights, and its float original beside it."""
    width = reader.config.middle + reader.config.coarse
    plain = path.with_suffix(".float.onnx")
    torch.onnx.export(
        graph.eval(), (torch.rand(7, width),), str(plain), input_names=["features"],
        output_names=outputs, opset_version=OPSET, dynamo=False,
        dynamic_axes={name: {0: "cells"} for name in ("features", *outputs)},
    )  # fmt: skip
    quantize_dynamic(
        str(plain),
        str(path),
        per_channel=True,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Gemm"],
    )


def describe(reader: Reader, out: Path) -> None:
    """``reader.json``: what the encoder must know beside the weights."""
    digest = hashlib.blake2b(digest_size=8)
    for name in ("trunk.onnx", "head.onnx"):
        digest.update((out / name).read_bytes())
    known = {"vocabulary": Tokenizer.load().fingerprint, "weights": digest.hexdigest()}
    text = json.dumps({**known, **SETTINGS, "best": BEST, "network": reader.config.to_json()}, indent=1)
    (out / "reader.json").write_text(text + "\n", "utf-8")


def export(options: ExportOptions) -> dict[str, Any]:
    """Turn a checkpoint into the 8-bit ONNX files that ship."""
    options.out.mkdir(parents=True, exist_ok=True)
    reader = load_reader(options.checkpoint, torch.device("cpu"))
    fold_norms(reader)
    windows = calibration_windows(options.pdfs, options.windows)
    export_trunk(reader, windows, options.out, CalibrationMethod[options.method])
    export_head(reader, options.out)
    describe(reader, options.out)
    # as if every reading were true, until `research.reader.certainty` has measured it
    np.save(options.out / "certainty.npy", np.ones(reader.config.vocabulary, np.float16))
    sizes = {}
    for name in ("trunk.onnx", "head.onnx", "size.onnx"):
        onnx.checker.check_model(str(options.out / name))
        sizes[name] = (options.out / name).stat().st_size
    return {"out": str(options.out), "bytes": sizes, "network": reader.config.to_json()}


if __name__ == "__main__":
    main(export, ExportOptions)
