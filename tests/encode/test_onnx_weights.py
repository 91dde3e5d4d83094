"""Our reader of ONNX constants against the onnx package's own, and on damaged files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vsplade.encode.onnx_weights import initializers
from vsplade.encode.reader import MODEL
from vsplade.errors import InputError


def test_every_kind_of_tensor(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    arrays = {
        "floats": rng.normal(size=(3, 4)).astype(np.float32),
        "bytes": rng.integers(-128, 127, (2, 3, 5)).astype(np.int8),
        "whole": np.array([-5, 7, 1 << 40], np.int64),
        "half": rng.normal(size=7).astype(np.float16),
        "one": np.array(-3, np.int32),
        "none": np.zeros((0, 4), np.float32),
    }
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in arrays.items()]
    tensors.append(onnx.helper.make_tensor("listed", onnx.TensorProto.INT8, [3], [-1, 0, 100]))
    arrays["listed"] = np.array([-1, 0, 100], np.int8)
    graph = onnx.helper.make_graph([], "g", [], [], tensors)
    file = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph), str(file))
    found = initializers(file)
    assert found.keys() == arrays.keys()
    for name, value in arrays.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("part", ["trunk", "head"])
def test_the_packaged_model(part: str) -> None:
    onnx = pytest.importorskip("onnx")
    file = MODEL / f"{part}.onnx"
    expected = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(str(file)).graph.initializer}
    found = initializers(file)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], value) for name, value in expected.items())


def test_damaged_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "cut.onnx"
    file.write_bytes((MODEL / "head.onnx").read_bytes()[:5000])
    with pytest.raises(InputError, match=r"cut\.onnx is damaged"):
        initializers(file)
