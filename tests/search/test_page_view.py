"""Hits as pictures: rendered from their files, marked where the words stand."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from vsplade import Index, index_paths
from vsplade.encode import READER_MODEL
from vsplade.errors import PageError
from vsplade.pages import Limits
from vsplade.pages.viewer import PageViewer
from vsplade.search.page_view import PageViews

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = tmp_path_factory.mktemp("seen")
    shutil.copy(EXAMPLES / "report.pdf", folder)
    shutil.copy(EXAMPLES / "slides.pdf", folder)
    index_paths([folder / "report.pdf", folder / "slides.pdf"], folder / "pages.vsplade", "text")
    return Index.open(folder / "pages.vsplade")


def test_a_hit_shows_itself(index: Index) -> None:
    hit = index.search("maintenance of the turbine")[0]
    assert "turbine" in hit.snippet()
    assert len(hit.snippet(6).split()) <= 8  # with the dots at its ends
    first = hit.boxes()[0]
    assert first.text == "Maintenance"
    assert (first.box.left, first.box.top) == pytest.approx((0.133, 0.098), abs=0.005)
    assert max(hit.image(400).size) == 400
    marked = hit.image(400, marked=True)
    assert marked.size == hit.image(400).size
    assert marked.tobytes() != hit.image(400).convert("RGB").tobytes()


def test_a_file_that_is_gone_is_an_error_for_people(index: Index, tmp_path: Path) -> None:
    copy = tmp_path / "gone.pdf"
    shutil.copy(EXAMPLES / "table.pdf", copy)
    index_paths([copy], tmp_path / "gone.vsplade", "text")
    hit = Index.open(tmp_path / "gone.vsplade").search("tide")[0]
    copy.unlink()
    with pytest.raises(PageError, match=r"gone\.pdf.*--prune"):
        hit.image()


def test_a_changed_file_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "page.pdf"
    shutil.copy(EXAMPLES / "table.pdf", path)
    views = PageViews()
    before, _ = views.words(str(path), 1)
    shutil.copy(EXAMPLES / "report.pdf", path)
    os.utime(path, ns=(1, time.time_ns()))
    after, _ = views.words(str(path), 1)
    assert before != after
    assert "Skerrow" in [word.text for word in after]


@pytest.mark.skipif(not READER_MODEL.is_file(), reason="the reader's model is not in this checkout")
def test_a_scan_is_read(tmp_path: Path) -> None:
    words, layer = PageViews().words(str(EXAMPLES / "scan.pdf"), 1)
    assert not layer
    assert {"gale", "fog", "horn", "lamp"} <= {word.text for word in words}
    fog = next(word for word in words if word.text == "fog")
    assert (fog.box.left, fog.box.top) == pytest.approx((0.487, 0.198), abs=0.02)


@pytest.mark.skipif(not READER_MODEL.is_file(), reason="the reader's model is not in this checkout")
def test_words_of_a_scan_that_lies_upside_down_are_where_they_are_shown(tmp_path: Path) -> None:
    from PIL import Image

    views = PageViews()
    upright = {word.text: word.box for word in views.words(str(EXAMPLES / "scan.pdf"), 1)[0]}["fog"]
    turned = views.image(str(EXAMPLES / "scan.pdf"), 1).transpose(Image.Transpose.ROTATE_180)
    turned.save(tmp_path / "turned.png")
    box = {word.text: word.box for word in views.words(str(tmp_path / "turned.png"), 1)[0]}["fog"]
    assert (1 - box.right, 1 - box.bottom) == pytest.approx((upright.left, upright.top), abs=0.02)


def test_a_rotated_page_has_its_words_where_they_are_shown(tmp_path: Path) -> None:
    import pypdfium2 as pdfium

    document = pdfium.PdfDocument(EXAMPLES / "report.pdf")
    viewer = PageViewer()
    try:
        upright = {
            word.text: word.box for word in viewer.view(str(EXAMPLES / "report.pdf"), 2, 0, words=True).words
        }["Maintenance"]
        for turn in (90, 180, 270):
            page = document[1]
            page.set_rotation(turn)
            page.close()
            path = tmp_path / f"turned-{turn}.pdf"
            document.save(path)
            box = {word.text: word.box for word in viewer.view(str(path), 2, 0, words=True).words}[
                "Maintenance"
            ]
            expected = {
                90: (1 - upright.bottom, upright.left, 1 - upright.top, upright.right),
                180: (1 - upright.right, 1 - upright.bottom, 1 - upright.left, 1 - upright.top),
                270: (upright.top, 1 - upright.right, upright.bottom, 1 - upright.left),
            }[turn]
            assert (box.left, box.top, box.right, box.bottom) == pytest.approx(expected, abs=0.001)
    finally:
        viewer.close()


def test_a_viewer_survives_what_it_cannot_show(tmp_path: Path) -> None:
    viewer = PageViewer(limits=Limits(max_pages=3))
    try:
        (tmp_path / "x.pdf").write_bytes(b"%PDF-1.7 nothing")
        (tmp_path / "x.png").write_bytes(b"<svg/>")
        for path, number, told in (
            (tmp_path / "x.pdf", 1, "damaged"),
            (tmp_path / "x.png", 1, "not a picture"),
            (tmp_path / "none.pdf", 1, "cannot be read"),
            (EXAMPLES / "report.pdf", 9, "no page 9"),
            (EXAMPLES / "slides.pdf", 1, "above the limit"),
        ):
            with pytest.raises(PageError, match=told):
                viewer.view(str(path), number)
        assert viewer.view(str(EXAMPLES / "report.pdf"), 1, 200).image is not None
    finally:
        viewer.close()
