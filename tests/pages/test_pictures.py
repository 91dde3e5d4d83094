"""Every kind of picture comes out upright, grey or RGB, on white, in the size asked for."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from pages.samples import drawing, png_header_only
from vsplade.errors import PageError
from vsplade.pages import webp
from vsplade.pages.limits import Limits
from vsplade.pages.picture import PictureFile, thumbnail_jpeg, to_grey_or_rgb
from vsplade.pages.pixels import PageContent
from vsplade.pages.resize import fit, fit_size


def read(path: Path, edge: int = 200, number: int = 1, limits: Limits | None = None) -> PageContent:
    file = PictureFile(str(path), limits or Limits())
    try:
        return file.page(number, edge)
    finally:
        file.close()


def pixels(content: PageContent) -> Image.Image:
    assert content.pixels is not None
    assert content.pixels.mode in ("L", "RGB")
    return content.pixels.image().convert("RGB")


def is_close(color: object, expected: tuple[int, int, int]) -> bool:
    return bool(np.abs(np.array(color, dtype=int) - expected).max() < 25)


def test_plain_formats(tmp_path: Path) -> None:
    for name in ("x.png", "x.jpg", "x.webp", "x.tif", "x.gif", "x.bmp", "x.jp2", "x.j2k"):
        drawing().save(tmp_path / name)
        image = pixels(read(tmp_path / name))
        assert image.size == (200, 100), name
        assert is_close(image.getpixel((10, 50)), (200, 0, 0)), name
        assert is_close(image.getpixel((150, 50)), (255, 255, 255)), name


@pytest.mark.parametrize(
    ("orientation", "size", "red"),
    [
        (1, (200, 100), (10, 50)),
        (2, (200, 100), (190, 50)),
        (3, (200, 100), (190, 50)),
        (4, (200, 100), (10, 50)),
        (5, (100, 200), (50, 10)),
        (6, (100, 200), (50, 10)),
        (7, (100, 200), (50, 190)),
        (8, (100, 200), (50, 190)),
    ],
)
def test_camera_orientation(
    tmp_path: Path, orientation: int, size: tuple[int, int], red: tuple[int, int]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    drawing().save(tmp_path / "x.jpg", exif=exif, quality=95)
    content = read(tmp_path / "x.jpg")
    assert (content.width, content.height) == size
    image = pixels(content)
    assert image.size == size
    assert is_close(image.getpixel(red), (200, 0, 0))


def test_cmyk(tmp_path: Path) -> None:
    for name in ("x.jpg", "x.tif"):
        drawing().convert("CMYK").save(tmp_path / name)
        image = pixels(read(tmp_path / name))
        assert is_close(image.getpixel((10, 50)), (200, 0, 0)), name
        assert is_close(image.getpixel((150, 50)), (255, 255, 255)), name


def test_one_bit_is_averaged_not_dropped(tmp_path: Path) -> None:
    stripes = Image.fromarray(np.tile(np.array([[0, 255]], dtype=np.uint8), (400, 200))).convert("1")
    stripes.save(tmp_path / "x.tif", compression="group4")
    content = read(tmp_path / "x.tif", 100)
    assert content.pixels is not None
    image = content.pixels.image()
    assert image.mode == "L"
    assert abs(float(np.asarray(image).mean()) - 127.5) < 6
    assert float(np.asarray(image).std()) < 30


def test_sixteen_bit(tmp_path: Path) -> None:
    ramp = np.tile(np.linspace(0, 65535, 200).astype(np.uint16), (100, 1))
    for name in ("x.png", "x.tif"):
        Image.fromarray(ramp).save(tmp_path / name)
        content = read(tmp_path / name)
        assert content.pixels is not None
        assert content.pixels.mode == "L"
        grey = np.asarray(content.pixels.image())
        assert abs(int(grey[50, 100]) - 128) < 4, name
        assert int(grey[50, 199]) > 250, name


def test_float_and_wide_integers_use_their_own_range() -> None:
    ramp = np.tile(np.linspace(-3, 7, 50, dtype=np.float32), (10, 1))
    assert np.asarray(to_grey_or_rgb(Image.fromarray(ramp)))[0, [0, 49]].tolist() == [0, 255]
    small = Image.fromarray(np.tile(np.arange(0, 250, 5, dtype=np.int32), (10, 1)))
    assert np.asarray(to_grey_or_rgb(small))[0, 10] == 50


def test_alpha_is_flattened_on_white(tmp_path: Path) -> None:
    image = Image.new("RGBA", (200, 100), (0, 0, 0, 0))
    image.paste((0, 0, 255, 255), (0, 0, 50, 100))
    image.paste((0, 0, 0, 128), (50, 0, 100, 100))
    for name in ("x.png", "x.webp", "x.tif"):
        image.save(tmp_path / name)
        shown = pixels(read(tmp_path / name))
        assert is_close(shown.getpixel((10, 50)), (0, 0, 255)), name
        assert is_close(shown.getpixel((75, 50)), (127, 127, 127)), name
        assert is_close(shown.getpixel((150, 50)), (255, 255, 255)), name


def test_palette_with_and_without_transparency(tmp_path: Path) -> None:
    drawing().convert("P").save(tmp_path / "p.png")
    assert is_close(pixels(read(tmp_path / "p.png")).getpixel((10, 50)), (200, 0, 0))
    clear = Image.new("P", (200, 100), 1)
    clear.putpalette([10, 10, 10, 0, 0, 0])
    clear.save(tmp_path / "t.png", transparency=1)
    assert pixels(read(tmp_path / "t.png")).getpixel((10, 50)) == (255, 255, 255)
    Image.new("LA", (20, 20), (0, 0)).save(tmp_path / "la.png")
    assert pixels(read(tmp_path / "la.png")).getpixel((10, 10)) == (255, 255, 255)


@pytest.mark.parametrize("name", ["x.webp", "x.png", "x.gif"])
def test_animation_is_its_first_frame(tmp_path: Path, name: str) -> None:
    frames = [Image.new("RGB", (60, 60), color) for color in ("red", "lime", "blue")]
    frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
    file = PictureFile(str(tmp_path / name), Limits())
    assert file.pages == 1
    assert is_close(pixels(file.page(1, 60)).getpixel((30, 30)), (255, 0, 0))


def test_tiff_pages_in_any_order(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (60 + 10 * n, 60), color) for n, color in enumerate(("red", "lime", "blue"))]
    frames[0].save(tmp_path / "x.tif", save_all=True, append_images=frames[1:])
    file = PictureFile(str(tmp_path / "x.tif"), Limits())
    assert file.pages == 3
    for number, color in ((3, (0, 0, 255)), (1, (255, 0, 0)), (2, (0, 255, 0))):
        content = file.page(number, 200)
        assert content.width == 50 + 10 * number
        assert is_close(pixels(content).getpixel((30, 30)), color)


def test_forty_thousand_pixels_wide_is_shrunk(tmp_path: Path) -> None:
    for name in ("x.png", "x.jpg"):
        drawing((40_000, 300)).save(tmp_path / name)
        content = read(tmp_path / name, 1408)
        assert content.width == 40_000
        assert pixels(content).size == (11_496, 86)
        assert is_close(pixels(content).getpixel((100, 5)), (200, 0, 0))


def test_bomb_is_refused_by_its_header(tmp_path: Path) -> None:
    with pytest.raises(PageError, match=r"40000 x 40000 pixels, above the limit of 150,000,000"):
        read(png_header_only(tmp_path / "x.png", 40_000, 40_000))


@pytest.mark.parametrize(
    ("size", "expected"), [((124, 175), (124, 175)), ((150, 150), (150, 150)), ((160, 160), (150, 150))]
)
def test_a_picture_of_no_more_pixels_than_a_square_of_the_edge_keeps_them(
    tmp_path: Path, size: tuple[int, int], expected: tuple[int, int]
) -> None:
    drawing(size).save(tmp_path / "x.png")
    assert pixels(read(tmp_path / "x.png", 150)).size == expected


def test_large_jpeg_counts_what_is_decoded_unless_progressive(tmp_path: Path) -> None:
    limits = Limits(max_pixels=2_000_000)
    drawing((8000, 2000)).save(tmp_path / "plain.jpg")
    assert pixels(read(tmp_path / "plain.jpg", 500, limits=limits)).size == (1000, 250)
    drawing((8000, 2000)).save(tmp_path / "progressive.jpg", progressive=True)
    with pytest.raises(PageError, match="above the limit"):
        read(tmp_path / "progressive.jpg", 500, limits=limits)


def test_truncated_and_foreign_files_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    noise = np.random.default_rng(1).integers(0, 255, (200, 300, 3), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, "PNG")
    (tmp_path / "cut.png").write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    with pytest.raises(OSError, match="truncated"):
        read(tmp_path / "cut.png")
    (tmp_path / "nothing.png").touch()
    with pytest.raises(PageError, match="empty file"):
        read(tmp_path / "nothing.png")
    (tmp_path / "text.png").write_text("no picture at all")
    with pytest.raises(PageError, match="not a picture"):
        read(tmp_path / "text.png")
    drawing().save(tmp_path / "bitmap.ppm")
    (tmp_path / "bitmap.ppm").rename(tmp_path / "bitmap.png")
    with pytest.raises(PageError, match="not a picture"):
        read(tmp_path / "bitmap.png")


def test_no_pixels_asked_for_none_decoded(tmp_path: Path) -> None:
    content = read(png_header_only(tmp_path / "x.png", 40_000, 30_000), 0)
    assert content == PageContent(None, 40_000, 30_000)


def test_small_pictures_are_left_alone_or_enlarged_if_asked() -> None:
    assert fit_size(2816, 2000, 1408) == fit_size(2816, 2000, 1408, enlarge=True) == (1408, 1000)
    assert fit_size(1200, 900, 1408) == fit_size(1200, 900, 1408, enlarge=True) == (1200, 900)
    assert fit_size(1024, 768, 1408) == (1024, 768)
    assert fit_size(1024, 768, 1408, enlarge=True) == (1408, 1056)
    assert fit_size(704, 500, 1408, enlarge=True) == (1408, 1000)
    assert fit_size(100, 60, 1408, enlarge=True) == (200, 120)


def test_strips_keep_the_area_of_a_page() -> None:
    width, height = fit_size(8000, 200, 1408)
    assert width * height == pytest.approx(1408 * 704, rel=0.02)
    assert width / height == pytest.approx(40, rel=0.02)
    assert fit_size(40_000, 3, 1408)[1] >= 3


def test_no_edge_asked_for_leaves_a_picture_alone() -> None:
    assert fit(drawing(), 0).size == (200, 100)


def test_thumbnail_is_a_small_jpeg_never_larger_than_the_page() -> None:
    small = Image.open(io.BytesIO(thumbnail_jpeg(drawing((800, 400)), 100)))
    assert (small.format, small.size) == ("JPEG", (100, 50))
    assert Image.open(io.BytesIO(thumbnail_jpeg(drawing((80, 40)), 100))).size == (80, 40)


def test_webp_in_grey_is_what_pillow_makes_of_it(tmp_path: Path) -> None:
    photo = drawing((151, 91)).convert("RGB")
    scan = Image.linear_gradient("L").resize((151, 91)).convert("RGB")
    clear = photo.convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize(clear.size))
    scan.save(tmp_path / "scan.webp", quality=80)
    scan.save(tmp_path / "lossless.webp", lossless=True)
    photo.save(tmp_path / "colour.webp", quality=80)
    clear.save(tmp_path / "clear.webp", quality=80)
    scan.save(tmp_path / "moving.webp", save_all=True, append_images=[ImageOps.invert(scan)])
    for name in ("scan", "lossless", "colour", "clear", "moving"):
        file = PictureFile(str(tmp_path / f"{name}.webp"), Limits())
        expected, found = (
            np.asarray(pixels(file.page(1, 151, grey)).convert("L"), int) for grey in (False, True)
        )
        file.close()
        assert np.abs(found - expected).max() <= 1


def test_only_pages_without_colour_are_left_to_the_codec(tmp_path: Path) -> None:
    if webp._library() is None:
        pytest.skip("Pillow's own libwebp cannot be reached here")
    scan = Image.linear_gradient("L").convert("RGB")
    scan.save(tmp_path / "scan.webp")
    assert webp.decode_grey(str(tmp_path / "scan.webp"), scan.size) is not None
    assert webp.decode_grey(str(tmp_path / "scan.webp"), (9, 9)) is None
    scan.paste((200, 0, 0), (0, 0, 40, 40))
    scan.save(tmp_path / "stamped.webp")
    assert webp.decode_grey(str(tmp_path / "stamped.webp"), scan.size) is None
    (tmp_path / "bad.webp").write_bytes(b"RIFF....WEBPVP8 nonsense")
    assert webp.decode_grey(str(tmp_path / "bad.webp"), scan.size) is None
