"""What 8-bit products (float8_e4m3fn) would cost and bring the paper's model: loss and speed, apart.

    python -m research.bench.fp8 --small                       # the loss on a CPU, tiny random weights
    python -m research.bench.fp8 --model naver/v-splade-quality --dataset visrag:mpdocvqa     # NDCG@5 as well
    python -m research.bench.fp8 --speed                       # products of the model's sizes, on a GPU

The loss is emulated: every matrix product of the network gets operands that were rounded to 8 bits, with one
scale a row of activations and one a row of weights. That needs no kernel, so it runs anywhere; it is no
faster. The speed is that of torch's own scaled product beside bfloat16's: docs/paper-model.md has it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from research.bench.full_size import write_model
from research.bench.paper_encoding import draw_pages, load_pages, seconds
from research.bench.paper_step import Facts
from research.paper.tower_eight import gelu_rows, launch_gelu_to_eight, norm_rows
from vsplade.encode import load_encoder
from vsplade.encode.modernvbert.tower import Norm
from vsplade.types import Page, SparseVector

KIND = torch.float8_e4m3fn
LARGEST = 448.0
WIDTHS = ((768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 1152), (1152, 768))
"""(in, out) of the products of the vision and the text layers."""
POSITIONS = 208 * 1024
"""Of 16 A4 pages in the vision tower."""


def rounded(x: Tensor, along: int) -> Tensor:
    """To 8 bits and back, each row or column with its own scale."""
    top = x.detach().abs().amax(along, keepdim=True).float().clamp_min(1e-12)
    scale = top / LARGEST
    return ((x.float() / scale).to(KIND).float() * scale).to(x.dtype)


class EightBits(TorchDispatchMode):
    """Every product of two matrices in here gets 8-bit operands; ``count`` is how many there were."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, given = func.overloadpacket.__name__, list(args)
        first = {"mm": 0, "addmm": 1, "addmm_": 1, "_addmm_activation": 1}.get(name)
        if first is not None:
            self.count += 1
            given[first], given[first + 1] = rounded(given[first], 1), rounded(given[first + 1], 0)
        return func(*given, **(kwargs or {}))


def loss(encoder: Any, pages: list[Page]) -> dict[str, object]:
    """How far vectors move: cosine, and how many of the 100 heaviest terms stay."""
    exact = list(encoder.encode_pages(iter(pages)))
    with EightBits() as mode:
        coarse = list(encoder.encode_pages(iter(pages)))
    cosines = [_cosine(a, b) for a, b in zip(exact, coarse, strict=True)]
    kept = [len(set(a.top(100).terms.tolist()) & set(b.top(100).terms.tolist())) / max(1, len(a.top(100)))
            for a, b in zip(exact, coarse, strict=True)]  # fmt: skip
    return {"pages": len(pages), "products": mode.count, "cosine, mean": float(np.mean(cosines)),
            "cosine, least": float(np.min(cosines)), "top 100 kept": float(np.mean(kept))}  # fmt: skip


def _cosine(a: SparseVector, b: SparseVector) -> float:
    _, in_a, in_b = np.intersect1d(a.terms, b.terms, assume_unique=True, return_indices=True)
    length = float(np.linalg.norm(a.weights) * np.linalg.norm(b.weights))
    return float(a.weights[in_a] @ b.weights[in_b]) / length if length else 1.0


def quality(encoder: Any, name: str, data: Path | None) -> dict[str, object]:
    from research.experiments.hub import open_dataset
    from vsplade.evaluate.evaluator import evaluate_dataset

    dataset = open_dataset(name, data)
    exact = evaluate_dataset(dataset, encoder).measures["ndcg@5"]
    with EightBits():
        coarse = evaluate_dataset(dataset, encoder).measures["ndcg@5"]
    return {"dataset": dataset.name, "ndcg@5": exact, "ndcg@5, 8 bits": coarse}


