"""Pages of PDFs: the place of every label, against what pdfium says stands there and against the ink."""

from __future__ import annotations

import ctypes
import unicodedata
from pathlib import Path

import numpy as np
import pypdfium2
import pypdfium2.raw as raw
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")

from research.reader.realpages import PagePool, RealPage, read_page, read_pages
from research.reader.scenes import SIZE
from research.reader.targets import contrast
from research.reader.text_layers import page_jobs
from research.reader.words import plain
from vsplade.encode.tokenizer import Tokenizer, letters_of

EXAMPLES = Path(__file__).parents[3] / "examples"
EDGE = 1400
LETTERS = " abcdefghijklmnopqrstuvwxyz0123456789"


def words_of(page: RealPage) -> list[str]:
    tokenizer = Tokenizer.load()
    return [tokenizer.token(int(term)) for term in page.pieces[:, 3] if term >= 0]


@pytest.mark.parametrize("name", ["paper.pdf", "report.pdf", "table.pdf"])
def test_every_label_is_where_pdfium_finds_that_letter(name: str) -> None:
    page = read_page(str(EXAMPLES / name), 0, EDGE)
    assert page is not None
    document = pypdfium2.PdfDocument(str(EXAMPLES / name))
    text = document[0].get_textpage()
    width, height = document[0].get_size()
    scale = EDGE / max(width, height)
    right = 0
    for x, y, em, kind in page.characters:
        at = raw.FPDFText_GetCharIndexAtPos(text, x / scale, height - y / scale, 0.1 * em, 0.3 * em)
        if at < 0:
            continue
        seen = unicodedata.normalize("NFKC", chr(raw.FPDFText_GetUnicode(text, at)))
        expected = LETTERS.find(plain(seen[0])) if plain(seen[0]) != " " else 37
        right += expected == int(kind)
    assert right > 0.97 * len(page.characters)


@pytest.mark.parametrize("name", ["paper.pdf", "report.pdf", "slides.pdf", "table.pdf"])
def test_a_piece_stands_inside_the_box_of_its_word(name: str) -> None:
    """The words' boxes come from the tight character boxes, which the labels do not use."""
    page = read_page(str(EXAMPLES / name), 0, EDGE)
    assert page is not None
    document = pypdfium2.PdfDocument(str(EXAMPLES / name))
    scale = EDGE / max(document[0].get_size())
    boxes = word_boxes(document[0], scale)
    tokenizer, checked = Tokenizer.load(), 0
    for x, y, em, term, *_ in page.pieces:
        token = letters_of(tokenizer.token(int(term)))
        if term < 0 or len(token) < 4:
            continue
        inside = [
            word for word, left, top, right, bottom in boxes
            if left - 1 <= x <= right + 1 and top - 0.4 * em <= y <= bottom + 0.4 * em
        ]  # fmt: skip
        assert any(token in word for word in inside), f"{token} is not at {x:.0f}, {y:.0f}: {inside}"
        checked += 1
    assert checked > 5


def word_boxes(page: pypdfium2.PdfPage, scale: float) -> list[tuple[str, float, float, float, float]]:
    text, height = page.get_textpage(), page.get_size()[1]
    boxes: list[tuple[str, float, float, float, float]] = []
    word, corners = "", []
    edges = [ctypes.c_double() for _ in range(4)]
    count = raw.FPDFText_CountChars(text)
    for n in range(count + 1):
        char = chr(raw.FPDFText_GetUnicode(text, n) or 32) if n < count else " "
        if char.isspace():
            if word:
                xs, ys = [c[0] for c in corners] + [c[1] for c in corners], [c[2] for c in corners]
                ys += [c[3] for c in corners]
                boxes.append((word, min(xs) * scale, min(ys) * scale, max(xs) * scale, max(ys) * scale))
            word, corners = "", []
            continue
        raw.FPDFText_GetCharBox(text, n, *(ctypes.byref(edge) for edge in edges))
        left, right, bottom, top = (edge.value for edge in edges)
        word += "".join(plain(c) for c in unicodedata.normalize("NFKC", char)).strip()
        corners.append((left, right, height - top, height - bottom))
    return boxes


