"""MiniLM and the query table to the files that ship: page.onnx, query.npy and the rest of `MeaningModel`.

    python -m research.meaning.export WORK --minilm FOLDER --out OUT

The graph is written node by node, with onnxruntime's own fused nodes (attention, matrix products that round
their input to 8 bits as they go): a window of 120 words takes a quarter of the time of the plain one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import load_file

from research.command import main
from research.meaning.model import PageEncoder, load_minilm, page_encoder
from research.meaning.options import ExportOptions
from vsplade.encode.meaning.wordpiece import WordPiece
from vsplade.errors import InputError

FUSED = "com.microsoft"
HEADS = 12
POSITIONS = 256
"""Of a window: more than it ever has tokens."""
LEVELS = 15
"""Of the query table's numbers, each way: as good as 127 here, and a packed wheel is a third smaller."""
ASKING = (
    "what", "which", "how", "many", "much", "when", "where", "who", "why", "does", "did", "most", "more",
    "some", "any", "there",
)  # fmt: skip
"""Words that tell nothing of what is asked for. A row that is no longer than theirs tells nothing either."""
Array = np.ndarray[Any, Any]


def rounded_rows(table: Array, levels: int = 127) -> tuple[Array, Array]:
    """A byte a number and one scale a row."""
    scale = np.maximum(np.abs(table).max(1), 1e-8) / levels
    return np.round(table / scale[:, None]).astype(np.int8), scale.astype(np.float32)


class Graph:
    def __init__(self, state: dict[str, Array]) -> None:
        self.state = {key: value.astype(np.float32) for key, value in state.items()}
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def constant(self, value: Array) -> str:
        self._count += 1
        name = f"c{self._count}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, kind: str, inputs: list[str], domain: str = "", **attributes: Any) -> str:
        self._count += 1
        name = f"v{self._count}"
        self.nodes.append(helper.make_node(kind, inputs, [name], domain=domain, **attributes))
        return name

    def product(self, x: str, name: str) -> str:
        """x times a weight, both in 8 bits; the weight's scale is one a column."""
        weight = self.state[f"{name}.weight"].T
        codes, scale = rounded_rows(np.ascontiguousarray(weight.T))
        inputs = [
            x,
            self.constant(codes.T),
            self.constant(scale),
            self.constant(np.zeros(len(scale), np.int8)),
        ]
        if f"{name}.bias" in self.state:
            inputs.append(self.constant(self.state[f"{name}.bias"]))
        return self.add("DynamicQuantizeMatMul", inputs, FUSED)

    def norm(self, x: str, name: str, skip: str | None = None) -> str:
        """Of x, or of x plus ``skip``: onnxruntime's node that fuses the two takes ten times as long."""
        gamma, beta = (self.constant(self.state[f"{name}.{kind}"]) for kind in ("weight", "bias"))
        total = x if skip is None else self.add("Add", [x, skip])
        return self.add("LayerNormalization", [total, gamma, beta], axis=-1, epsilon=1e-12)

    def layer(self, x: str, number: int, there: str) -> str:
        name = f"bert.layers.{number}"
        qkv = self.product(x, f"{name}.qkv")
        sizes = self.constant(np.array([384, 384, 384], np.int64))
        parts = [f"{qkv}_{n}" for n in "qkv"]
        self.nodes.append(helper.make_node("Split", [qkv, sizes], parts, axis=-1))
        mixed = self.add("MultiHeadAttention", [*parts, "", there], FUSED, num_heads=HEADS)
        x = self.norm(self.product(mixed, f"{name}.out"), f"{name}.norm1", x)
        wide = self.add("Gelu", [self.product(x, f"{name}.up")], FUSED)
        return self.norm(self.product(wide, f"{name}.down"), f"{name}.norm2", x)

    def build(self) -> Any:
        words, scale = rounded_rows(self.state["bert.words.weight"])
        layers = len({key.split(".")[2] for key in self.state if key.startswith("bert.layers.")})
        padding = self.constant(np.array(len(words) - 1, np.int32))
        axis = self.constant(np.array([1], np.int64))
        last = self.constant(np.array([2], np.int64))
        empty = self.add("Equal", ["tokens", padding])
        there = self.add("Not", [empty])
        x = self.add("Cast", [self.add("Gather", [self.constant(words), "tokens"])], to=TensorProto.FLOAT)
        scales = self.add("Gather", [self.constant(scale), "tokens"])
        x = self.add("Mul", [x, self.add("Unsqueeze", [scales, last])])
        length = self.add("Shape", ["tokens"], start=1, end=2)
        zero = self.constant(np.array([0], np.int64))
        positions = self.constant(self.state["bert.positions.weight"][:POSITIONS])
        x = self.add("Add", [x, self.add("Slice", [positions, zero, length, zero])])
        doubt = self.add("Sub", [self.constant(np.array(1, np.float32)), "certainty"])
        doubt = self.add("Mul", [self.add("Unsqueeze", [doubt, last]), self.constant(self.state["doubt"])])
        x = self.norm(self.add("Add", [x, doubt]), "bert.norm")
        mask = self.add("Cast", [there], to=TensorProto.INT32)
        for number in range(layers):
            x = self.layer(x, number, mask)
        weight = self.add("Unsqueeze", [self.add("Cast", [there], to=TensorProto.FLOAT), last])
        total = self.add("ReduceSum", [self.add("Mul", [x, weight]), axis], keepdims=0)
        count = self.add("ReduceSum", [weight, axis], keepdims=0)
        pooled = self.add("Div", [total, self.add("Max", [count, self.constant(np.array(1, np.float32))])])
        vector = self.add("MatMul", [pooled, self.constant(self.state["head.weight"].T)])
        norm = self.add("ReduceL2", [vector, self.constant(np.array([1], np.int64))], keepdims=1)
        self.nodes.append(helper.make_node("Div", [vector, norm], ["vector"]))
        dimensions = self.state["head.weight"].shape[0]
        graph = helper.make_graph(
            self.nodes, "meaning",
            [helper.make_tensor_value_info("tokens", TensorProto.INT32, ["n", "length"]),
             helper.make_tensor_value_info("certainty", TensorProto.FLOAT, ["n", "length"])],
            [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["n", dimensions])],
            self.constants,
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def page_graph(page: PageEncoder) -> Any:
    return Graph({key: value.detach().numpy() for key, value in page.state_dict().items()}).build()