def speed(keep: Callable[..., None]) -> None:
    """Milliseconds and TFLOP/s of each size: bfloat16, 8 bits with row scales, with and without the faster
    sums, and with one scale for all; then what rounding costs.
    """
    device = torch.device("cuda")
    bf16 = torch.bfloat16
    for wide, out in WIDTHS:
        x, weight = (torch.randn(n, wide, device=device, dtype=bf16) for n in (POSITIONS, out))
        row: dict[str, object] = {}
        for name, work in ways(x, weight).items():
            try:
                spent = seconds(work, device, 7)
            except RuntimeError as error:
                row[name] = str(error)[:200]
                continue
            row[name] = [1000 * spent, 2 * POSITIONS * wide * out / spent / 1e12]
        keep(**{f"{wide} to {out}: ms, TFLOP/s": row})
    x, wide_x = (torch.randn(POSITIONS, width, device=device, dtype=bf16) for width in (768, 3072))
    plain, more = torch.ones(768, device=device), torch.randn_like(x)
    norm = Norm(plain, plain, 1e-6, plain)
    works: dict[str, Callable[[], object]] = {
        "norm": lambda: norm(x),
        "norm, rounded": lambda: norm_rows(norm, x, None),
        "sum and norm, rounded": lambda: norm_rows(norm, x, more),
        "gelu, rounded": lambda: gelu_rows(wide_x),
    }
    for rows in (1, 2, 4, 8):
        works[f"gelu, rounded, {rows} rows"] = lambda rows=rows: launch_gelu_to_eight(  # type: ignore[misc]
            gelu_to_eight(), wide_x, rows
        )
    keep(rounding_ms={name: 1000 * seconds(work, device, 7) for name, work in works.items()})


def gelu_to_eight() -> Any:
    from research.paper import kernels_eight

    return kernels_eight.gelu_to_eight


def ways(x: Tensor, weight: Tensor) -> dict[str, Callable[[], object]]:
    small_x, small_weight = x.to(KIND), weight.to(KIND)
    by_row = torch.ones(len(x), 1, device=x.device), torch.ones(1, len(weight), device=x.device)
    one = torch.ones((), device=x.device), torch.ones((), device=x.device)

    def scaled(scales: tuple[Tensor, Tensor], fast: bool) -> Callable[[], object]:
        return lambda: torch._scaled_mm(
            small_x, small_weight.t(), *scales, out_dtype=torch.bfloat16, use_fast_accum=fast
        )

    return {
        "bfloat16": lambda: x @ weight.t(),
        "8 bits, row scales": scaled(by_row, False),
        "8 bits, row scales, fast sums": scaled(by_row, True),
        "8 bits, one scale": scaled(one, False),
        "8 bits, one scale, fast sums": scaled(one, True),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", help="a folder or hub name; default: random weights of the released size")
    parser.add_argument("--small", action="store_true", help="tiny random weights, to try this on a CPU")
    parser.add_argument("--pages", type=int, default=4, help="pages drawn to compare vectors of")
    parser.add_argument("--dataset", help="also NDCG@5 on this data set, as vsplade eval takes it")
    parser.add_argument("--data", type=Path, help="where copies of the hub's data sets lie, as OWNER/NAME")
    parser.add_argument("--speed", action="store_true", help="time products on a GPU instead")
    parser.add_argument("--out", default="fp8.json", help="where --speed writes")
    given = parser.parse_args()
    if given.speed:
        speed(Facts(Path(given.out)).add)
        return
    with tempfile.TemporaryDirectory() as work:
        model = given.model or str(write_model(Path(work) / "model", given.small))
        encoder = load_encoder(model)
        paths = draw_pages(Path(work) / "pages", given.pages, 1)
        found = loss(encoder, list(load_pages(paths, encoder.longest_edge, 1)))
        if given.dataset:
            found |= quality(encoder, given.dataset, given.data)
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
