"""The command line, end to end: every command runs in a process of its own, as a person would run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"

# The text encoder is named so that these tests say the same whichever encoder is the default.
TEXT = ("--encoder", "text")


def write_pdf(path: Path, *pages: str) -> Path:
    """A small PDF with a text layer: one line of Helvetica a page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in pages:
        content = f"BT /F1 14 Tf 40 700 Td ({text}) Tj ET" if text else ""
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    parts, offsets, size = ["%PDF-1.4\n"], [], 9
    for number, body in enumerate(objects, 1):
        offsets.append(size)
        parts.append(f"{number} 0 obj\n{body}\nendobj\n")
        size += len(parts[-1])
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    parts.append(
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{size}\n%%EOF\n"
    )
    path.write_bytes("".join(parts).encode("ascii"))
    return path


def vsplade(*arguments: str | Path, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vsplade", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=120, check=False)
    assert result.returncode == code, f"{command} gave {result.returncode}:\n{result.stdout}\n{result.stderr}"
    assert "Traceback" not in result.stderr
    return result


def as_json(*arguments: str | Path, code: int = 0) -> Any:
    """Run with ``--json`` and insist that stdout is one document."""
    return json.loads(vsplade(*arguments, "--json", code=code).stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = tmp_path / "files"
    files.mkdir()
    write_pdf(files / "turbine.pdf", "The turbine blade cracked near its root", "Library opening hours", "")
    write_pdf(files / "budget.pdf", "The budget grew and the turbine was paid")
    return files


@pytest.fixture
def index(folder: Path, tmp_path: Path) -> Path:
    target = tmp_path / "test.vsplade"
    vsplade("index", folder, "--index", target, *TEXT)
    return target


def hits(index: Path, *arguments: str) -> list[str]:
    return [hit["id"] for hit in as_json("search", *arguments, "--index", index)["hits"]]


def test_index_reports_and_a_second_run_skips(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "test.vsplade"
    first = as_json("index", folder, "--index", target, *TEXT)
    again = as_json("index", folder, "--index", target)
    assert (first["pages"], first["new"], first["failed"]) == (4, 4, 0)
    assert (again["new"], again["skipped"]) == (0, 4)
    shown = vsplade("index", folder, "--index", target)
    assert "4 pages" in shown.stderr + shown.stdout


def test_index_tells_which_pages_have_no_words(folder: Path, tmp_path: Path) -> None:
    report = as_json("index", folder, "--index", tmp_path / "test.vsplade", *TEXT)
    assert report["empty"] == 1


def test_search_finds_and_explains(index: Path) -> None:
    assert hits(index, "turbine blade") == ["turbine_1", "budget_1"]
    assert hits(index, "turbine blade", "-k", "1") == ["turbine_1"]
    found = as_json("search", "turbine blade", "--index", index)["hits"][0]
    assert (found["doc_id"], found["page_num"]) == ("turbine", 1)
    assert as_json("search", "library", "--index", index)["hits"][0]["page_num"] == 2
    assert sum(match["product"] for match in found["matches"]) == pytest.approx(found["score"], rel=1e-4)


def test_search_reads_well(index: Path) -> None:
    result = vsplade("search", "turbine blade", "--index", index)
    first, words = result.stdout.splitlines()[:2]
    assert "turbine.pdf" in first
    assert "page 1" in first
    assert "turbine" in words
    assert "blade" in words
    assert "[blade]" in result.stdout.splitlines()[3], "a word that the page lacks is shown in brackets"
    assert "\x1b" not in result.stdout, "colour belongs to terminals"
    assert " × " in vsplade("search", "blade", "--index", index, "--explain").stdout


def test_search_without_an_answer_is_no_error(index: Path) -> None:
    result = vsplade("search", "zzz", "--index", index)
    assert result.stdout == ""
    assert "Nothing found: no page holds" in result.stderr
    assert as_json("search", "", "--index", index)["hits"] == []
    assert "Write one or more words" in vsplade("search", "?!", "--index", index).stderr
    assert "knows none of these words" in vsplade("search", "日本語", "--index", index).stderr
    filtered = vsplade("search", "turbine", "--index", index, "--filter", "yaer=2024").stderr
    assert "No page passes the filter" in filtered
    assert "filtered by: doc_id, hash" in filtered
    least = vsplade("search", "turbine", "--index", index, "--min-score", "1e300").stderr
    assert "Nothing found: no page has a score of 1e+300 or more." in least


def test_changed_and_removed_files_are_followed(index: Path, folder: Path) -> None:
    write_pdf(folder / "budget.pdf", "Nothing about machines")
    (folder / "turbine.pdf").unlink()
    report = as_json("index", folder, "--index", index, "--prune")
    assert hits(index, "turbine") == []
    assert hits(index, "machines") == ["budget_1"]
    assert report["removed"] == 3


def test_metadata_and_filters(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "test.vsplade"
    vsplade("index", folder / "turbine.pdf", "--index", target, "--meta", "year=2020", *TEXT)
    vsplade("index", folder / "budget.pdf", "--index", target, "--meta", "year=2024")
    vsplade("index", folder / "turbine.pdf", "--index", target)  # keeps its year
    assert hits(target, "turbine", "--filter", "year=2024") == ["budget_1"]
    assert hits(target, "turbine", "--filter", "year<=2020") == ["turbine_1"]
    assert hits(target, "turbine", "--filter", "year>=2020", "--filter", "page_num=1") == [
        "turbine_1",
        "budget_1",
    ]
    assert as_json("search", "turbine", "--index", target, "--filter", "???", code=2)["error"]


def test_a_broken_file_costs_that_file_only(folder: Path, tmp_path: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 and then nothing")
    target = tmp_path / "test.vsplade"
    report = as_json("index", folder, "--index", target, *TEXT, code=1)
    assert report["failed"] == 1
    assert "broken.pdf" in report["failures"][0]["path"]
    assert report["failures"][0]["reason"]
    assert hits(target, "turbine")
    assert "broken.pdf" in vsplade("index", folder, "--index", target, code=1).stderr


def test_delete_check_compact_and_stats(index: Path) -> None:
    assert as_json("delete", "turbine_1", "--index", index)["deleted"] == 1
    assert hits(index, "turbine") == ["budget_1"]
    assert as_json("delete", "turbine_9", "--index", index, code=2)["error"]
    as_json("compact", "--index", index)
    assert hits(index, "turbine") == ["budget_1"]
    assert as_json("stats", "--index", index)["pages"] == 3
    assert "encoder" in vsplade("stats", "--index", index).stdout
    assert as_json("index", "--check", "--index", index)["problems"] == []


def test_check_finds_a_flipped_byte(index: Path) -> None:
    largest = max((path for path in index.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    damaged = bytearray(largest.read_bytes())
    damaged[-200] ^= 0xFF
    largest.write_bytes(damaged)
    document = as_json("index", "--check", "--index", index, code=2)
    assert largest.name in json.dumps(document)


def test_inspect_shows_the_heaviest_words(folder: Path) -> None:
    pages = as_json("inspect", folder / "turbine.pdf", "--top", "3", *TEXT)["pages"]
    assert [page["page_num"] for page in pages] == [1, 2, 3]
    assert len(pages[0]["terms"]) == 3
    weights = [term["weight"] for term in pages[0]["terms"]]
    assert weights == sorted(weights, reverse=True)
    shown = vsplade("inspect", folder / "turbine.pdf", "--page", "2", *TEXT).stdout
    assert "library" in shown
    assert "turbine.pdf, page 1" not in shown


def test_inspect_shows_what_is_worth_most_in_a_search(index: Path) -> None:
    """Stop words stand on the page most surely and most often, and no query gains by them."""
    page = ROOT / "tests" / "encode" / "scripts" / "english.png"
    terms = as_json("inspect", page, "--encoder", "reader", "--top", "1000")["pages"][0]["terms"]
    assert terms[0]["token"] in {"freedoms", "brotherhood", "endowed", "conscience", "dignity"}
    worth = [term["worth"] for term in terms]
    assert worth == sorted(worth, reverse=True)
    place = {term["token"]: number for number, term in enumerate(terms)}
    assert place["conscience"] < place["dignity"] < place["and"]
    assert place["the"] > len(terms) / 2


def test_a_filter_takes_the_path_that_a_result_shows(index: Path, folder: Path) -> None:
    def search(*arguments: str) -> str:
        command = [sys.executable, "-m", "vsplade", "search", "turbine", "--index", str(index), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder.parent, check=True, timeout=120
        )
        return done.stdout

    shown = search().splitlines()[0].split(". ", 1)[1].split(", page")[0]
    assert not Path(shown).is_absolute()
    only = search("--filter", f"path={shown}")
    assert shown in only
    assert only.count("page ") == 1
    assert search("--filter", "path^=files/") == search()


def test_inspect_says_when_an_encoder_has_no_places(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "out.png"
    document = as_json("inspect", folder / "budget.pdf", "--picture", picture, *TEXT, code=2)
    assert "places" in document["error"]
    assert not picture.exists()


def test_encode_writes_one_vector_a_page(folder: Path, tmp_path: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"nothing")
    output = tmp_path / "vectors.jsonl"
    report = as_json("encode", folder, "--output", output, *TEXT, code=1)
    lines = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    assert (report["pages"], report["failed"]) == (4, 1)
    assert [line["id"] for line in lines] == ["budget_1", "turbine_1", "turbine_2", "turbine_3"]
    assert lines[2]["vector"]["library"] > 0
    assert lines[3]["vector"] == {}


@pytest.mark.parametrize("form", ["anserini", "seismic"])
def test_export_and_import_give_the_same_answers(form: str, index: Path, tmp_path: Path) -> None:
    output, copy = tmp_path / "out", tmp_path / "copy.vsplade"
    vsplade("export", "--index", index, "--format", form, "--output", output)
    vsplade("import", output, "--index", copy, "--format", form, *TEXT)
    assert hits(copy, "turbine blade") == hits(index, "turbine blade")


def test_export_to_ciff(index: Path, tmp_path: Path) -> None:
    vsplade("export", "--index", index, "--format", "ciff", "--output", tmp_path / "out.ciff")
    assert (tmp_path / "out.ciff").stat().st_size > 0


@pytest.mark.parametrize("command", [("index", "files"), ("serve",), ("delete", "p1"), ("stats",)])
def test_a_second_index_is_refused_where_one_is_meant(command: tuple[str, ...], tmp_path: Path) -> None:
    """Not: the last one wins."""
    told = vsplade(*command, "--index", tmp_path / "a", "--index", tmp_path / "b", code=2).stderr
    assert "this command takes one index" in told
    assert not list(tmp_path.iterdir())


def test_a_missing_choice_is_told_on_one_line() -> None:
    said = vsplade("import", "x.jsonl", "--index", "i", code=2).stderr
    assert said.splitlines()[0].endswith(
        "Choose from: seismic, anserini, parquet. Try: vsplade import --help"
    )


def test_imports_refuse_other_vocabularies_whole(index: Path, tmp_path: Path) -> None:
    lines = tmp_path / "other.jsonl"
    lines.write_text(
        '{"id": "a", "vector": {"library": 1.0}}\n{"id": "b", "vector": {"no such token": 1.0}}\n'
    )
    error = as_json("import", lines, "--index", index, "--format", "seismic", code=2)["error"]
    assert "other.jsonl:2" in error
    assert as_json("stats", "--index", index)["pages"] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search", "x", "--index", "nowhere.vsplade"), "nowhere.vsplade"),
        (("search", "x"), "--index"),
        (("serach", "x"), "serach"),
        (("index", "--index", "new.vsplade"), "PATH"),
        (("index", "nothing-here.pdf", "--index", "new.vsplade"), "nothing-here.pdf"),
        (("index", ".", "--index", "new.vsplade", "--encoder", "txet"), "text"),
        (("index", ".", "--index", "new.vsplade", "--encoder", "text:k9=1"), "k1, b, average_length"),
        (("index", ".", "--index", "new.vsplade", "--meta", "year"), "KEY=VALUE"),
        (("eval", "no-such-folder"), "no-such-folder"),
        (("inspect", "no-such-file.pdf"), "no-such-file.pdf"),
    ],
)
def test_mistakes_are_explained(arguments: tuple[str, ...], message: str) -> None:
    plain = vsplade(*arguments, code=2)
    assert message in plain.stderr
    assert plain.stdout == ""
    assert message in as_json(*arguments, code=2)["error"]


def test_searching_with_another_model_is_refused(index: Path) -> None:
    error = as_json("search", "turbine", "--index", index, "--encoder", "text:k1=0.5", code=2)["error"]
    assert "text" in error


def test_an_index_remembers_its_encoder(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "test.vsplade"
    vsplade("index", folder, "--index", target, "--encoder", "text:k1=0.5")
    assert hits(target, "turbine blade") == ["turbine_1", "budget_1"]
    assert as_json("stats", "--index", target)["encoder"] == "text:k1=0.5"


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_is_safe_and_says_so(folder: Path, tmp_path: Path, sign: signal.Signals) -> None:
    for number in range(40):
        write_pdf(folder / f"more{number}.pdf", *(["some words to read"] * 30))
    target = tmp_path / "test.vsplade"
    command = [sys.executable, "-m", "vsplade", "index", str(folder), "--index", str(target), *TEXT]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    # The first commit is there, most of the work is not: a page takes some milliseconds.
    end = time.monotonic() + 60
    while not any(target.glob("*")):
        assert process.poll() is None, "it ended before it wrote anything"
        assert time.monotonic() < end, "nothing was written"
        time.sleep(0.01)
    os.killpg(process.pid, sign)
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"again" in shown
    assert b"Traceback" not in shown
    vsplade("index", folder, "--index", target, *TEXT)
    assert as_json("stats", "--index", target)["pages"] == 1204


def test_output_may_be_cut_short(index: Path) -> None:
    command = f"{sys.executable} -m vsplade search turbine --index {index} --explain | head -n 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert "Traceback" not in result.stderr


def test_the_examples_can_be_searched(tmp_path: Path) -> None:
    target = tmp_path / "examples.vsplade"
    report = as_json("index", EXAMPLES, "--index", target)
    assert report["failed"] == 0
    assert report["pages"] >= 5
    found = as_json("search", "table", "--index", target)["hits"]
    assert found
    assert found[0]["metadata"]["path"].startswith(str(EXAMPLES))


def test_eval_measures_a_folder(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "set"
    data.mkdir()
    folder.rename(data / "pdfs")
    queries = [{"_id": "q1", "text": "turbine blade"}, {"_id": "q2", "text": "library"}]
    (data / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    (data / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tturbine_1\t1\nq2\tbudget_1\t1\n")
    run = tmp_path / "run.txt"
    report = as_json("eval", data, *TEXT, "--run", run, "--per-query")
    assert report["per_query"]["ndcg@5"] == {"q1": 1.0, "q2": 0.0}
    assert report["ndcg@5"] == 0.5
    assert (report["queries"], report["pages"]) == (2, 4)
    assert run.read_text().startswith("q1 Q0 turbine_1 1 ")
    compared = as_json("eval", data, *TEXT, "--compare", run, "--measure", "recall@1")["comparison"]
    assert compared["difference"] == 0.0
    assert "ndcg@5" in vsplade("eval", data, *TEXT, "--compare", run).stdout
    kept = tmp_path / "kept.npz"
    vsplade("eval", data, *TEXT, "--keep-vectors", kept)
    assert as_json("eval", data, *TEXT, "--vectors", kept)["ndcg@5"] == 0.5


def test_an_empty_name_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--index "$UNSET"` must not make an index of the folder one happens to be in."""
    monkeypatch.chdir(tmp_path)
    for command in (("index", "."), ("search", "word"), ("compact",)):
        assert "the name is empty" in vsplade(*command, "--index", "", code=2).stderr
    assert not list(tmp_path.iterdir())


def test_what_would_do_nothing_or_two_things_is_refused(folder: Path, tmp_path: Path) -> None:
    """A mistyped folder became an empty index, an empty folder emptied a file, and --recover was ignored."""
    assert "no index here" in vsplade("index", "--prune", "--index", tmp_path / "typo", code=2).stderr
    assert not (tmp_path / "typo").exists()
    (tmp_path / "empty").mkdir()
    (tmp_path / "kept.txt").write_text("mine")
    vsplade("read", tmp_path / "empty", "-o", tmp_path / "kept.txt", code=2)
    assert (tmp_path / "kept.txt").read_text() == "mine"
    vsplade("index", folder, "--index", tmp_path / "i", *TEXT)
    assert "one of them" in vsplade("index", "--check", "--recover", "--index", tmp_path / "i", code=2).stderr
