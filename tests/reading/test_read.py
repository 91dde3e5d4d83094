"""Pages as text: words in reading order at their places, as text, JSON, hOCR and a searchable PDF."""

from __future__ import annotations

import errno
import json
import shutil
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pypdfium2 as pdfium
import pytest
from PIL import Image, ImageDraw, ImageFont

import vsplade
from vsplade.cli import run
from vsplade.errors import InputError, PageError
from vsplade.pages.pdf import save_pdf
from vsplade.pages.viewer import LayerWord, shared_viewer
from vsplade.reading.hocr import to_hocr
from vsplade.reading.page_reading import PageReading, ReadBlock, ReadLine, ReadWord
from vsplade.types import Box

EXAMPLES = Path(__file__).parents[2] / "examples"
LEFT = ["the river runs south", "through green valleys", "until it meets the sea"]
RIGHT = ["every summer visitors", "walk along the water", "and sleep in old houses"]


def columns(size: tuple[int, int] = (1000, 700)) -> Image.Image:
    """Two columns of prose below a heading."""
    image = Image.new("L", size, 255)
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(26)
    pen.text((60, 60), "annual report of the harbour", fill=0, font=ImageFont.load_default(44))
    for left, lines in ((60, LEFT), (560, RIGHT)):
        for number, line in enumerate(lines):
            pen.text((left, 200 + 36 * number), line, fill=0, font=font)
    return image


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("read") / "columns.png"
    columns().save(path)
    return path


@pytest.fixture(scope="module")
def reading(picture: Path) -> PageReading:
    (page,) = vsplade.read(picture)
    return page


def test_columns_are_read_one_after_the_other(reading: PageReading) -> None:
    assert reading.text.split() == " ".join(["annual report of the harbour", *LEFT, *RIGHT]).split()
    assert [line.text for line in reading.lines()] == ["annual report of the harbour", *LEFT, *RIGHT]
    assert len(reading.blocks) == 3


def test_words_lie_on_their_ink(reading: PageReading) -> None:
    image = columns()
    for word in reading.words():
        sides = (word.box.left * 1000, word.box.top * 700, word.box.right * 1000, word.box.bottom * 700)
        ink = image.crop(tuple(map(round, sides))).point(lambda level: 255 * (level < 128)).getbbox()
        assert ink is not None, word
        assert ink[2] - ink[0] > 0.8 * (sides[2] - sides[0]), f"{word} is wider than its ink"
    for one, other in pairwise(list(reading.lines())[1].words):
        assert one.box.right <= other.box.left + 0.005


def test_a_table_is_read_row_by_row() -> None:
    (page,) = vsplade.read(EXAMPLES / "table.pdf")
    rows = [line.text for line in page.lines()]
    assert "1 march 05 12 4 3 11 26 0 7" in rows
    assert sum(row[0].isdigit() and " march " in row and len(row.split()) > 5 for row in rows) > 20


def test_a_pdf_of_pictures_becomes_searchable_and_looks_the_same(tmp_path: Path) -> None:
    readings = list(vsplade.read(EXAMPLES / "scan.pdf"))
    output = tmp_path / "out.pdf"
    vsplade.write_searchable_pdf(readings, output)
    before, after = pdfium.PdfDocument(EXAMPLES / "scan.pdf"), pdfium.PdfDocument(output)
    assert len(after) == len(before) == len(readings)
    for number, page in enumerate(readings, 1):
        same = [document[number - 1].render(scale=1).to_pil().tobytes() for document in (before, after)]
        assert same[0] == same[1]
        assert not shared_viewer().view(str(EXAMPLES / "scan.pdf"), number, 0, words=True).words
        found = shared_viewer().view(str(output), number, 0, words=True).words
        assert_same_places(list(page.words()), found)


def assert_same_places(read: list[ReadWord], found: tuple[LayerWord, ...]) -> None:
    """Every word that was read can be selected where it was read, and the order is the same."""
    assert [word.text for word in found] == [word.text for word in read]
    for one, other in zip(read, found, strict=True):
        assert other.box.left == pytest.approx(one.box.left, abs=0.02)
        assert other.box.right == pytest.approx(one.box.right, abs=0.02)
        assert one.box.top - 0.01 <= (other.box.top + other.box.bottom) / 2 <= one.box.bottom + 0.01


