"""Pictures of words say what their page says there; the network learns from them, and is written to ship."""

from __future__ import annotations

import random
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")
pytest.importorskip("onnx", reason="the export needs onnx: pip install 'vsplade[train]'")
pytest.importorskip("wordfreq", reason="words to draw come from wordfreq: pip install 'vsplade[train]'")

from research.reader.options import SpellerOptions
from research.reader.speller import Pictures, SpellerNetwork, loss_of, train_speller, varied
from research.reader.word_pictures import Line, drawn_pictures, lines_of, real_pictures
from vsplade.encode.reader.spelling import LETTERS
from vsplade.encode.reader.word_crops import HEIGHT
from vsplade.errors import InputError

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_line_says_what_stands_between_two_places() -> None:
    left = np.arange(9.0) * 10
    line = Line("KX-4 plus", left, left + 10, 20, 15)
    assert line.says(0, 40) == "kx-4"
    assert line.says(0, 90) == "kx-4 plus"
    assert line.says(0, 35) is None  # through the 4
    assert line.says(40, 50) is None  # nothing


def test_lines_of_a_text_layer() -> None:
    row = [
        ("a", 0.0, 8.0, 20.0, 10.0),
        ("b", 9.0, 16.0, 20.5, 10.0),
        (" ", 0, 0, 0, 0),
        ("c", 30, 38, 20, 10),
    ]
    below = [(char, left, right, y + 14, em) for char, left, right, y, em in row if char != " "]
    assert [line.text for line in lines_of(iter([*row, *below]))] == ["ab c", "abc"]


def test_drawn_and_real_pictures_have_labels(face: Path) -> None:
    rng = random.Random(1)
    drawn = list(islice(drawn_pictures([face], rng), 60))
    real = list(islice(real_pictures([EXAMPLES / "report.pdf"], 1, rng), 60))
    for picture, label in drawn + real:
        assert picture.shape[0] == HEIGHT
        assert set(label) <= set(LETTERS)
        # a letter is between a tenth of an em and two wide
        assert 1.6 * len(label) < picture.shape[1] < 36 * len(label) + 20
    assert len(drawn) == len(real) == 60


def test_the_loss_falls_on_a_few_pictures(face: Path) -> None:
    torch.manual_seed(0)
    pictures = Pictures.of(islice(drawn_pictures([face], random.Random(0)), 16))
    x, widths, labels = pictures.batch(range(16))
    network = SpellerNetwork()
    optimizer = torch.optim.AdamW(network.parameters(), 4e-3)
    losses = []
    for _ in range(12):
        loss = loss_of(network(x), widths, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    other, wider = varied(x)
    assert other.shape == x.shape
    assert len(wider) == 16


def test_one_command_from_faces_to_the_file(face: Path, tmp_path: Path) -> None:
    fonts, pdfs = tmp_path / "fonts", tmp_path / "pdfs"
    for folder, files in ((fonts, [face, face]), (pdfs, [EXAMPLES / "report.pdf", EXAMPLES / "table.pdf"])):
        folder.mkdir()
        for number, file in enumerate(files):
            shutil.copy(file, folder / f"{number}{file.suffix}")
    out = tmp_path / "speller.onnx"
    options = SpellerOptions(fonts, pdfs, out, drawn=140, real=60, pages=1, seconds=1.0)
    result = train_speller(options, lambda _: None)
    assert result["bytes"] == out.stat().st_size < 1_000_000
    assert result["batches"] > 0
    assert set(result["right"]) == {"drawn", "real"}
    with pytest.raises(InputError, match="two faces"):
        train_speller(SpellerOptions(fonts, tmp_path, out), lambda _: None)
