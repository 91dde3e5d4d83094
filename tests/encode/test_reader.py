"""The model that ships, on pages it has never seen: what people search for must be found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont, ImageOps

from vsplade.encode import load_encoder
from vsplade.encode.reader import detect, ink_windows
from vsplade.encode.reader.detect import type_size
from vsplade.encode.reader.ink_windows import CELL
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.reader.reader_queries import MODEL, ReaderOptions
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.types import Page

WORDS = "The quarterly report says that harbour traffic rose while the lighthouse keeper counted every ship"

PROSE = f"""{WORDS}. In winter the village school closed early, because snow covered the narrow road between
the church and the station. Farmers sold wheat, barley and wool at the market, and a young doctor wrote long
letters about music, gardens and the history of glass"""


@pytest.fixture(scope="module")
def reader() -> ReaderEncoder:
    return ReaderEncoder(ReaderOptions())


def sheet(
    text: str, size: float = 22, width: int = 900, height: int = 300, ink: int = 0, paper: int = 255
) -> Image.Image:
    """Text set line by line in Pillow's own font."""
    image = Image.new("L", (width, height), paper)
    font = ImageFont.load_default(size)
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if font.getlength(longer) > width - 80:
            lines.append(line)
            longer = word
        line = longer
    ImageDraw.Draw(image).multiline_text(
        (40, 40), "\n".join([*lines, line]), fill=ink, font=font, spacing=size * 0.4
    )
    return image


def page(image: Image.Image, id: str = "p") -> Page:
    return Page(id=id, image=image, path=f"{id}.png")


def share_read(reader: ReaderEncoder, image: Image.Image, text: str) -> float:
    """Share of the text's terms that the vector holds."""
    (vector,) = reader.encode_pages([page(image)])
    wanted = set(Tokenizer.load().encode(text))
    return len(wanted & set(vector.terms.tolist())) / len(wanted)


@pytest.mark.parametrize("size", [8, 10, 12, 16, 24, 36, 56, 90, 120])
def test_reads_type_of_every_size(reader: ReaderEncoder, size: int) -> None:
    """At the size that pages are read at, without any detail to spare."""
    text = PROSE if size < 30 else WORDS if size < 50 else "harbour traffic report lighthouse"
    image = sheet(text, size, width=reader.reading_edge, height=700 if size < 80 else 1000)
    assert share_read(reader, image, text) >= (0.93 if text is PROSE else 0.85)


@pytest.mark.parametrize("size", [6, 7, 8])
def test_tiny_type_is_read_in_more_detail(reader: ReaderEncoder, size: int) -> None:
    times = reader.longest_edge / reader.reading_edge
    image = sheet(WORDS, size * times, width=reader.longest_edge, height=900)
    shrunk = image.resize((reader.reading_edge, round(900 / times)), Image.Resampling.LANCZOS)
    assert share_read(reader, image, WORDS) >= 0.85
    assert share_read(reader, shrunk, WORDS) >= (0.3 if size == 6 else 0.6)


def test_words_come_in_reading_order(reader: ReaderEncoder) -> None:
    """Line by line, and column by column."""
    left, right = sheet(WORDS, 20, 420, 500), sheet("Farmers sold wheat and wool at the market", 20, 420, 500)
    picture = Image.new("L", (900, 500), 255)
    picture.paste(left, (0, 0))
    picture.paste(right, (460, 0))
    texts = reader.page_text.texts(reader.read(picture))
    asked = ["quarterly", "report", "traffic", "lighthouse", "counted", "farmers", "wheat", "market"]
    assert [text for text in texts if text in asked] == asked


def test_pages_are_asked_for_while_the_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, asked = ReaderEncoder(ReaderOptions(threads=1, meaning=False)), Event()
    prepare = reader._prepare

    def late() -> None:
        assert asked.wait(60), "nobody renders pages before the model is there"
        prepare()

    def pages() -> Iterator[Page]:
        asked.set()
        yield page(sheet(WORDS))

    monkeypatch.setattr(reader, "_prepare", late)
    assert len(list(reader.encode_pages(pages()))) == 1


def test_a_model_that_cannot_be_loaded_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = ReaderEncoder(ReaderOptions(meaning=False))
    monkeypatch.setattr(reader, "check_weights", lambda: 1 / 0)
    for pages in ([], [page(sheet(WORDS))]):
        with pytest.raises(ZeroDivisionError):
            list(reader.encode_pages(pages))


