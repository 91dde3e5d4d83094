"""``vsplade inspect --picture`` with an encoder that tells places."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from PIL import Image, ImageDraw

import vsplade.encode
from vsplade import index_paths
from vsplade.cli import run
from vsplade.cli.outputs import write_picture
from vsplade.encode import load_encoder
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import StorageError
from vsplade.store.writer import IndexWriter
from vsplade.types import Box, Page, PlacingEncoder, SparseVector, TermStatistics, Vocabulary

EXAMPLES = Path(__file__).parents[1] / "examples"
INK = Box(0.25, 0.5, 0.75, 0.6)


class InkFinder:
    """Calls whatever is dark "turbine", lists "blade" beside it, and tells where the ink was."""

    name = "ink"
    fingerprint = "ink-1"
    longest_edge = 400
    reads_grey = on_gpu = latin_only = False

    @property
    def vocabulary(self) -> Vocabulary:
        return Tokenizer.load()

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        for page in pages:
            yield self.encode_with_places(page)[0]

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        raise NotImplementedError("no query is asked here")

    def encode_with_places(self, page: Page) -> tuple[SparseVector, list[Box]]:
        split = Tokenizer.load().encode
        vector = SparseVector.from_dict({split("turbine")[0]: 2.0, split("blade")[0]: 1.0})
        return vector, [INK, INK]


@pytest.fixture
def scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(vsplade.encode._MAKERS, "ink", lambda options: InkFinder())
    image = Image.new("L", (400, 300), 255)
    ImageDraw.Draw(image).rectangle((100, 150, 300, 180), fill=0)
    image.save(tmp_path / "scan.png")
    return tmp_path / "scan.png"


def test_boxes_are_drawn_where_the_terms_are(
    scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(InkFinder(), PlacingEncoder)
    picture = tmp_path / "out.png"
    command = ["inspect", str(scan), "--encoder", "ink", "--picture", str(picture), "--top", "1", "--json"]
    assert run(command) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [term["weight"] for term in shown["pages"][0]["terms"]] == [2.0]
    with Image.open(picture) as drawn:
        red = np.asarray(drawn.convert("RGB")).astype(int)
    coloured = np.argwhere((red[:, :, 0] > 180) & (red[:, :, 1] < 80))
    height, width = red.shape[:2]
    bottom, right = coloured.max(axis=0)
    left = coloured[:, 1].min()
    inside = red[int(INK.top * height) + 2 : int(INK.bottom * height) - 2, int(INK.left * width) + 1]
    assert (inside < 80).all()  # the line is around the ink, not on it
    assert left / width == pytest.approx(INK.left, abs=0.01)
    assert right / width == pytest.approx(INK.right, abs=0.01)
    assert bottom / height == pytest.approx(INK.bottom, abs=0.01)


@pytest.mark.parametrize("name", ["out.xyz", "out"])
def test_an_unknown_ending_is_refused(
    scan: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", str(scan), "--encoder", "ink", "--picture", str(tmp_path / name)]) == 2
    printed = capsys.readouterr()
    assert "use .png" in printed.err
    assert not printed.out, "it is known before the work is done"


def test_one_page_must_be_chosen(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = [Image.new("L", (40, 30), 255)] * 2
    frames[0].save(tmp_path / "two.tiff", save_all=True, append_images=frames[1:])
    picture = tmp_path / "out.png"
    command = ["inspect", str(tmp_path / "two.tiff"), "--encoder", "ink", "--picture", str(picture)]
    assert run(command) == 2
    assert "--page" in capsys.readouterr().err
    assert run([*command, "--page", "2"]) == 0
    assert picture.exists()


def test_the_best_page_is_opened_with_its_words_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    index_paths([EXAMPLES / "report.pdf"], tmp_path / "pages.vsplade", "text")
    opened: list[str] = []
    monkeypatch.setattr(click, "launch", lambda target: opened.append(target) or 0)
    monkeypatch.setenv("DISPLAY", ":0")
    command = ["search", "turbine maintenance", "--index", str(tmp_path / "pages.vsplade"), "--open"]
    assert run(command) == 0
    with Image.open(opened[0]) as picture:
        colours = np.asarray(picture.convert("RGB")).astype(int)
    Path(opened[0]).unlink()
    assert ((colours[:, :, 0] > 200) & (colours[:, :, 2] < 60)).sum() > 500  # as by a highlighter
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    capsys.readouterr()
    assert run([*command, "--picture", str(tmp_path / "page.png")]) == 0
    assert len(opened) == 1
    assert "open the picture yourself" in capsys.readouterr().err
    assert (tmp_path / "page.png").exists()


def test_the_picture_never_takes_the_place_of_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.png"
    Image.new("L", (300, 400), 255).save(page)
    before = page.read_bytes()
    words = SparseVector.from_dict(dict.fromkeys(Tokenizer.load().encode("turbine"), 1.0))
    with IndexWriter(tmp_path / "index", load_encoder("text")) as writer:
        writer.add("page", words, {"path": str(page), "page_num": 1})
    assert run(["search", "turbine", "--index", str(tmp_path / "index"), "--picture", str(page)]) == 2
    assert "would be overwritten" in capsys.readouterr().err
    assert page.read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_picture_on_a_full_disk_is_no_half_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it was left in the place of the one before, and the error named no file."""
    target = tmp_path / "out.png"
    target.write_bytes(b"the one before")
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr("vsplade.store.durable._open_spare", lambda path: (tmp_path / "spare", full))
    with pytest.raises(StorageError, match="could not be written"):
        write_picture(Image.new("L", (500, 500)), target)
    assert target.read_bytes() == b"the one before"
