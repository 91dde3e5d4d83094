"""Pages a second of the paper's model, from image files on disk to vectors, and where the time goes.

    python -m research.bench.paper_encoding --work FOLDER --prepare           # model and pages, once
    python -m research.bench.paper_encoding --work FOLDER --out encoding.json    # on a GPU, released size
    python -m research.bench.paper_encoding --small --pages 8 --out small.json   # the same on a CPU, tiny

The path is the one of ``vsplade index``: worker processes decode, the GPU cuts and normalises the tiles, the
network runs in bfloat16, vectors come back one by one. Measured apart: the loader alone, the cutting alone,
the network alone; and the rate that plain matrix products reach on the same card. FLOPs are counted with
transformers' own layers, whose operations torch's counter knows.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from research.bench.full_size import write_model

A4 = (1240, 1754)
"""Pixels at 150 dots an inch: two thirds of a scanner's usual setting, 13 tiles in the model."""


DISTINCT = 96
"""Pages drawn; the files of the others are copies. They are decoded all the same."""


def draw_page(path: str, seed: int) -> None:
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(15)
    rng = random.Random(seed)
    image = Image.new("RGB", A4, "white")
    draw = ImageDraw.Draw(image)
    for y in range(70, 1690, 22):
        words = ["".join(rng.choices("abcdefghijklmnoprstuvw", k=rng.randint(2, 9))) for _ in range(28)]
        draw.text((80, y), " ".join(words), fill=(20, 20, 40), font=font)
    draw.rectangle((80, 700, 900, 1000), fill=(200, rng.randint(0, 255), 90))
    image.save(path, quality=85)


def draw_pages(folder: Path, pages: int, workers: int) -> list[Path]:
    """Nothing is done where they are there already."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{n:05d}.jpg" for n in range(pages)]
    if not (folder / "complete").is_file() or not paths[-1].is_file():
        drawn = paths[:DISTINCT]
        with ProcessPoolExecutor(workers) as pool:
            list(pool.map(draw_page, map(str, drawn), range(len(drawn)), chunksize=2))
        for number, path in enumerate(paths[DISTINCT:]):
            path.write_bytes(drawn[number % DISTINCT].read_bytes())
        (folder / "complete").touch()
    return paths


def wait(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()


def seconds(work: Callable[[], object], device: Any, repeats: int) -> float:
    """The middle one of some runs, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def matrix_rate(device: Any, size: int) -> float:
    """TFLOP/s of a square product."""
    import torch

    kind = torch.bfloat16
    a, b = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    return 2 * size**3 / seconds(lambda: a @ b, device, 10) / 1e12


def load_pages(paths: list[Path], edge: int, workers: int) -> Iterator[Any]:
    from vsplade.pages import FileProblem, name_files, render

    for result in render(name_files([str(path) for path in paths]), edge, workers=workers):
        if isinstance(result, FileProblem):
            raise SystemExit(f"{result}")
        yield result.page


