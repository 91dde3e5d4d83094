"""The commands on an engine: the same words, the same answers."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.backends.places import ENGINES, where
from tests.test_cli import write_pdf

from vsplade import cli

PAGES = (
    "the keeper of the lighthouse",
    "maintenance of the turbine",
    "the lighthouse and the harbour",
    "a turbine in the harbour",
)


def run(*arguments: str | Path, code: int = 0) -> Any:
    """In this process: the client of an engine takes seconds to import."""
    out = io.StringIO()
    with redirect_stdout(out):
        done = cli.run([*map(str, arguments), "--json"])
    assert done == code, out.getvalue()
    return json.loads(out.getvalue())


def ranking(answer: Any) -> list[tuple[str, float]]:
    return [(hit["id"], round(hit["score"], 3)) for hit in answer["hits"]]


@pytest.mark.parametrize("engine", ENGINES)
def test_index_search_delete_and_export(engine: str, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    write_pdf(files / "a.pdf", *PAGES[:2])
    write_pdf(files / "b.pdf", *PAGES[2:])
    folder, place = tmp_path / "index", where(engine, tmp_path)
    for index in (folder, place):
        report = run("index", files, "--index", index, "--encoder", "text")
        assert (report["new"], report["failed"]) == (4, 0)
    assert run("index", files, "--index", place)["skipped"] == 4
    for query in ("lighthouse harbour", '"the turbine"', "turbine -harbour", "+lighthouse keeper"):
        first, second = (run("search", query, "--index", index) for index in (folder, place))
        assert ranking(first) == ranking(second)
        assert first["words"] == second["words"]
    one = ("search", "turbine", "--filter", "page_num=2")
    assert ranking(run(*one, "--index", folder)) == ranking(run(*one, "--index", place))
    fused = run("search", "turbine", "--index", folder, "--fuse-with", place)
    assert [hit["id"] for hit in fused["hits"]] == [
        hit["id"] for hit in run(*one[:2], "--index", place)["hits"]
    ]
    assert run("stats", "--index", place)["pages"] == 4
    # a changed file replaces its pages, a removed one goes
    write_pdf(files / "a.pdf", "only the harbour now")
    (files / "b.pdf").unlink()
    report = run("index", files, "--index", place, "--prune")
    assert (report["updated"] + report["new"], report["removed"]) == (1, 3)
    assert [hit["doc_id"] for hit in run("search", "harbour", "--index", place)["hits"]] == ["a"]
    assert run("export", "--index", place, "--format", "parquet", "--output", tmp_path / "out")["pages"] == 1
    run("import", tmp_path / "out", "--index", where(engine, tmp_path, "copy"), "--format", "parquet")
    assert run("search", "harbour", "--index", where(engine, tmp_path, "copy"))["hits"]
    assert run("delete", "--filter", "doc_id=a", "--index", place)["deleted"] == 1
    assert run("search", "harbour", "--index", place)["hits"] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_eval(engine: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "images").mkdir(parents=True)
    for letter, name in (("p", "texts"), ("q", "queries")):
        lines = [{"_id": f"{letter}{number}", "text": text} for number, text in enumerate(PAGES)]
        (data / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for number in range(len(PAGES)):
        Image.new("L", (40, 60), 255).save(data / "images" / f"p{number}.png")
    (data / "qrels.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"q{n}\tp{n}\t1\n" for n in range(len(PAGES)))
    )
    asked = ("eval", data, "--texts", data / "texts.jsonl")
    first, second = run(*asked), run(*asked, "--index", where(engine, tmp_path))
    measures = [name for name in first if "@" in name]
    assert measures
    assert [first[name] for name in measures] == [second[name] for name in measures]
    assert run(*asked, "--index", where(engine, tmp_path), code=2)["error"]


@pytest.mark.parametrize("arguments", [["compact"], ["index", "--check"], ["index", "--recover"]])
def test_what_is_for_folders_says_so(arguments: list[str]) -> None:
    told = run(*arguments, "--index", "milvus://127.0.0.1:1/pages", code=2)
    assert "for indexes in a folder" in json.dumps(told)


def test_indexes_on_engines_are_not_joined(tmp_path: Path) -> None:
    address = "milvus://127.0.0.1:1/pages"
    for arguments in ([address, "-o", tmp_path / "all"], [tmp_path / "a", "-o", address]):
        told = run("merge", *arguments, code=2)
        assert f"{address}: joining is for indexes in a folder" in json.dumps(told)
