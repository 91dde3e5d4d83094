"""Pictures of words say what their page says there; the network learns from them, and is written to ship."""

from __future__ import annotations

import json
import random
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")
pytest.importorskip("onnx", reason="the export needs onnx: pip install 'vsplade[train]'")
pytest.importorskip("wordfreq", reason="words to draw come from wordfreq: pip install 'vsplade[train]'")

from research.reader.options import SpellerOptions
from research.reader.speller import train_spellers
from research.reader.speller_learner import Learner
from research.reader.word_changes import changed, stretched
from research.reader.word_pictures import Line, drawn_pictures, lines_of, real_pictures
from research.reader.word_store import Store
from research.reader.word_supply import chunk
from research.reader.word_texts import printed, word_lists
from research.reader.word_wear import dotted, worn
from vsplade.encode.reader.detect import onnx_session
from vsplade.encode.reader.spelling import LETTERS, Speller
from vsplade.encode.reader.word_crops import HEIGHT
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError

LISTS = ["market", "growth", "order"], ["zembrawick", "xylograph"]
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


@pytest.mark.parametrize("height", [24, 32])
def test_drawn_and_real_pictures_have_labels(face: Path, height: int) -> None:
    rng = random.Random(1)
    drawn = list(islice(drawn_pictures([face], rng, LISTS, height), 60))
    real = list(islice(real_pictures([EXAMPLES / "report.pdf"], 1, rng, height), 60))
    for picture, label in drawn + real:
        assert picture.shape[0] == height
        assert set(label) <= set(LETTERS)
        # a letter is between a tenth of an em and two wide
        assert 1.6 * len(label) < picture.shape[1] * HEIGHT / height < 36 * len(label) + 20
    assert len(drawn) == len(real) == 60


def test_words_come_from_a_file_or_from_wordfreq(tmp_path: Path) -> None:
    path = tmp_path / "words.json"
    path.write_text(json.dumps(LISTS))
    assert word_lists(path) == tuple(LISTS)
    assert all(len(some) > 10_000 for some in word_lists())
    rng = random.Random(0)
    said = {printed(rng, *LISTS) for _ in range(300)}
    assert len(said) > 200
    assert "" not in said


def test_wear_keeps_the_size_and_most_of_the_ink() -> None:
    page = Image.new("L", (400, 120), 255)
    page.paste(0, (100, 40, 300, 80))
    for seed in range(30):
        rng = random.Random(seed)
        grey = np.asarray(worn(dotted(page, 2, 20, rng) if seed % 2 else page, (200, 60), rng, 0.5))
        assert grey.shape == (60, 200)
        ink, paper = grey[25:35, 60:140].mean(), grey[5:10, 60:140].mean()
        assert abs(ink - paper) > 15


def test_pictures_are_kept_and_drawn_with_their_letters() -> None:
    numbers = [4, 9, 11]
    pictures = [(np.full((32, 30 + 20 * n), n, np.uint8), LETTERS[n] * 3) for n in numbers for _ in range(9)]
    store = Store(torch.device("cpu"), 300)
    for kind in ("drawn", "real"):
        store.put(kind, chunk(pictures))
    assert store.came == {"drawn": len(pictures), "real": len(pictures)}
    rng, seen = random.Random(0), set()
    for _ in range(40):
        batch = store.draw(64, 0.5, rng)
        room = batch.pictures.shape[3]
        assert room > max(batch.widths.tolist())
        for picture, letters, width, length in zip(
            batch.pictures, batch.letters, batch.widths, batch.lengths, strict=True
        ):
            number = round(float(picture.max()) * 255)
            seen.add(number)
            assert width == 30 + 20 * number
            assert (picture[0, :, :width] > 0).all()
            assert not picture[0, :, width:].any()
            assert letters[:length].tolist() == [number + 1] * 3
    assert seen == {*numbers}
    assert not chunk([(np.zeros((32, 500), np.uint8), "a")])  # wider than any shelf


def test_the_loss_falls_on_a_few_pictures(face: Path) -> None:
    torch.manual_seed(0)
    store = Store(torch.device("cpu"), 300)
    store.put("drawn", chunk(list(islice(drawn_pictures([face], random.Random(0), LISTS, 32), 12))))
    learner = Learner(["slim"], torch.device("cpu"), 4e-3, None)
    learner.step = 300  # past the warm-up
    rng = random.Random(0)
    losses = [float(learner.learn(store.draw(64, 1.0, rng), 0.0)) for _ in range(14)]
    assert losses[-1] < losses[0] / 2
    x = store.draw(64, 1.0, rng).pictures
    other = changed(stretched(x, torch.ones(len(x))))
    assert other.shape == x.shape
    assert 0 <= float(other.min()) <= float(other.max()) <= 1
    assert not torch.equal(other, x)


def test_one_command_from_faces_to_the_file(face: Path, tmp_path: Path) -> None:
    fonts, pdfs, out = tmp_path / "fonts", tmp_path / "pdfs", tmp_path / "out"
    for folder, files in ((fonts, [face, face]), (pdfs, [EXAMPLES / "report.pdf", EXAMPLES / "table.pdf"])):
        folder.mkdir()
        for number, file in enumerate(files):
            shutil.copy(file, folder / f"{number}{file.suffix}")
    options = SpellerOptions(
        fonts, pdfs, out, ("slim",), seconds=1.0, batch=64, workers=2, first=100, judged=40
    )
    result = train_spellers(options, lambda _: None)
    assert result["slim"]["bytes"] == (out / "slim.onnx").stat().st_size < 1_000_000
    assert (out / "slim.safetensors").is_file()
    assert result["batches"] > 0
    assert {"drawn", "real"} <= set(result["slim"])
    speller = Speller(onnx_session(out / "slim.onnx"), Tokenizer.load())
    assert len(speller.spell([np.zeros((speller.height, 50), np.uint8)])) == 1
    with pytest.raises(InputError, match="two faces"):
        train_spellers(SpellerOptions(fonts, tmp_path, out), lambda _: None)
    with pytest.raises(InputError, match="not huge"):
        train_spellers(SpellerOptions(fonts, pdfs, out, ("huge",)), lambda _: None)