def loader_rate(paths: list[Path], edge: int, workers: int) -> float:
    """Pages a second after the first ones, so that starting the processes does not count."""
    skip = min(2 * workers, len(paths) // 3)
    start = 0.0
    for number, _ in enumerate(load_pages(paths, edge, workers), 1):
        if number == skip:
            start = time.perf_counter()
    return (len(paths) - skip) / (time.perf_counter() - start)


def file_rate(encoder: Any, paths: list[Path], workers: int) -> dict[str, float]:
    """From files to vectors: all of it, and the steady part after the first quarter."""
    begin = time.perf_counter()
    quarter = len(paths) // 4
    middle = begin
    terms = 0
    pages = load_pages(paths, encoder.longest_edge, workers)
    for number, vector in enumerate(encoder.encode_pages(pages), 1):
        terms += len(vector.terms)
        if number == quarter:
            middle = time.perf_counter()
    end = time.perf_counter()
    return {
        "pages_a_second": (len(paths) - quarter) / (end - middle),
        "pages_a_second_with_start": len(paths) / (end - begin),
        "terms_a_page": terms / len(paths),
    }


KINDS = {
    "cutting": ("resample_axis",),
    "norms": ("norm_rows",),
    "rotary places and gates": ("rotate_heads", "gate_rows"),
    "patches": ("patch_rows",),
    "maximum over positions": ("largest_positions", "reduce", "max_"),
    "attention": ("flash", "fmha", "attention", "sdpa", "mha"),
    "matrix products": ("gemm", "cutlass", "nvjet", "xmma", "cublas", "conv"),
    "copies": ("memcpy", "memset", "copy", "catarray"),
}


def kernel_shares(work: Callable[[], object], pages: int) -> tuple[dict[str, float], dict[str, float]]:
    """Milliseconds a page on the GPU by kind of kernel, and of the longest kernels by name."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        work()
        torch.cuda.synchronize()
    shares: dict[str, float] = {}
    single: dict[str, float] = {}
    for event in seen.key_averages():
        name = event.key.lower()
        taken = event.self_device_time_total / 1000 / pages
        kind = next((k for k, marks in KINDS.items() if any(m in name for m in marks)), "all else")
        shares[kind] = shares.get(kind, 0.0) + taken
        single[f"{event.count} x {event.key[:90]}"] = round(taken, 3)
    longest = dict(sorted(single.items(), key=lambda item: -item[1])[:24])
    return {kind: round(value, 3) for kind, value in shares.items()}, longest


def attention_milliseconds(device: Any, tiles: int) -> dict[str, float]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.randn(tiles, 12, 1024, 64, device=device, dtype=torch.bfloat16) for _ in range(3))
    found = {}
    for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):
        try:
            with sdpa_kernel(getattr(SDPBackend, name)):
                work = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)  # noqa: E731
                found[name] = 1000 * seconds(work, device, 5)
        except RuntimeError as error:
            print(f"{name}: {str(error)[:200]}", flush=True)
    return found


def product_milliseconds(device: Any, tiles: int) -> dict[str, float]:
    """The products of one layer of the vision tower, and GELU inside or after the first of the two."""
    import torch

    def some(*shape: int) -> Any:
        return torch.randn(*shape, device=device, dtype=torch.bfloat16)

    linear, gelu = torch.nn.functional.linear, torch.nn.functional.gelu
    x, wide, narrow = some(tiles * 1024, 768), some(tiles * 1024, 3072), some(tiles * 1024, 768)
    w1, b1, w2, wq, bq, wo = (
        some(3072, 768),
        some(3072),
        some(768, 3072),
        some(2304, 768),
        some(2304),
        some(768, 768),
    )
    works: dict[str, Callable[[], object]] = {
        "queries, keys, values": lambda: linear(x, wq, bq),
        "out, added in place": lambda: narrow.addmm_(x, wo.t()),
        "wide, GELU after": lambda: gelu(linear(x, w1, b1), approximate="tanh"),
        "wide, GELU inside": lambda: torch._addmm_activation(b1, x, w1.t(), use_gelu=True),
        "narrow, added in place": lambda: narrow.addmm_(wide, w2.t()),
        "narrow, with bias": lambda: linear(wide, w2, b1[:768]),
    }
    return {name: 1000 * seconds(work, device, 5) for name, work in works.items()}


@contextmanager
def without_towers(model: Any) -> Iterator[None]:
    """transformers' own forward passes."""
    kept = model.tower, model.text_tower
    model.tower = model.text_tower = None
    yield
    model.tower, model.text_tower = kept


class Benchmark:
    def __init__(self, given: argparse.Namespace) -> None:
        import torch

        self.given = given
        self.found: dict[str, Any] = {"pages": given.pages, "workers": given.workers, "page_pixels": A4}
        self.model, self.paths = prepare(given)
        self.say("model and pages are there")
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.found["device"] = torch.cuda.get_device_name() if self.device.type == "cuda" else "cpu"
        self.found["torch"] = torch.__version__

    def say(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    def keep(self, **facts: Any) -> None:
        self.found.update(facts)
        self.say(json.dumps(facts))
        Path(self.given.out).write_text(json.dumps(self.found, indent=1) + "\n")

    def encoder(self, **options: object) -> Any:
        from vsplade.encode import load_encoder

        return load_encoder(str(self.model), **{"batch": self.given.batch, **options})

    def run(self) -> None:
        on_gpu = self.device.type == "cuda"
        self.keep(matrix_tflops=matrix_rate(self.device, 8192 if on_gpu else 256))
        plain = self.encoder()
        self.keep(flops_a_page=self.flops(plain))
        self.keep(
            loader_pages_a_second=loader_rate(self.paths, plain.longest_edge, self.given.workers),
            cutting_ms_a_page=self.cutting(plain),
        )
        if on_gpu:
            self.keep(attention_ms=attention_milliseconds(self.device, 208))
            self.keep(product_ms=product_milliseconds(self.device, 208))
        twice = {"batch": 2 * self.given.batch}
        variants: list[tuple[str, dict[str, object]]] = [("default", {}), ("twice the batch", twice)]
        if not self.given.eager:
            variants += [("compiled", {"compile": True})]
        for name, options in variants:
            try:
                self.variant(name, plain if not options else self.encoder(**options))
            except Exception as error:  # the other variants' numbers are worth having all the same
                self.keep(**{name: {"failed": f"{type(error).__name__}: {error}"[:500]}})
                if not on_gpu:
                    raise
        self.keep(weights_apart=self.apart(plain))

    def apart(self, encoder: Any) -> dict[str, float]:
        """Largest differences of weights: this precision's from float32's, with our tower and without."""
        exact = self.encoder(precision="float32")
        pages = list(load_pages(self.paths[:2], encoder.longest_edge, self.given.workers))
        found = [
            one._pool([one._prepare(p.image) for p in pages]).weights.float() for one in (encoder, exact)
        ]
        with without_towers(encoder._model):
            found.append(encoder._pool([encoder._prepare(p.image) for p in pages]).weights.float())
        ours, wanted, theirs = found
        return {
            "largest_weight": float(wanted.max()),
            "ours_from_float32": float((ours - wanted).abs().max()),
            "transformers_from_float32": float((theirs - wanted).abs().max()),
            "ours_mean": float((ours - wanted).abs().sum() / (wanted > 0).sum()),
            "transformers_mean": float((theirs - wanted).abs().sum() / (wanted > 0).sum()),
        }

    def prepared(self, encoder: Any, pages: int) -> list[Any]:
        """Pictures in the memory that a GPU fetches from."""
        some = load_pages(self.paths[:pages], encoder.longest_edge, self.given.workers)
        return [encoder._prepare(page.image) for page in some]

    def cutting(self, encoder: Any) -> float:
        ready = self.prepared(encoder, self.given.batch)
        taken = seconds(lambda: [encoder._cut(one) for one in ready], self.device, 5)
        return 1000 * taken / len(ready)

    def flops(self, encoder: Any) -> float:
        from torch.utils.flop_counter import FlopCounterMode

        page = self.prepared(encoder, 1)
        with without_towers(encoder._model), FlopCounterMode(display=False) as counter:
            encoder._pool(page)
        return float(counter.get_total_flops())

    def variant(self, name: str, encoder: Any) -> None:
        import torch

        pages = self.prepared(encoder, encoder.options.batch)
        start = time.perf_counter()
        encoder._pool(pages)
        wait(self.device)
        first = time.perf_counter() - start
        on_gpu = self.device.type == "cuda"
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        cut = [encoder._cut(page) for page in pages]
        taken = seconds(lambda: encoder._pool(cut), self.device, self.given.repeats)
        rate = len(pages) / taken
        facts: dict[str, Any] = {"first_batch_seconds": first, "network_pages_a_second": rate}
        tflops = rate * self.found["flops_a_page"] / 1e12
        facts |= {"network_tflops": tflops, "network_share": tflops / self.found["matrix_tflops"]}
        files = file_rate(encoder, self.paths, self.given.workers)
        reached = files["pages_a_second"] * self.found["flops_a_page"] / 1e12
        facts["files"] = files | {"share_of_matrix_rate": reached / self.found["matrix_tflops"]}
        self.keep(**{name: facts})
        if on_gpu:
            kinds, longest = kernel_shares(lambda: encoder._pool(pages), len(pages))
            busy = sum(taken for kind, taken in kinds.items() if kind != "copies")
            facts |= {"kernel_ms_a_page": kinds, "longest_kernels_ms_a_page": longest}
            facts["gpu_idle_share_from_files"] = 1 - busy * files["pages_a_second"] / 1000
            facts["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
            self.keep(**{name: facts})


def prepare(given: argparse.Namespace) -> tuple[Path, list[Path]]:
    work = Path(given.work or tempfile.mkdtemp())
    model = write_model(work / ("small" if given.small else "model"), given.small)
    return model, draw_pages(work / "pages", given.pages, given.workers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=384)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="a tiny model, to try this on a CPU")
    parser.add_argument("--eager", action="store_true", help="leave the compiled network out")
    parser.add_argument("--work", help="the folder for model and pages; default: a temporary one")
    parser.add_argument("--prepare", action="store_true", help="make model and pages, measure nothing")
    parser.add_argument("--out", default="encoding.json")
    given = parser.parse_args()
    if given.prepare:
        print(*prepare(given)[:1], flush=True)
    else:
        Benchmark(given).run()


if __name__ == "__main__":
    main()