def test_small_type_on_small_copies_is_left_to_the_page(reader: ReaderEncoder) -> None:
    cells = reader.read(sheet(WORDS, 16, width=1000, height=600))
    on_copies = cells.pixel[:, 0] > 1.5 * cells.pixel[:, 0].min()
    assert (~on_copies).sum() >= len(WORDS.split())
    assert (cells.em[on_copies] > 6.9).all()
    large = reader.read(sheet("harbour traffic", 60, width=1000, height=600))
    assert (large.pixel[:, 0] > 1.5 / 1000).sum() >= 2


def test_what_was_read_on_the_page_is_blank_on_its_copies(
    reader: ReaderEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = sheet(WORDS, 16, width=1000, height=800)
    image.paste(sheet("lighthouse", 60, width=500, height=150), (400, 500))
    seen: dict[int, float] = {}  # width of the copy -> share of it that was looked at
    windows = ink_windows.windows

    def watched(
        grey: np.ndarray, known: np.ndarray | None = None
    ) -> tuple[list[ink_windows.Rectangle], np.ndarray]:
        shown, owner = windows(grey, known)
        area = sum((bottom - top) * (right - left) for top, left, bottom, right in shown)
        seen[grey.shape[1]] = area * CELL**2 / grey.size
        return shown, owner

    monkeypatch.setattr(ink_windows, "windows", watched)
    (vector,) = reader.encode_pages([page(image)])
    less = dict(seen)
    monkeypatch.setattr(detect.CellReader, "_known", lambda *_: None)
    (again,) = reader.encode_pages([page(image)])
    large, *small = sorted(seen, reverse=True)
    assert less[large] == seen[large]
    assert all(0 < less[width] < 0.6 * seen[width] for width in small)  # the heading is looked at
    assert {"lighthouse"} <= {reader.vocabulary.token(term) for term in vector.top(20).terms}
    there = set(Tokenizer.load().encode(WORDS))
    assert there & set(vector.terms.tolist()) == there & set(again.terms.tolist())
    assert len(vector) <= len(again)  # what is not looked at is not misread


def test_nothing_read_leaves_copies_as_they_are(reader: ReaderEncoder) -> None:
    words = reader.cells.find_words(Image.new("L", (640, 480), 255))
    assert not len(words.place)
    known = reader.cells._known(words, np.zeros(0, np.float32), (256, 192))
    assert known.shape == (24, 32)
    assert not known.any()


def test_size_before_naming_is_that_of_the_head(reader: ReaderEncoder) -> None:
    words = reader.cells.find_words(sheet(WORDS))
    np.testing.assert_allclose(reader.cells.type_sizes(words), reader.cells.name([words]).em, rtol=0.02)


def test_size_of_type_is_that_of_most_words() -> None:
    em, weight = np.array([30, 7, 8, 9], np.float32), np.array([4, 1, 2, 3], np.float32)
    assert type_size(em, weight) == 9
    assert type_size(em, weight / 10) == np.inf
    assert type_size(em[:0], weight[:0]) == np.inf


def test_reads_light_on_dark_and_low_contrast(reader: ReaderEncoder) -> None:
    assert share_read(reader, sheet(WORDS, ink=240, paper=40), WORDS) >= 0.85
    assert share_read(reader, sheet(WORDS, ink=110, paper=200), WORDS) >= 0.85


def form() -> tuple[Image.Image, dict[str, tuple[int, int]]]:
    """Words far apart on a ruled sheet, and where each has its middle."""
    image = Image.new("L", (1024, 768), 255)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(20)
    draw.rectangle((20, 20, 1000, 740), outline=0, width=2)
    draw.line((20, 400, 1000, 400), fill=0, width=2)
    middles = {"harbour": (117, 90), "lighthouse": (810, 133), "traffic": (431, 377), "report": (702, 655)}
    for word, middle in middles.items():
        draw.text(middle, word, fill=0, font=font, anchor="mm")
    return image, middles


def test_words_of_every_window_stand_where_they_are_on_the_page(reader: ReaderEncoder) -> None:
    image, middles = form()
    shown, _ = ink_windows.windows(np.asarray(image))
    assert len(shown) >= len(middles)
    cells = reader.cells.name([reader.cells.find_words(image)])
    for word, middle in middles.items():
        (term,) = Tokenizer.load().encode(word)
        (row,) = np.flatnonzero((cells.term[:, 0] == term) & (cells.probability[:, 0] > 0.5))
        assert np.abs(cells.middle[row] * image.size - middle).max() <= CELL


@pytest.mark.parametrize("size", [12, 18])
def test_windows_are_read_as_the_whole_page_is(
    reader: ReaderEncoder, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    image = sheet(WORDS, size, height=600)
    (cut,) = reader.encode_pages([page(image)])
    monkeypatch.setattr(ink_windows, "windows", whole_page)
    (whole,) = reader.encode_pages([page(image)])
    vectors = np.zeros((2, len(reader.vocabulary)), np.float32)
    vectors[0, cut.terms], vectors[1, whole.terms] = cut.weights, whole.weights
    cosine = vectors[0] @ vectors[1] / np.linalg.norm(vectors, axis=1).prod()
    assert 0.97 <= cosine < 1  # other surroundings, other rounding


def whole_page(grey: np.ndarray, known: object = None) -> tuple[list[ink_windows.Rectangle], np.ndarray]:
    rows, columns = grey.shape[0] // CELL, grey.shape[1] // CELL
    return [(0, 0, rows, columns)], np.zeros((rows, columns), np.int32)


def test_reads_colour(reader: ReaderEncoder) -> None:
    image = ImageOps.colorize(sheet(WORDS), black=(150, 20, 40), white=(235, 240, 200))
    assert share_read(reader, image, WORDS) >= 0.85


@pytest.mark.parametrize("angle", [-2.5, 1.5, 3.0])
def test_reads_crooked_scans(reader: ReaderEncoder, angle: float) -> None:
    image = sheet(WORDS).rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    assert share_read(reader, image, WORDS) >= 0.8


def test_reads_a_photocopy(reader: ReaderEncoder) -> None:
    grey = np.asarray(sheet(WORDS, 24)).astype(np.float32)
    noisy = grey + np.random.default_rng(0).normal(0, 40, grey.shape)
    copy = Image.fromarray(np.where(noisy > 120, 255, 0).astype(np.uint8))
    assert share_read(reader, copy, WORDS) >= 0.7


@pytest.mark.parametrize(
    "text", ["H-6927", "Invoice 4711 of 12/03/1987", "HEPA filter", "$1,250.75", "2,048 units", "IEEE 802"]
)
def test_reads_what_people_search_for(reader: ReaderEncoder, text: str) -> None:
    assert share_read(reader, sheet(f"{text} and {text}", 24), text) >= 0.75


def test_reads_rare_names(reader: ReaderEncoder) -> None:
    names = "Kowalczyk Szymborska Oyelaran Schlumberger hepatotoxicity acetylcysteine toxicology STANAG"
    assert share_read(reader, sheet(names, 20, width=1200), names) >= 0.85


def test_small_pictures_are_enlarged(reader: ReaderEncoder) -> None:
    assert share_read(reader, sheet(WORDS, 6.5, width=600, height=300), WORDS) > 0.6


def test_case_does_not_matter(reader: ReaderEncoder) -> None:
    assert share_read(reader, sheet(WORDS.upper(), 20), WORDS) >= 0.85


def test_shapes_that_are_not_pages(reader: ReaderEncoder) -> None:
    for size in ((1, 1), (3, 900), (900, 3), (17, 33), (2000, 40)):
        (vector,) = reader.encode_pages([page(Image.new("L", size, 255))])
        assert len(vector) == 0


def test_vectors_are_well_formed_and_in_order(reader: ReaderEncoder) -> None:
    texts = ["harbour", "lighthouse", "traffic", "report", "keeper"]
    pages = [page(sheet(f"{text} {text} {text}", 30), text) for text in texts]
    vectors = list(reader.encode_pages(pages))
    again = list(ReaderEncoder(ReaderOptions(threads=1)).encode_pages(pages))
    for text, vector, same in zip(texts, vectors, again, strict=True):
        (term,) = Tokenizer.load().encode(text)
        assert term in vector.terms
        assert (np.diff(vector.terms.astype(np.int64)) > 0).all()
        assert ((vector.weights > 0) & (vector.weights <= 1)).all()
        assert np.array_equal(vector.terms, same.terms)
        assert np.allclose(vector.weights, same.weights, atol=1e-5)


def test_pages_are_asked_for_as_they_are_needed(reader: ReaderEncoder) -> None:
    asked = 0

    def endless():  # type: ignore[no-untyped-def]
        nonlocal asked
        while True:
            asked += 1
            yield page(sheet("harbour"))

    vectors = reader.encode_pages(endless())
    next(vectors)
    assert asked <= 16


def test_it_shows_where(reader: ReaderEncoder) -> None:
    image = Image.new("L", (1000, 1000), 255)
    font = ImageFont.load_default(28)
    ImageDraw.Draw(image).text((700, 800), "lighthouse", fill=0, font=font)
    ImageDraw.Draw(image).text((60, 90), "harbour", fill=0, font=font)
    vector, boxes = reader.encode_with_places(page(image))
    places = {reader.vocabulary.token(int(term)): box for term, box in zip(vector.terms, boxes, strict=True)}
    for word, (x, y) in {"lighthouse": (0.765, 0.815), "harbour": (0.11, 0.105)}.items():
        box = places[word]
        assert box.left - 0.03 < x < box.right + 0.03
        assert box.top - 0.03 < y < box.bottom + 0.03


def test_a_box_is_the_word_on_paper(reader: ReaderEncoder) -> None:
    image = sheet("harbour lighthouse", 24)
    vector, boxes = reader.encode_with_places(page(image))
    (term,) = Tokenizer.load().encode("lighthouse")
    box = boxes[vector.terms.tolist().index(term)]
    font = ImageFont.load_default(24)
    left, _, right, _ = ImageDraw.Draw(image).textbbox((40, 40), "harbour lighthouse", font=font)
    start = left + font.getlength("harbour ")
    assert box.left * image.width == pytest.approx(start, abs=4)
    assert box.right * image.width == pytest.approx(right, abs=4)
    assert 18 < (box.bottom - box.top) * image.height < 36


def test_efficient_is_sparser_and_another_model_to_the_index(reader: ReaderEncoder) -> None:
    efficient = load_encoder("reader:point=efficient")
    (full,), (few,) = (list(e.encode_pages([page(sheet(WORDS))])) for e in (reader, efficient))
    assert 0 < len(few) <= len(full)
    assert efficient.fingerprint != reader.fingerprint
    assert load_encoder(efficient.name).fingerprint == efficient.fingerprint


def test_a_query_needs_no_network() -> None:
    code = (
        "import sys; from vsplade.encode import load_encoder; e = load_encoder('reader');"
        "v = e.encode_query('where is the harbour lighthouse'); assert len(v) > 1, v;"
        "print(sorted(m for m in sys.modules if m in ('torch', 'onnxruntime', 'numba')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def query_weights(reader: ReaderEncoder, text: str) -> dict[str, float]:
    vector = reader.encode_query(text)
    return {reader.vocabulary.token(int(t)): w for t, w in zip(vector.terms, vector.weights, strict=True)}


def test_rare_words_weigh_more_in_a_query(reader: ReaderEncoder) -> None:
    weights = query_weights(reader, "what is the total of the lighthouse")
    assert weights["lighthouse"] > 3 * weights["total"] > 0
    assert len(reader.encode_query("")) == len(reader.encode_query("?!")) == 0


def test_words_without_weight_count_only_where_there_is_nothing_else(reader: ReaderEncoder) -> None:
    assert "the" not in query_weights(reader, "what is the lighthouse")
    assert {"what", "the"} <= query_weights(reader, "what the").keys()


def test_common_words_are_kept_on_pages_but_not_at_the_efficient_point(reader: ReaderEncoder) -> None:
    efficient = load_encoder("reader:point=efficient")
    assert share_read(reader, sheet("the lighthouse and the harbour"), "the and") == 1
    (few,) = efficient.encode_pages([page(sheet("the lighthouse and the harbour"))])
    assert not {"the", "and"} & {Tokenizer.load().token(int(term)) for term in few.terms}


def test_the_model_is_small() -> None:
    assert sum(path.stat().st_size for path in MODEL.iterdir()) < 30e6


@pytest.mark.parametrize("option", ["threads=-4", "longest_edge=-4", "longest_edge=20", "longest_edge=90000"])
def test_numbers_out_of_range_are_refused(option: str) -> None:
    with pytest.raises(InputError, match=option.split("=")[0]):
        load_encoder(f"reader:{option}")


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the file that onnxruntime keeps on Linux")
def test_reading_tells_nobody(tmp_path: Path) -> None:
    """Builds of onnxruntime that send how they are used keep a file in the home folder."""
    script = "from vsplade.encode import load_encoder; load_encoder('reader').cells"
    places = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    inherited = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", script], env=inherited | places, check=True, timeout=60)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_wrong_settings_are_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="quality"):
        load_encoder("reader:point=fast")
    with pytest.raises(InputError, match=r"trunk\.onnx"):
        load_encoder(f"reader:model={tmp_path}")
    copy = tmp_path / "other"
    shutil.copytree(MODEL, copy)
    config = json.loads((copy / "reader.json").read_text())
    (copy / "reader.json").write_text(json.dumps({**config, "vocabulary": "0" * 16}))
    with pytest.raises(InputError, match="another vocabulary"):
        load_encoder(f"reader:model={copy}")
