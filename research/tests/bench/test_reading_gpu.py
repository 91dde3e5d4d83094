"""The GPU benchmark runs to its end, on the CPU with a network that is next to nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.encode.test_reader import sheet

torch = pytest.importorskip("torch")

from research.bench import reading_gpu
from vsplade.encode import load_encoder
from vsplade.encode.gpu.gpu_reader import TorchReaderEncoder
from vsplade.encode.gpu.network import NetworkConfig, Reader, fold_norms


@pytest.fixture
def benchmark_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """With an encoder that finds a word in every cell and names it at random."""

    def load(name: str) -> Any:
        encoder = load_encoder(name)
        if isinstance(encoder, TorchReaderEncoder):
            torch.manual_seed(0)
            vocabulary = encoder.network.config.vocabulary
            config = NetworkConfig(vocabulary, fine=8, middle=8, coarse=8, hidden=8, rank=8)
            encoder.network = Reader(config).eval()
            fold_norms(encoder.network)
            torch.nn.init.constant_(encoder.network.trunk.word.bias, 3.0)
            encoder.trunk = encoder.network.trunk
        return encoder

    monkeypatch.setattr(reading_gpu, "load_encoder", load)
    return reading_gpu


def test_every_step_gives_a_number(benchmark_module: ModuleType, tmp_path: Path) -> None:
    images = tmp_path / "pages" / "images"
    images.mkdir(parents=True)
    for n, word in enumerate(("harbour", "mountain", "winter")):
        sheet(word, 9, 130, 70).save(images / f"{n}.png")
    options = reading_gpu.ReadingGpuOptions(
        datasets=(tmp_path / "pages",), device="cpu:0", model="", pages=3, seconds=0.01, cpu_pages=2,
        workers=(1,), limit=1e9, batch=2, profile=False, plain=True, output=tmp_path / "out.json",
    )  # fmt: skip
    report = benchmark_module.Report(options)
    report.run()
    found = json.loads(options.output.read_text())
    failed = {name: step for name, step in found.items() if isinstance(step, dict) and "failed" in step}
    assert {name: step for name, step in failed.items() if step["failed"]} == {}
    assert found["pages stages"]["cells_a_page"] > 10
    assert all(ms > 0 for ms in found["pages stages"].values())
    assert found["pages model_only"]["plain"]["pages_per_s"] > 0
    assert found["pages end_to_end 1 workers"]["pages"] == 3
    network = found["pages end_to_end 1 workers"]["network"]
    assert network["calls"] >= 3
    assert network["new_shapes"] <= network["calls"]
    assert found["pages agreement"]["pages"] == 2
    assert found["into_index"]["pages"] == 3


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_processor_time_is_told_by_kind_of_thread(benchmark_module: ModuleType) -> None:
    assert benchmark_module.processor_time()["MainThread"] > 0
