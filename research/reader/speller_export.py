"""A trained speller to the file that ships, in 8 bits."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from research.reader.speller_network import Chances, SpellerNetwork

CALIBRATION = 512
"""Pictures that the 8-bit ranges are measured on."""


def padded(pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """As one batch, with paper beside the narrower ones."""
    height, widest = len(pictures[0]), max(picture.shape[1] for picture in pictures)
    batch = np.zeros((len(pictures), 1, height, -(-(widest + 4) // 4) * 4), np.uint8)
    for row, picture in enumerate(pictures):
        batch[row, 0, :, : picture.shape[1]] = picture
    return batch * np.float32(1 / 255)


def export_speller(network: SpellerNetwork, pictures: Sequence[NDArray[np.uint8]], out: Path) -> None:
    """In 8 bits; the last convolution and the chances stay exact."""
    shown = sorted(pictures[:CALIBRATION], key=lambda picture: picture.shape[1])
    feeds = [{"pictures": padded(shown[at : at + 16])} for at in range(0, len(shown), 16)]

    class Feeds(CalibrationDataReader):
        def get_next(self) -> dict[str, Any] | None:
            return feeds.pop() if feeds else None

    with tempfile.TemporaryDirectory() as folder:
        exact, ready = Path(folder) / "exact.onnx", Path(folder) / "ready.onnx"
        axes = {"pictures": {0: "words", 3: "width"}, "chances": {0: "words", 2: "frames"}}
        torch.onnx.export(
            Chances(network).eval(), (torch.zeros(2, 1, network.size.height, 64),), str(exact), dynamo=False,
            input_names=["pictures"], output_names=["chances"], dynamic_axes=axes, opset_version=17,
        )  # fmt: skip
        quant_pre_process(str(exact), str(ready), skip_symbolic_shape=True)
        last = [node.name for node in onnx.load(str(ready)).graph.node if node.op_type == "Conv"][-1:]
        quantize_static(
            str(ready), str(out), Feeds(), QuantFormat.QDQ, ["Conv", "Relu", "Add"], per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, nodes_to_exclude=last,
            extra_options={"CalibMovingAverage": True},
        )  # fmt: skip