def on_ink(page: RealPage) -> float:
    """Share of the characters around whose middle the picture is not flat."""
    hits = []
    for x, y, em, kind in page.characters:
        if kind == 37:
            continue
        reach = max(2, int(em / 3))
        top, left = max(0, int(y) - reach), max(0, int(x) - reach)
        part = page.pixels[top : int(y) + reach, left : int(x) + reach]
        hits.append(part.size > 0 and int(part.max()) - int(part.min()) > 40)
    return float(np.mean(hits))


@pytest.mark.parametrize("name", ["paper.pdf", "report.pdf", "slides.pdf", "table.pdf"])
def test_labels_are_on_ink(name: str) -> None:
    page = read_page(str(EXAMPLES / name), 0, EDGE)
    assert page is not None
    assert on_ink(page) > 0.97


def test_labels_follow_when_only_a_part_of_the_page_is_shown(tmp_path: Path) -> None:
    """Printers' PDFs show a part of a larger sheet; text is placed on the sheet."""
    document = pypdfium2.PdfDocument(str(EXAMPLES / "paper.pdf"))
    width, height = document[0].get_size()
    document[0].set_cropbox(40, 30, width - 10, height - 20)
    document.save(str(tmp_path / "cropped.pdf"))
    cropped = read_page(str(tmp_path / "cropped.pdf"), 0, EDGE)
    assert cropped is not None
    assert on_ink(cropped) > 0.97
    whole = read_page(str(EXAMPLES / "paper.pdf"), 0, EDGE)
    assert whole is not None
    shown = EDGE / max(width - 50, height - 50)
    first, same = whole.characters[0] * max(width, height) / EDGE, cropped.characters[0] / shown
    assert same[0] == pytest.approx(first[0] - 40, abs=1)
    assert same[1] == pytest.approx(first[1] - 20, abs=1)


def test_the_words_of_a_page_are_its_labels() -> None:
    page = read_page(str(EXAMPLES / "report.pdf"), 0, EDGE)
    assert page is not None
    text = pypdfium2.PdfDocument(str(EXAMPLES / "report.pdf"))[0].get_textpage().get_text_range()
    tokenizer = Tokenizer.load()
    wanted = {tokenizer.token(term) for term in tokenizer.encode(text)}
    assert len(set(words_of(page)) & wanted) > 0.95 * len(wanted)


def test_pages_without_text_and_files_that_are_no_pdf_are_left_out(tmp_path: Path) -> None:
    assert read_page(str(EXAMPLES / "scan.pdf"), 0, EDGE) is None
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.4 nothing more")
    assert read_page(str(broken), 0, EDGE) is None
    assert page_jobs([broken], 5, (1000, 1700), 0) == []


def test_jobs_are_the_same_for_the_same_seed_and_pages_come_in_their_order() -> None:
    pdfs = [EXAMPLES / "paper.pdf", EXAMPLES / "report.pdf"]
    jobs = page_jobs(pdfs, 1, (900, 1100), 4)
    assert jobs == page_jobs(pdfs, 1, (900, 1100), 4)
    assert len(jobs) == 2
    pages = list(read_pages(jobs, 2))
    assert [max(page.pixels.shape) for page in pages] == pytest.approx([job[2] for job in jobs], abs=1)


def test_windows_of_real_pages_have_their_labels_on_ink() -> None:
    pages = [
        page for name in ("paper.pdf", "report.pdf") if (page := read_page(str(EXAMPLES / name), 0, EDGE))
    ]
    torch.manual_seed(3)
    pictures, labels = PagePool(pages, torch.device("cpu")).windows(6)
    assert pictures.shape == (6, SIZE, SIZE)
    assert 0 <= float(pictures.min()) <= float(pictures.max()) <= 1.001
    spread = contrast(pictures)
    cells = (labels.piece_xy[labels.piece_whole] / 8).long()
    windows = labels.piece_window[labels.piece_whole]
    assert len(cells) > 20
    shown = spread[windows, cells[:, 1], cells[:, 0]] > 0.03
    assert float(shown.float().mean()) > 0.99
    assert float(spread.mean()) < 0.2  # most of a page is paper: the test above can fail
