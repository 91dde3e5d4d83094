"""Kinds of files that need a package of their own, and what is said where it is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vsplade.errors import InputError, PageError
from vsplade.ingest.single import _suffix
from vsplade.pages import FileProblem, Limits, RenderedPage, discover, formats, name_files, office, render
from vsplade.pages.naming import SUFFIXES
from vsplade.pages.render_worker import open_file
from vsplade.pages.viewer import PageViewer

FILES = Path(__file__).parent / "files"


@pytest.fixture
def viewer() -> Iterator[PageViewer]:
    viewer = PageViewer()
    yield viewer
    viewer.close()


def test_heic_is_a_picture(viewer: PageViewer) -> None:
    page = viewer.view(str(FILES / "drawing.heic"), longest_edge=200)
    assert (page.pages, page.width, page.height) == (1, 400, 200)
    assert page.image is not None
    red, white = (page.image.convert("RGB").getpixel((x, 50)) for x in (10, 150))
    assert red[0] > 150 > 80 > red[1], red
    assert min(white) > 240


def test_djvu_has_pages_and_a_text_layer_with_places(viewer: PageViewer) -> None:
    first, second = (viewer.view(str(FILES / "report.djvu"), number, words=True) for number in (1, 2))
    assert first.pages == 2
    assert (first.width, first.height) == pytest.approx((834 * 0.72, 1179 * 0.72))
    assert first.text == "lighthouse keeper "
    assert [word.text for word in first.words] == ["lighthouse", "keeper"]
    box = first.words[0].box
    assert (box.left, box.right) == pytest.approx((83 / 834, 333 / 834), abs=0.002)
    assert (box.top, box.bottom) == pytest.approx((119 / 1179, 179 / 1179), abs=0.002), "from the top"
    assert second.text is None
    assert second.image is not None
    assert second.image.size == (834, 1179)
    levels = second.image.convert("L").histogram()
    assert levels[0] > 1000, "there is ink"
    assert levels[255] > sum(levels) / 2, "on white paper"


def test_pages_of_all_of_them_are_rendered_and_named(tmp_path: Path) -> None:
    found = discover([FILES])
    assert not found.passed_over
    assert not found.problems
    pages = list(render(name_files(found.files), 500, grey=True, workers=1))
    ids = [page.page.id for page in pages if isinstance(page, RenderedPage)]
    assert ids == ["drawing", "page_1", "report_1", "report_2"]


def test_a_damaged_file_is_that_file_s_problem(tmp_path: Path) -> None:
    for name in ("drawing.heic", "report.djvu"):
        content = (FILES / name).read_bytes()
        (tmp_path / f"half-{name}").write_bytes(content[: len(content) // 2])
        (tmp_path / f"other-{name}").write_bytes(b"GIF89a" + content)
        (tmp_path / f"empty-{name}").write_bytes(b"")
    results = list(render(name_files(discover([tmp_path]).files), 500, workers=1))
    assert len(results) == 6
    assert all(isinstance(result, FileProblem) for result in results), results


def test_without_the_package_they_are_passed_over_and_an_error_when_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    monkeypatch.setattr(formats, "missing_office", lambda: "LibreOffice, which is not installed")
    formats.needs.cache_clear()
    (tmp_path / "letter.docx").write_bytes(b"PK\x03\x04")
    try:
        found = discover([FILES, tmp_path])
        assert dict(found.passed_over) == {".heic": 1, ".djvu": 2, ".docx": 1}
        assert not found.files
        named = discover([FILES / "drawing.heic", FILES / "report.djvu", tmp_path / "letter.docx"])
        reasons = [problem.reason for problem in named.problems]
        assert ["pi-heif" in reasons[0], "djvu-rs" in reasons[1], "LibreOffice" in reasons[2]] == [True] * 3
        assert all("vsplade[formats]" in reason for reason in reasons[:2])
        assert {".heic", ".djvu", ".docx"}.isdisjoint(formats.readable())
    finally:
        formats.needs.cache_clear()


def test_a_worker_without_the_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    monkeypatch.setitem(sys.modules, "djvu_rs", None)
    monkeypatch.setattr(office, "missing_office", lambda: "LibreOffice, which is not installed")
    for name in ("drawing.heic", "report.djvu"):
        with pytest.raises(PageError, match=r"needs the package .* pip install 'vsplade\[formats\]'"):
            open_file(str(FILES / name), Limits())
    with pytest.raises(PageError, match="needs LibreOffice"):
        office.to_pdf("letter.docx", Limits())


def test_every_kind_has_first_bytes() -> None:
    for ending in SUFFIXES:
        assert not formats.looks_like(b"", ending), ending
        assert not formats.looks_like(b"MZ\x90\0", ending), ending


def test_bytes_tell_what_they_are() -> None:
    assert _suffix((FILES / "drawing.heic").read_bytes()) == ".heic"
    assert _suffix((FILES / "report.djvu").read_bytes()) == ".djvu"
    with pytest.raises(InputError, match="by path"):
        _suffix(b"PK\x03\x04 an office file")