@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_text_of_a_turned_picture_lies_on_its_words(tmp_path: Path, quarters: int) -> None:
    path, output = tmp_path / "turned.png", tmp_path / "turned.pdf"
    image = columns().rotate(90 * quarters, expand=True)
    image.save(path)
    (page,) = vsplade.read(path)
    assert page.quarters == (4 - quarters) % 4
    assert page.text.split()[:3] == ["annual", "report", "of"]
    vsplade.write_searchable_pdf([page], output)
    viewed = shared_viewer().view(str(output), 1, 0, words=True)
    harbour = next(word.box for word in page.words() if word.text == "harbour")
    found = next(word.box for word in viewed.words if word.text == "harbour")
    assert (found.left + found.right) / 2 == pytest.approx((harbour.left + harbour.right) / 2, abs=0.02)
    assert (found.top + found.bottom) / 2 == pytest.approx((harbour.top + harbour.bottom) / 2, abs=0.02)
    assert (found.right - found.left > found.bottom - found.top) == (
        harbour.right - harbour.left > harbour.bottom - harbour.top
    )


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_text_lies_on_the_words_of_a_page_that_the_pdf_itself_turns(tmp_path: Path, turn: int) -> None:
    source, output = tmp_path / "in.pdf", tmp_path / "out.pdf"
    document = pdfium.PdfDocument(EXAMPLES / "scan.pdf")
    page = document[0]
    page.set_rotation(turn)
    left, bottom, right, top = page.get_mediabox()
    page.set_cropbox(left + 10, bottom + 20, right, top)
    document.save(source)
    readings = list(vsplade.read(source))
    vsplade.write_searchable_pdf(readings, output)
    read = [word for word in readings[0].words() if len(word.text) > 5]
    viewed = shared_viewer().view(str(output), 1, 0, words=True).words
    assert read
    for word in read:
        assert any(
            found.text == word.text
            and abs(found.box.left + found.box.right - word.box.left - word.box.right) < 0.04
            and abs(found.box.top + found.box.bottom - word.box.top - word.box.bottom) < 0.04
            for found in viewed
        ), word