def load_runs(work: Path, minilm: Path) -> tuple[PageEncoder, Array]:
    """The page encoder and the query table: the mean of all runs of `learn`, which have one start."""
    paths = sorted((work / "runs").glob("*.safetensors"))
    if not paths:
        raise InputError(f"{work / 'runs'} has no run; run research.meaning.learn first")
    runs = [load_file(str(path)) for path in paths]
    mean = {name: torch.stack([run[name].float() for run in runs]).mean(0) for name in runs[0]}
    table = mean.pop("table").numpy()
    page = page_encoder(load_minilm(minilm), mean["head.weight"])
    page.load_state_dict(page.state_dict() | mean)
    return page, table


def export(options: ExportOptions) -> dict[str, Any]:
    """Write the files that ship.

    WORK holds runs/*.safetensors (`learn`), words.txt (`texts`) and centroids.npy (`centroids`).
    """
    work, out = options.work, options.out
    out.mkdir(parents=True, exist_ok=True)
    page, table = load_runs(work, options.minilm)
    shutil.copyfile(options.minilm / "vocab.txt", out / "vocab.txt")
    shutil.copyfile(work / "words.txt", out / "words.txt")
    onnx.save(page_graph(page), out / "page.onnx")
    shutil.copyfile(work / "centroids.npy", out / "centroids.npy")
    (out / "meaning.json").write_text(json.dumps({"dimensions": table.shape[1], "weights": _digest(out)}))
    facts = write_table(table, out)
    return {**facts, "megabytes": round(sum(file.stat().st_size for file in out.iterdir()) / 1e6, 1)}


def write_table(table: Array, out: Path) -> dict[str, Any]:
    """Write the query table, and into meaning.json how long a row must be to tell something."""
    codes, scale = rounded_rows(table, LEVELS)
    np.save(out / "query.npy", codes)
    np.save(out / "query_scale.npy", scale)
    facts: dict[str, Any] = json.loads((out / "meaning.json").read_text("utf-8"))
    facts["telling"] = _longest_asking(codes * scale[:, None], out)
    (out / "meaning.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    return facts


def _longest_asking(table: Array, folder: Path) -> float:
    pieces = WordPiece.load(folder / "vocab.txt")
    rows = [pieces.word(word)[0] for word in ASKING]
    return round(float(np.linalg.norm(table[rows], axis=1).max()), 3)


def _digest(folder: Path) -> str:
    """Of what the vectors of pages depend on: a better query table serves an index that is there already."""
    total = hashlib.sha256()
    for name in ("centroids.npy", "page.onnx", "vocab.txt"):
        if (folder / name).exists():
            total.update((folder / name).read_bytes())
    return total.hexdigest()[:16]


if __name__ == "__main__":
    main(export, ExportOptions)
