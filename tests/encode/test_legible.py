"""Pages in scripts that cannot be read are called so; Latin pages of any language are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.pages.samples import assemble, drawing

from vsplade.cli import run
from vsplade.encode import load_encoder
from vsplade.encode.legibility import is_text_legible
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.ingest import index_paths
from vsplade.types import Page, PageVector

SCRIPTS = Path(__file__).with_name("scripts")
LATIN = {"english", "polish", "vietnamese"}
TEXTS = {
    "Все люди рождаются свободными и равными": False,
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι": False,
    "人人生而自由在尊严和权利上一律平等他们赋有理性": False,
    "يولد جميع الناس أحرارا متساوين في الكرامة": False,
    "Tất cả mọi người sinh ra đều được tự do": True,
    "Wszyscy ludzie rodzą się wolni i równi": True,
    "Sizes in µm and the angle α of the beam": True,
    "12 345 678 901 234 567 890 123": None,
    "Все": None,
    "": None,
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_layer_is_judged_by_its_letters(text: str) -> None:
    assert is_text_legible(text) is TEXTS[text]


@given(st.text(alphabet=st.characters(max_codepoint=0x24F, categories=["Lu", "Ll"]), min_size=20))
def test_all_latin_letters_are_latin(text: str) -> None:
    assert is_text_legible(text) is True


@pytest.fixture(scope="module")
def reader() -> ReaderEncoder:
    encoder = load_encoder("reader")
    assert isinstance(encoder, ReaderEncoder)
    return encoder


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.png")), ids=lambda path: path.stem)
def test_pictures_of_many_scripts(path: Path, reader: ReaderEncoder) -> None:
    (vector,) = reader.encode_pages([Page("p", Image.open(path).convert("L"), str(path))])
    assert isinstance(vector, PageVector)
    assert vector.legible == (path.stem in LATIN)


def test_blank_pages_are_not_illegible(reader: ReaderEncoder) -> None:
    for page in (Image.new("L", (600, 800), 255), drawing().convert("L")):
        (vector,) = reader.encode_pages([Page("p", page, "p")])
        assert isinstance(vector, PageVector)
        assert vector.legible


def write_cyrillic_pdf(path: Path) -> None:
    """A text layer in Cyrillic: the letters of Helvetica, which say that they mean others."""
    text = b"BT /F1 18 Tf 20 300 Td (ABCDEFGHIJKLMNOPQRSTUVWXYZ ABCDEFGH) Tj ET"
    means = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def "
        b"1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfrange <41> <5A> <0410> endbfrange "
        b"endcmap end end"
    )
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>",
        4: b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 400] /Resources << /Font << /F1 3 0 R >> >> "
        b"/Contents 5 0 R >>",
        5: b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
        6: b"<< /Length %d >>\nstream\n%s\nendstream" % (len(means), means),
    }
    path.write_bytes(assemble(objects, b"/Root 1 0 R"))


def test_the_report_names_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("greek", "english"):
        (folder / f"{name}.png").write_bytes((SCRIPTS / f"{name}.png").read_bytes())
    write_cyrillic_pdf(folder / "layer.pdf")
    Image.new("L", (600, 800), 255).save(folder / "blank.png")
    for name in ("a.zip", "b.ZIP", "c.txt", "README", ".hidden.txt"):
        (folder / name).touch()
    assert run(["index", str(folder), "--index", str(tmp_path / "a"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["illegible"] == 2
    assert report["illegible_files"] == [
        {"path": str(folder / "greek.png"), "pages": 1},
        {"path": str(folder / "layer.pdf"), "pages": 1},
    ]
    assert report["empty"] == 1
    assert report["passed_over"] == {"": 1, ".txt": 1, ".zip": 2}
    assert run(["index", str(folder), "--index", str(tmp_path / "b")]) == 0
    shown = capsys.readouterr().err
    assert "2 pages of 2 files seem to be in a script that cannot be read" in shown
    assert f"{folder / 'layer.pdf'}: 1 page" in shown
    assert "on 1 page no words were found" in shown
    assert "passed over: 1 without an ending, 1 .txt, 2 .zip" in shown


def test_the_text_encoder_says_so_too(tmp_path: Path) -> None:
    write_cyrillic_pdf(tmp_path / "layer.pdf")
    report = index_paths([tmp_path / "layer.pdf"], tmp_path / "index", "text", workers=1)
    assert report.illegible == {str(tmp_path / "layer.pdf"): 1}
    assert report.empty == 0