def test_a_page_with_a_text_layer_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.pdf"
    assert run(["read", str(EXAMPLES / "report.pdf"), "--format", "pdf", "-o", str(output), "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["read"] == 0
    texts = [
        pdfium.PdfDocument(path)[0].get_textpage().get_text_range()
        for path in (EXAMPLES / "report.pdf", output)
    ]
    assert texts[0] == texts[1]
    assert list(tmp_path.iterdir()) == [output], "nothing else is left behind"


def test_the_text_layer_on_request() -> None:
    (page, *_) = vsplade.read(EXAMPLES / "report.pdf", text_layer=True)
    assert page.from_text_layer
    layer = pdfium.PdfDocument(EXAMPLES / "report.pdf")[0].get_textpage().get_text_range()
    assert page.text.split() == layer.split()


def test_hocr_is_xml_with_words_inside_of_lines_inside_of_the_page(reading: PageReading) -> None:
    root = ElementTree.fromstring("".join(to_hocr([reading])))
    space = "{http://www.w3.org/1999/xhtml}"
    (page,) = [each for each in root.iter(f"{space}div") if each.get("class") == "ocr_page"]
    assert "bbox 0 0 1000 700" in str(page.get("title"))
    words = [each for each in root.iter(f"{space}span") if each.get("class") == "ocrx_word"]
    assert [word.text for word in words] == [word.text for word in reading.words()]
    identities = [each.get("id") for each in root.iter() if each.get("id")]
    assert len(identities) == len(set(identities))
    for line in root.iter(f"{space}span"):
        if line.get("class") != "ocr_line":
            continue
        outer = bbox(line)
        for word in line:
            inner = bbox(word)
            assert outer[0] <= inner[0] < inner[2] <= outer[2]
            assert outer[1] <= inner[1] < inner[3] <= outer[3]


def bbox(element: ElementTree.Element) -> list[int]:
    return [int(side) for side in str(element.get("title")).split(";")[0].split()[1:]]


def test_hocr_holds_any_name_and_any_letter() -> None:
    word = ReadWord("a<b>&\x01'\"", Box(0, 0, 1, 1), 0.5)
    page = PageReading('it\'s "<odd>" \\.png', 1, 1, 10, 10, (ReadBlock((ReadLine((word,)),)),))
    root = ElementTree.fromstring("".join(to_hocr([page])))
    assert "a<b>&\ufffd'\"" in "".join(root.itertext())


def test_the_command_prints_text_and_json(picture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["read", str(picture)]) == 0
    assert LEFT[0] in capsys.readouterr().out.splitlines()
    assert run(["read", str(picture), "--json"]) == 0
    (page,) = json.loads(capsys.readouterr().out)["pages"]
    words = [word for block in page["blocks"] for line in block["lines"] for word in line["words"]]
    assert " ".join(word["text"] for word in words) == " ".join(page["text"].split())
    assert all(0 < word["certainty"] <= 1 for word in words)


def test_the_command_writes_files(picture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "page.hocr"
    assert run(["read", str(picture), "--format", "hocr", "-o", str(output)]) == 0
    assert ElementTree.parse(output)
    assert run(["read", str(picture), "--format", "pdf"]) == 2
    assert "-o out.pdf" in capsys.readouterr().err


def test_a_broken_file_costs_only_itself(
    picture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    assert run(["read", str(broken), str(picture), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert [failure["path"] for failure in answer["failures"]] == [str(broken)]
    assert len(answer["pages"]) == 1
    with pytest.raises(PageError, match=r"broken\.png"):
        list(vsplade.read(broken))


def test_the_file_itself_is_never_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "scan.pdf"
    source.write_bytes((EXAMPLES / "scan.pdf").read_bytes())
    readings = list(vsplade.read(source))
    with pytest.raises(InputError, match="overwritten"):
        vsplade.write_searchable_pdf(readings, source)
    assert source.read_bytes() == (EXAMPLES / "scan.pdf").read_bytes()


def test_a_file_that_goes_away_leaves_no_half_pdf(tmp_path: Path) -> None:
    source = tmp_path / "scan.pdf"
    source.write_bytes((EXAMPLES / "scan.pdf").read_bytes())
    readings = list(vsplade.read(source))
    source.unlink()
    with pytest.raises(PageError, match="No such file"):
        vsplade.write_searchable_pdf(readings, tmp_path / "out.pdf")
    assert list(tmp_path.iterdir()) == []


def test_a_command_never_writes_over_what_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor over a document that the shell made the output of, as in ``-o *.pdf``."""
    monkeypatch.chdir(tmp_path)
    for name in ("scan.pdf", "table.pdf", "page.html"):
        (tmp_path / name).write_bytes((EXAMPLES / "scan.pdf").read_bytes())
    (tmp_path / "link.txt").symlink_to("scan.pdf")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for typed in (
        "read scan.pdf -o scan.pdf",
        "read scan.pdf --format hocr -o scan.pdf",
        "read table.pdf -o scan.pdf",
        *(["read . --format hocr -o page.html"] if shutil.which("soffice") else []),  # else no document
        "read scan.pdf -o link.txt",
        "read scan.pdf table.pdf --format pdf -o out.pdf",
        "read scan.pdf --format pdf -o scan.pdf",
        "encode scan.pdf --output scan.pdf",
        "encode table.pdf --output scan.pdf",
        "encode scan.pdf --output link.txt",
        "inspect scan.pdf --picture scan.pdf",
    ):
        assert run(typed.split()) == 2, typed
        told = capsys.readouterr().err
        assert "Choose another name" in told or "Make a folder" in told, typed
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before, typed


def test_files_of_one_name_become_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in "abcd":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "scan.pdf").write_bytes((EXAMPLES / "table.pdf").read_bytes())
    out = tmp_path / "out"
    out.mkdir()
    assert (
        run(["read", *(str(tmp_path / folder) for folder in "abcd"), "--format", "pdf", "-o", str(out)]) == 0
    )
    assert len(list(out.iterdir())) == 4


def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PageError, match="No space left"):
        save_pdf(pdfium.PdfDocument(EXAMPLES / "scan.pdf"), "/dev/full")
    output = tmp_path / "page.txt"
    output.write_text("before")

    def full(*args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("vsplade.store.durable._write_all", full)
    assert run(["read", str(EXAMPLES / "scan.pdf"), "-o", str(output)]) == 2
    assert "page.txt: could not be written (No space left on device)" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]


def test_a_device_is_written_to_and_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").write_text("before")
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("link", "null"):
        assert run(["read", str(EXAMPLES / "table.pdf"), "--text-layer", "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).is_symlink()
    assert "Tide" in (tmp_path / "real").read_text()
    assert Path("/dev/null").is_char_device()
