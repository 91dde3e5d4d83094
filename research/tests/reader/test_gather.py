"""Gathering text and fonts from public packages; none of this needs torch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from research.reader import vocabulary
from research.reader.gather import gather_text
from research.reader.options import (
    FontsOptions,
    QueryTableOptions,
    TextOptions,
    VocabularyOptions,
    WordsOptions,
)
from research.reader.query_table import build_query_table
from research.reader.vocabulary import build_vocabulary, digit_pieces, picked
from research.reader.words import CHARSET, WordBank, build_words
from vsplade.encode.tokenizer import GOES_ON, Tokenizer
from vsplade.errors import InputError

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    (folder / "man1").mkdir(parents=True)
    (folder / "words.dict.dz").write_bytes(gzip.compress(b"Aardvark\n   a nocturnal mammal\n"))
    (folder / "words.index").write_text("aardvark A B")
    (folder / "man1" / "ls.1.gz").write_bytes(
        gzip.compress(b".TH LS 1\n.B list\\fI directory\\fP contents\n")
    )
    page = "<style>p {colour: red}</style><script>x = 1</script><p>Bread &amp; butter</p>"
    (folder / "page.html").write_text(page)
    rows = [{"_id": "skip-me", "query": "what is rust", "text": "an oxide", "n": 3}, {"tsv": "Year\tTeam"}]
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return folder


def test_every_kind_of_source_gives_its_words(sources: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.txt"
    result = gather_text(TextOptions((sources, EXAMPLES / "table.pdf"), out))
    text = out.read_text("utf-8")
    for words in ("nocturnal mammal", "list directory contents", "Bread & butter", "an oxide", "Year\tTeam"):
        assert words in text
    for junk in ("colour", "x = 1", "skip-me", ".TH", "\\f", "<p>"):
        assert junk not in text
    assert (result["files"], result["skipped"]) == (5, 1)
    assert result["characters"] == len(text)
    assert len(text) > 200, "the PDF's text is missing"


def test_sources_that_give_nothing_are_an_error(sources: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file or folder"):
        gather_text(TextOptions((tmp_path / "none",), tmp_path / "out.txt"))
    with pytest.raises(InputError, match="kind"):
        gather_text(TextOptions((sources / "words.index",), tmp_path / "out.txt"))
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"no pdf")
    with pytest.raises(InputError, match=r"broken\.pdf"):
        gather_text(TextOptions((broken,), tmp_path / "out.txt"))


def test_fonts_are_cut_down_and_still_draw_the_same(face: Path, tmp_path: Path) -> None:
    pytest.importorskip("fontTools", reason="cutting fonts needs fonttools: pip install 'vsplade[train]'")
    from fontTools.ttLib import TTFont
    from PIL import ImageFont

    from research.reader.fonts import gather_fonts

    folder = tmp_path / "fonts"
    folder.mkdir()
    (folder / "bad.ttf").write_bytes(b"not a font")
    web = TTFont(face)
    web.flavor = "woff"
    web.save(folder / "good.woff")
    (folder / "the_same_again.ttf").write_bytes(face.read_bytes())
    result = gather_fonts(FontsOptions((folder,), tmp_path / "out"))
    assert (result["fonts"], result["left_out"]) == (1, 2)
    written = list((tmp_path / "out").iterdir())
    assert [path.name for path in written] == ["0001_good.otf"]
    before, after = ImageFont.truetype(str(face), 30), ImageFont.truetype(str(written[0]), 30)
    assert all(bytes(before.getmask(c)) == bytes(after.getmask(c)) for c in CHARSET if c.isascii())
    with pytest.raises(InputError, match="usable"):
        gather_fonts(FontsOptions((folder,), tmp_path / "none", largest=3))
    with pytest.raises(InputError, match="no folder"):
        gather_fonts(FontsOptions((tmp_path / "missing",), tmp_path / "none"))


def test_a_vocabulary_holds_words_digits_and_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wordfreq", reason="general English needs wordfreq: pip install 'vsplade[train]'")
    common = vocabulary.general_frequencies(5000)
    monkeypatch.setattr(vocabulary, "general_frequencies", lambda: common)
    text = tmp_path / "a.txt"
    text.write_text("zorblax " * 4000 + "quintal zorblax harmonic " * 50)
    out = tmp_path / "vocabulary.txt"
    result = build_vocabulary(VocabularyOptions((text,), out, size=6000, whole_words=1500))
    lines = out.read_text().split()
    assert len(lines) == len(set(lines)) == result["tokens"] == 6000
    assert {"zorblax", "the", *digit_pieces(), "q##", "##q"} <= set(lines)
    going_on = [GOES_ON in line for line in lines]
    assert going_on == sorted(going_on), "pieces come after words"
    assert Tokenizer(lines).encode("zorblax") == [lines.index("zorblax")]


def test_pieces_show_most_letters_of_most_words() -> None:
    words = [(["tox", "to", "t"], 5.0), (["top", "to", "t"], 4.0), (["qu", "q"], 1.0), (["xen", "x"], 0.1)]
    assert picked(words, 4) == ["q", "t", "to", "x"], "one piece for the two words that begin alike"
    words += [([a + b + "x", a + b, a], 1.0) for a in "abc" for b in "defghij"]
    few = picked(words, 6 + 21)
    assert len(few) == 6 + 21
    assert not {"ad", "be", "cf"} & set(few), "what longer pieces show gives way to them"


def test_the_word_bank_is_made_from_text(tmp_path: Path) -> None:
    pytest.importorskip("wordfreq", reason="rare words need wordfreq: pip install 'vsplade[train]'")
    text = tmp_path / "a.txt"
    text.write_text("The quick brown fox jumps over the lazy dog. " * 200)
    result = build_words(
        WordsOptions((text,), tmp_path / "words.npz", words_each=1000, repeats=1, rare=2000, numbers=2000)
    )
    bank = WordBank.load(tmp_path / "words.npz")
    assert len(bank.length) == result["printed_words"]
    assert int(bank.stream.max()) < len(bank.length)
    assert bank.kind_start.tolist() == sorted(bank.kind_start.tolist())
    assert result["stream"]["prose"] == 1000
    terms = set(bank.pieces[bank.pieces >= 0].tolist())
    tokenizer = Tokenizer.load()
    whole = [n for n in range(len(tokenizer)) if GOES_ON not in tokenizer.token(n)]
    assert len(terms.intersection(whole)) == len(whole), "every whole word is drawn some time"


def test_rare_terms_weigh_more_in_the_query_table(tmp_path: Path) -> None:
    pytest.importorskip("snowballstemmer", reason="stems need snowballstemmer: pip install 'vsplade[train]'")
    pytest.importorskip("wordfreq", reason="general English needs wordfreq: pip install 'vsplade[train]'")
    text = tmp_path / "a.txt"
    text.write_text(("the report " * 300 + "zebra ") * 20)
    result = build_query_table(QueryTableOptions((text,), tmp_path / "query.npy"))
    table, tokenizer = np.load(tmp_path / "query.npy"), Tokenizer.load()
    assert len(table) == result["terms"] == len(tokenizer)
    common, rare = (float(table[tokenizer.encode(word)[0]]) for word in ("the", "volcano"))
    assert 0 < common < rare
    known, unknown = (float(table[tokenizer.encode(word)[0]]) for word in ("people", "volcano"))
    assert known < unknown, "neither is in the text, but one is common English"
    related = np.load(tmp_path / "related.npy")
    report, reports = tokenizer.encode("report reports")
    assert [report, reports] in related.tolist()
    assert [reports, report] in related.tolist()
