"""Through the worker processes: order, text, limits, and files that crash or hang their renderer."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pypdfium2 as pdfium
import pytest
from PIL import Image

from pages.conftest import HOSTILE
from pages.samples import drawing, pdf_bytes, write_pdf
from vsplade.errors import InputError, VspladeError
from vsplade.pages import (
    NO_PIXELS,
    FileProblem,
    Limits,
    RenderedPage,
    SourceFile,
    grey_levels,
    name_files,
    process,
    render,
)


def run(paths: list[Path], edge: int = 200, **options: object) -> list[RenderedPage | FileProblem]:
    return list(render(name_files([str(path) for path in paths]), edge, **options))  # type: ignore[arg-type]


def ids(results: list[RenderedPage | FileProblem]) -> list[str]:
    return [result.page.id for result in results if isinstance(result, RenderedPage)]


def problem(path: Path, **options: object) -> FileProblem:
    (result,) = run([path], workers=1, **options)  # type: ignore[arg-type]
    assert isinstance(result, FileProblem)
    assert result.path == str(path)
    return result


@pytest.mark.parametrize("workers", [1, 3])
def test_pages_come_in_order_with_text_and_size(tmp_path: Path, workers: int) -> None:
    long = write_pdf(tmp_path / "long.pdf", *[f"page {n} of many" for n in range(1, 41)])
    drawing().save(tmp_path / "pic.png")
    short = write_pdf(tmp_path / "short.pdf", "only page", size=(400, 200))
    results = run([long, tmp_path / "pic.png", short], workers=workers)
    assert ids(results) == [f"long_{n}" for n in range(1, 41)] + ["pic", "short_1"]
    pages = [result for result in results if isinstance(result, RenderedPage)]
    assert pages[6].page.text == "page 7 of many"
    assert pages[6].pages == 40
    assert pages[6].page.image.size == (150, 200)
    assert pages[6].page.metadata == {"width": 300, "height": 400}
    assert pages[40].page.text is None
    assert pages[40].page.image.getpixel((10, 50)) == (200, 0, 0)
    assert pages[41].page.image.size == (200, 100)
    assert pages[6].page.image.getextrema() != ((255, 255),) * 3


def test_longest_edge_is_exact(tmp_path: Path) -> None:
    for number, size in enumerate(
        [(612, 792), (595.28, 841.89), (842, 595), (594.048, 774.048), (40_000, 30_000)]
    ):
        (result,) = run([write_pdf(tmp_path / f"{number}.pdf", "x", size=size)], 1408, workers=1)
        assert isinstance(result, RenderedPage)
        assert max(result.page.image.size) == 1408
    (tiny,) = run([write_pdf(tmp_path / "tiny.pdf", "", size=(36, 20))], 1408, workers=1)
    assert isinstance(tiny, RenderedPage)
    assert max(tiny.page.image.size) == 300  # 600 dots an inch


@pytest.mark.parametrize("edge", [197, 198, 199, 200])
def test_pixels_are_those_of_pdfium(tmp_path: Path, edge: int) -> None:
    path = write_pdf(tmp_path / "a.pdf", "words in black", size=(400, 300))
    (result,) = run([path], edge, workers=1)
    assert isinstance(result, RenderedPage)
    expected = pdfium.PdfDocument(path)[0].render(scale=edge / 400 * (1 - 1e-9)).to_pil()
    assert result.page.image.mode == "RGB"
    assert result.page.image.tobytes() == expected.convert("RGB").tobytes()


def test_rotated_pdf_page_is_upright(tmp_path: Path) -> None:
    (result,) = run([write_pdf(tmp_path / "r.pdf", "turned", rotate=90)], workers=1)
    assert isinstance(result, RenderedPage)
    assert result.page.image.size == (200, 150)
    assert result.page.text == "turned"


def test_empty_page_has_no_text(tmp_path: Path) -> None:
    first, empty = run([write_pdf(tmp_path / "e.pdf", "words", "")], workers=1)
    assert isinstance(first, RenderedPage)
    assert isinstance(empty, RenderedPage)
    assert empty.page.text is None
    assert empty.page.image.getextrema() == ((255, 255),) * 3


def test_without_pixels_only_text_is_read(tmp_path: Path) -> None:
    drawing().save(tmp_path / "pic.png")
    pdf, pic = run([write_pdf(tmp_path / "a.pdf", "words"), tmp_path / "pic.png"], 0, workers=1)
    assert isinstance(pdf, RenderedPage)
    assert isinstance(pic, RenderedPage)
    assert (pdf.page.text, pic.page.text) == ("words", None)
    assert pdf.page.image is NO_PIXELS
    assert pdf.thumbnail is None
    assert pic.page.metadata == {"width": 200, "height": 100}


@pytest.mark.parametrize("edge", [0, 300])
def test_thumbnails_with_and_without_pixels(tmp_path: Path, edge: int) -> None:
    (result,) = run([write_pdf(tmp_path / "a.pdf", "words")], edge, workers=1, thumbnail=64)
    assert isinstance(result, RenderedPage)
    assert result.thumbnail is not None
    assert Image.open(io.BytesIO(result.thumbnail)).size == (48, 64)
    assert max(result.page.image.size) == (edge or 1)


def test_pages_to_skip_are_not_rendered(tmp_path: Path) -> None:
    path = str(write_pdf(tmp_path / "a.pdf", *"abcdefghij"))
    skip = frozenset(range(1, 11)) - {3, 9}
    assert ids(list(render([SourceFile(path, "a", skip)], 0, workers=1))) == ["a_3", "a_9"]
    assert list(render([SourceFile(path, "a", frozenset(range(1, 11)))], 0, workers=1)) == []


def test_password(tmp_path: Path) -> None:
    assert "password" in problem(write_pdf(tmp_path / "locked.pdf", "secret", password="open sesame")).reason
    # An empty password locks nothing: proves that the file above is refused for its password alone.
    (result,) = run([write_pdf(tmp_path / "unlocked.pdf", "secret", password="")], workers=1)
    assert isinstance(result, RenderedPage)
    assert result.page.text == "secret"


def test_files_that_are_no_pages(tmp_path: Path) -> None:
    whole = pdf_bytes(["one", "two"])
    (tmp_path / "cut.pdf").write_bytes(whole[:40])
    assert "damaged" in problem(tmp_path / "cut.pdf").reason
    (tmp_path / "empty.pdf").write_bytes(b"")
    assert problem(tmp_path / "empty.pdf").reason == "is an empty file"
    drawing().save(tmp_path / "fake.png")
    (tmp_path / "fake.png").rename(tmp_path / "fake.pdf")
    assert problem(tmp_path / "fake.pdf").reason == "is not a PDF, although its name says so"
    assert problem(write_pdf(tmp_path / "zero.pdf")).reason == "has no pages"
    assert "No such file" in problem(tmp_path / "absent.pdf").reason
    (tmp_path / "folder.pdf").mkdir()
    assert "cannot be read" in problem(tmp_path / "folder.pdf").reason


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "mine.pdf", "x")
    path.chmod(0)
    assert problem(path).reason == "cannot be read: permission denied"


def test_half_a_pdf_gives_what_can_be_saved_or_a_reason(tmp_path: Path) -> None:
    whole = pdf_bytes([f"page {n}" for n in range(20)])
    (tmp_path / "half.pdf").write_bytes(whole[: len(whole) // 2])
    after = write_pdf(tmp_path / "after.pdf", "fine")
    results = run([tmp_path / "half.pdf", after], workers=1)
    assert ids(results)[-1] == "after_1"
    assert len(results) > 1
    assert all(isinstance(result, RenderedPage) or result.reason for result in results)


def test_broken_page_costs_that_page(tmp_path: Path) -> None:
    results = run([write_pdf(tmp_path / "a.pdf", "one", "two", "three", broken_pages=[2])], workers=1)
    assert ids(results) == ["a_1", "a_3"]
    assert isinstance(results[1], FileProblem)
    assert results[1].page == 2


def test_limits(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "a.pdf", "one", "two")
    assert "limit of 100" in problem(path, limits=Limits(max_bytes=100)).reason
    assert "has 2 pages, above the limit of 1" in problem(path, limits=Limits(max_pages=1)).reason
    drawing().save(tmp_path / "p.png")
    assert "raise --max-pixels" in problem(tmp_path / "p.png", limits=Limits(max_pixels=1000)).reason
    with pytest.raises(InputError, match="max_seconds must be above zero"):
        Limits(max_seconds=0)
    with pytest.raises(InputError, match="workers"):
        render([], 0, workers=0)


@pytest.mark.usefixtures("hostile_worker")
def test_crashes_cost_their_file_only(tmp_path: Path) -> None:
    paths = [
        write_pdf(tmp_path / name, f"text of {name}", "second")
        for name in ("a.pdf", "abort.pdf", "b.pdf", "exit.pdf", "noise.pdf", "c.pdf")
    ]
    results = run(paths, workers=2)
    assert ids(results) == ["a_1", "a_2", "b_1", "b_2", "noise_1", "noise_2", "c_1", "c_2"]
    abort, leave = [result for result in results if isinstance(result, FileProblem)]
    assert abort.path == str(paths[1])
    assert "crashed the renderer (SIGABRT)" in abort.reason
    assert "exit status 3" in leave.reason


@pytest.mark.usefixtures("hostile_worker")
def test_page_that_crashes_costs_that_page(tmp_path: Path) -> None:
    results = run([write_pdf(tmp_path / "trap.pdf", *"abcde")], workers=1)
    assert ids(results) == ["trap_1", "trap_3", "trap_4", "trap_5"]
    assert isinstance(results[1], FileProblem)
    assert (results[1].page, "crashed" in results[1].reason) == (2, True)


@pytest.mark.usefixtures("hostile_worker")
def test_file_that_crashes_again_and_again_is_given_up(tmp_path: Path) -> None:
    mine = write_pdf(tmp_path / "minefield.pdf", *["x"] * 30)
    results = run([mine, write_pdf(tmp_path / "b.pdf", "fine")], workers=1)
    assert [result.page for result in results[:-1] if isinstance(result, FileProblem)] == [1, 2, 3]
    assert ids(results) == ["b_1"]


@pytest.mark.usefixtures("hostile_worker")
def test_hang_is_ended_and_the_rest_goes_on(tmp_path: Path) -> None:
    paths = [write_pdf(tmp_path / name, "text") for name in ("a.pdf", "hang.pdf", "b.pdf")]
    results = run(paths, workers=1, limits=Limits(max_seconds=1.0))
    assert ids(results) == ["a_1", "b_1"]
    assert isinstance(results[1], FileProblem)
    assert "took longer than 1 seconds" in results[1].reason
    assert not _alive(int((tmp_path / "hang.pid").read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the address space")
@pytest.mark.usefixtures("hostile_worker")
def test_memory_is_bounded(tmp_path: Path) -> None:
    assert "needs more memory" in problem(write_pdf(tmp_path / "greedy.pdf", "x")).reason


@pytest.mark.usefixtures("broken_worker")
def test_a_renderer_that_cannot_start_is_an_error_not_a_failed_file(tmp_path: Path) -> None:
    with pytest.raises(VspladeError, match="this interpreter is broken"):
        run([write_pdf(tmp_path / "a.pdf", "x")], workers=1)


def test_a_renderer_that_dies_while_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flaky = [*HOSTILE, "--flaky", str(tmp_path / "starts")]
    monkeypatch.setattr(process, "worker_command", lambda: flaky)
    results = run([write_pdf(tmp_path / "a.pdf", "x"), write_pdf(tmp_path / "b.pdf", "x")], workers=1)
    assert ids(results) == ["a_1", "b_1"]
    assert (tmp_path / "starts").read_text() == "xxx"


@pytest.mark.usefixtures("broken_worker")
def test_a_renderer_that_never_starts_is_tried_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    spawn = process.RendererProcess._spawn
    monkeypatch.setattr(
        process.RendererProcess, "_spawn", lambda self: (started.append(self), spawn(self))[1]
    )
    monkeypatch.setattr(process, "START_PAUSES", (0.01, 0.01))
    with pytest.raises(VspladeError, match=r"after 3 tries.*exit status 1.*this interpreter is broken"):
        run([write_pdf(tmp_path / "a.pdf", "x")], workers=1)
    assert len(started) == 3


def test_closing_early_leaves_no_thread_and_no_process(tmp_path: Path) -> None:
    before, others = threading.active_count(), set(_children())  # of other tests
    results = render(name_files([str(write_pdf(tmp_path / "a.pdf", *["x"] * 200))]), 100, workers=2)
    next(results)
    children = set(_children()) - others
    assert len(children) >= 1
    results.close()
    assert threading.active_count() == before
    deadline = time.monotonic() + 5  # a process that was ended takes a moment to go
    while any(_alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(_alive(pid) for pid in children)


def test_error_in_the_list_of_files_reaches_the_caller(tmp_path: Path) -> None:
    def files() -> Iterator[SourceFile]:
        yield SourceFile(str(write_pdf(tmp_path / "a.pdf", "x")), "a")
        raise LookupError("no more names")

    with pytest.raises(LookupError, match="no more names"):
        list(render(files(), 0, workers=2))


@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_killed_parent_takes_a_hanging_worker_with_it(tmp_path: Path) -> None:
    path = write_pdf(tmp_path / "hang.pdf", "x")
    command = [sys.executable, str(Path(__file__).with_name("hostile_worker.py"))]
    script = (
        "from vsplade.pages import process, name_files, render\n"
        f"process.worker_command = lambda: {command}\n"
        f"list(render(name_files([{str(path)!r}]), 100, workers=1))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    try:
        note = tmp_path / "hang.pid"
        _wait_for(lambda: note.exists() and note.read_text() != "")
        worker = int(note.read_text())
        assert _alive(worker)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    _wait_for(lambda: not _alive(worker))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def _children() -> list[int]:
    task = Path(f"/proc/{os.getpid()}/task")
    if not task.exists():
        pytest.skip("needs /proc")
    return [int(pid) for thread in task.iterdir() for pid in (thread / "children").read_text().split()]


def _wait_for(condition: object, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def test_grey_pages_are_the_colour_pages_without_colour(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (40, 60, 3), np.uint8)
    for name in ("a.png", "b.webp"):
        Image.fromarray(colours).save(tmp_path / name, **({"lossless": True} if name == "b.webp" else {}))
    smooth = Image.fromarray(colours).resize((600, 400), Image.Resampling.BICUBIC)
    smooth.save(tmp_path / "c.jpg", quality=95)
    files = name_files([str(tmp_path / name) for name in ("a.png", "b.webp", "c.jpg")])
    colour, grey = (list(render(files, 60, grey=grey, workers=1)) for grey in (False, True))
    for one, two in zip(colour, grey, strict=True):
        assert isinstance(one, RenderedPage)
        assert isinstance(two, RenderedPage)
        assert (one.page.image.mode, two.page.image.mode) == ("RGB", "L")
        assert one.page.image.size == two.page.image.size
        expected = np.asarray(one.page.image.convert("L"), np.int16)
        assert np.abs(np.asarray(two.page.image, np.int16) - expected).max() <= 3
        np.testing.assert_array_equal(grey_levels(two.page.image), np.asarray(two.page.image))
        np.testing.assert_array_equal(grey_levels(one.page.image), expected)


def test_grey_pages_keep_their_colours_in_thumbnails(tmp_path: Path) -> None:
    Image.new("RGB", (80, 50), (200, 30, 30)).save(tmp_path / "a.png")
    (result,) = render(name_files([str(tmp_path / "a.png")]), 60, grey=True, thumbnail=20, workers=1)
    assert isinstance(result, RenderedPage)
    assert result.page.image.mode == "L"
    with Image.open(io.BytesIO(result.thumbnail or b"")) as small:
        red, green, _ = small.convert("RGB").getpixel((10, 5))
    assert red > green + 100


def test_grey_levels_of_a_page_that_was_drawn_on(tmp_path: Path) -> None:
    Image.new("L", (60, 40), 200).save(tmp_path / "a.png")
    (result,) = render(name_files([str(tmp_path / "a.png")]), 60, grey=True, workers=1)
    assert isinstance(result, RenderedPage)
    image = result.page.image
    image.paste(7, (0, 0, 5, 5))
    assert grey_levels(image)[0, 0] == 7
    assert grey_levels(image)[-1, -1] == 200
