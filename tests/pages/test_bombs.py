"""Small files that become huge in memory: refused by their headers, in a worker that stays small."""

from __future__ import annotations

import os
import struct
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from pages.samples import assemble, drawing
from vsplade.pages import FileProblem, Limits, RenderedPage, name_files, render

FILES = Path(__file__).parent / "files"
SIDE = 4000
LIMITS = Limits(max_pixels=1_000_000)
ALLOWED = 25 << 20
"""Bytes more than a worker needs for a small page; the pictures here take 60 MB and more when decoded."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the worker's memory from /proc")


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    parts = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def write_png(path: Path, side: int, interlaced: bool) -> None:
    """Black, in RGB; interlaced data is never reached, so it need not be right."""
    rows = zlib.compress(bytes((1 + 3 * side) * side), 1)
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, int(interlaced))
    path.write_bytes(png((b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")))


def write_pdf_with_picture(path: Path, side: int, *, inside_a_form: bool = False) -> None:
    """A page that shows a grey picture."""
    show = b"q 200 0 0 200 0 0 cm /X Do Q"

    data = zlib.compress(bytes(side * side))
    resources = b"<< /XObject << /X %d 0 R >> >>"
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        3: b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 400] /Resources %s /Contents 4 0 R >>"
        % (resources % (6 if inside_a_form else 5)),
        4: b"<< /Length %d >>\nstream\n%s\nendstream" % (len(show), show),
        5: b"<< /Type /XObject /Subtype /Image /Width %d /Height %d /BitsPerComponent 8 /ColorSpace "
        b"/DeviceGray /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream"
        % (side, side, len(data), data),
        6: b"<< /Type /XObject /Subtype /Form /BBox [0 0 300 400] /Resources %s /Length %d >>\nstream\n%s\n"
        b"endstream" % (resources % 5, len(show), show),
    }
    path.write_bytes(assemble(objects, b"/Root 1 0 R"))


def write_heic(path: Path, side: int) -> None:
    """A small one that says it is large."""
    before, after = (b"ispe\0\0\0\0" + struct.pack(">II", *size) for size in ((400, 200), (side, side)))
    content = (FILES / "drawing.heic").read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after))


def write_djvu(path: Path, side: int) -> None:
    """The same, of a file with one page."""
    before, after = (b"INFO\0\0\0\x0a" + struct.pack(">HH", *size) for size in ((834, 1179), (side, side)))
    content = (FILES / "page.djvu").read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after))


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One file of each kind, all above the limit."""
    folder = tmp_path_factory.mktemp("bombs")
    huge = Image.new("RGB", (SIDE, SIDE), "white")
    write_png(folder / "plain.png", SIDE, interlaced=False)
    write_png(folder / "interlaced.png", SIDE, interlaced=True)
    huge.save(folder / "progressive.jpg", progressive=True)
    huge.save(folder / "lossless.webp", lossless=True, method=0)
    huge.save(folder / "lossy.webp", method=0)
    huge.save(folder / "one.tif", compression="tiff_lzw")
    huge.convert("L").save(folder / "frame.gif")
    huge.save(folder / "plain.bmp")
    huge.save(folder / "wavelets.jp2")
    write_heic(folder / "photo.heic", SIDE)
    write_djvu(folder / "scan.djvu", SIDE)
    write_pdf_with_picture(folder / "picture.pdf", SIDE)
    write_pdf_with_picture(folder / "form.pdf", SIDE, inside_a_form=True)
    return sorted(folder.iterdir())


def peak_of_workers() -> int:
    """The most memory that a living child of this process has held, in bytes."""
    peaks = [0]
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it has just ended
            facts = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            if int(facts["PPid"]) == os.getpid() and "VmHWM" in facts:
                peaks.append(int(facts["VmHWM"].split()[0]) << 10)
    return max(peaks)


@pytest.mark.parametrize("edge", [500, 0])
def test_no_bomb_is_decoded(bombs: list[Path], tmp_path: Path, edge: int) -> None:
    """With pixels each is refused for its size; without (text and sizes only) nothing may be decoded."""
    drawing().save(tmp_path / "good.png")
    files = [tmp_path / "good.png", *bombs]
    results = render(name_files(map(str, files)), edge, grey=True, limits=LIMITS, workers=1)
    assert isinstance(next(results), RenderedPage)
    small = peak_of_workers()
    seen = 0
    for result in results:
        seen += 1
        assert peak_of_workers() < small + ALLOWED, result
        if edge:
            assert isinstance(result, FileProblem)
            assert f"{SIDE} x {SIDE} pixels, above the limit of 1,000,000" in result.reason
            assert "--max-pixels" in result.reason
    assert seen == len(files) - 1


def test_each_page_of_a_tiff_is_checked(tmp_path: Path) -> None:
    page, huge = drawing(), Image.new("1", (SIDE, SIDE))
    page.save(tmp_path / "pages.tif", save_all=True, append_images=[huge, page], compression="tiff_lzw")
    results = list(render(name_files([str(tmp_path / "pages.tif")]), 500, limits=LIMITS, workers=1))
    assert [isinstance(result, RenderedPage) for result in results] == [True, False, True]


def test_a_note_behind_the_pixels_of_a_png_still_turns_it(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    note = exif.tobytes().removeprefix(b"Exif\0\0")
    header = struct.pack(">IIBBBBB", 60, 20, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(61 * 20))
    chunks = (b"IHDR", header), (b"IDAT", pixels), (b"eXIf", note), (b"IEND", b"")
    (tmp_path / "wide.png").write_bytes(png(*chunks))
    (result,) = render(name_files([str(tmp_path / "wide.png")]), 500, workers=1)
    assert isinstance(result, RenderedPage)
    assert result.page.image.size == (20, 60)
