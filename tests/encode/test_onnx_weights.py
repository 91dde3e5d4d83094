"""The reader's 8-bit weights unpacked, and damaged files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from vsplade.encode.gpu.onnx_weights import initializers, unpacked
from vsplade.encode.reader.reader_queries import MODEL
from vsplade.errors import InputError


@pytest.mark.parametrize("part", ["trunk", "head"])
def test_a_weight_is_its_whole_number_times_the_scale_of_its_channel(part: str) -> None:
    held, found = initializers(MODEL / f"{part}.onnx"), unpacked(MODEL / f"{part}.onnx")
    matrices = {
        name.removesuffix("_quantized")
        for name, value in held.items()
        if name.endswith("_quantized") and value.dtype == np.int8
    }
    assert matrices <= found.keys()
    for name in matrices:
        plain = found[name].reshape(len(found[name]), -1)
        scale = np.asarray(held.get(f"{name}_scale", held.get(f"{name}_quantized_scale")), np.float32)
        steps = plain / scale.reshape(-1, 1)
        np.testing.assert_allclose(steps, np.round(steps), atol=1e-3)
        assert np.abs(steps).max() <= 128


def test_damaged_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "cut.onnx"
    file.write_bytes((MODEL / "head.onnx").read_bytes()[:5000])
    with pytest.raises(InputError, match=r"cut\.onnx is damaged"):
        initializers(file)
