from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from research.bench import CorpusSpec, make_queries, search, two_stage_scale
from research.bench.corpus import generate
from research.bench.postings import exact_top, heaviest
from research.bench.search import SearchOptions, run_search_bench, to_markdown
from research.bench.worker import ENGINES, measure, run_task, summary, unweighted
from vsplade.errors import InputError

SPEC = CorpusSpec(2000, mean_terms=60, piece_pages=700)


INSTALLED = [name for name, engine in ENGINES.items() if not engine.missing()]


def test_what_needs_no_other_engine_is_here() -> None:
    assert {"vsplade", "vsplade-ids", "vsplade-batch", "stream", "scipy", "bm25s"} <= set(INSTALLED)


@pytest.mark.parametrize("name", INSTALLED)
def test_every_engine_finds_what_the_oracle_finds(name: str, tmp_path: Path) -> None:
    engine = ENGINES[name]()
    queries = make_queries(SPEC, 20)
    if not engine.weighs_queries:
        queries = unweighted(queries)
    oracle = exact_top(SPEC, queries, 10)
    assert engine.build(SPEC, tmp_path) > 0
    milliseconds, found, busy = measure(engine, queries, 10)
    assert busy >= 0
    assert len(milliseconds) == 20
    assert min(milliseconds) > 0
    assert engine.bytes() > 0
    if engine.measures_recall:
        exact = {"vsplade", "vsplade-ids", "vsplade-batch", "qdrant", "scipy", "bm25s"}
        assert oracle.recall(found, 10) >= (1.0 if name in exact else 0.8)
    if name in {"vsplade", "vsplade-ids", "vsplade-batch"}:
        assert [pages[0] for pages in found] == oracle.pages[:, 0].tolist()


def test_one_index_in_full_and_in_two_stages(tmp_path: Path) -> None:
    queries, ks = make_queries(SPEC, 10), (3, 10)
    ways = two_stage_scale.ours(SPEC, tmp_path)
    rows = two_stage_scale.in_turns(ways, queries, ks, 2)
    assert [(row["search"], row["k"]) for row in rows] == [(way, k) for way in ways for k in ks]
    ten = [row for row in rows if row["k"] == 10]
    assert ten[0]["recall"] == 1.0
    assert all(0.5 < row["recall"] <= 1 for row in ten[1:])
    assert ten[2]["recall"] < ten[1]["recall"]  # fewer pages proposed
    assert all(0 < row["least"] <= row["processor_ms"] <= row["most"] for row in rows)
    full = ways[two_stage_scale.FULL]
    exact = [full.pages(full.search(full.prepare(query, 10))) for query in queries]
    assert exact == [pages[:10] for pages in exact_top(SPEC, queries, 10).pages.tolist()]


def test_the_heaviest_terms_of_a_page() -> None:
    piece = next(iter(generate(SPEC)))
    few = heaviest(piece, 5)
    assert np.diff(few.offsets).max() == 5
    for row in range(20):
        whole = piece.weights[piece.offsets[row] : piece.offsets[row + 1]]
        kept = few.weights[few.offsets[row] : few.offsets[row + 1]]
        assert sorted(kept.tolist()) == sorted(whole.tolist())[-5:]


def test_the_floor_reads_every_posting_once() -> None:
    engine = ENGINES["stream"]()
    engine.build(SPEC, Path())
    query = make_queries(SPEC, 1)[0]
    spans = engine.prepare(query, 10)
    touched = exact_top(SPEC, [query], 1).flops * SPEC.pages
    read = 8 * int((spans[:, 1] - spans[:, 0]).sum())
    assert 3 * touched <= read < 3 * touched + 8 * len(query)
    words = np.arange(int(spans.max()), dtype=np.uint64)
    assert engine.search(spans) == sum(int(words[a:b].sum()) for a, b in spans)


def test_a_task_gives_the_agreed_rows(tmp_path: Path) -> None:
    queries = make_queries(SPEC, 5)
    exact_top(SPEC, queries, 20).save(tmp_path / "oracle.npz")
    task = {
        "engine": "vsplade",
        "spec": asdict(SPEC),
        "queries": 5,
        "ks": [5, 20],
        "oracle": tmp_path / "oracle.npz",
    }
    (tmp_path / "index").mkdir()
    rows = run_task(task, tmp_path / "index")["rows"]
    agreed = {"engine", "k", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "recall", "build_s", "bytes"}
    assert all(agreed <= set(row) for row in rows)
    assert [(row["k"], row["recall"]) for row in rows] == [(5, 1.0), (20, 1.0)]
    assert json.loads(json.dumps(rows)) == rows


def test_summary_by_hand() -> None:
    assert summary([1.0, 2.0, 3.0, 4.0]) == pytest.approx(
        {"mean_ms": 2.5, "p50_ms": 2.5, "p95_ms": 3.85, "p99_ms": 3.97}
    )


def test_the_whole_command_in_processes_of_their_own(tmp_path: Path) -> None:
    lines: list[str] = []
    report = run_search_bench(
        SearchOptions(
            1500,
            engine=(
                "vsplade",
                "stream",
            ),
            k=(10,),
            queries=5,
            folder=tmp_path,
        ),
        say=lines.append,
    )
    assert [row["engine"] for row in report["results"]] == ["vsplade", "stream"]
    assert report["failures"] == []
    assert report["results"][0]["recall"] == 1.0
    assert report["results"][1]["recall"] is None
    assert len(lines) == 3
    assert "| vsplade | 10 |" in to_markdown(report)
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_two_threads_are_measured_beside_one(tmp_path: Path) -> None:
    lines: list[str] = []
    run_search_bench(
        SearchOptions(
            1500,
            engine=("vsplade-batch",),
            k=(
                1,
                10,
            ),
            queries=5,
            folder=tmp_path,
        ),
        say=lines.append,
    )
    assert [line.split()[1] for line in lines[1:]] == ["k=1", "k=1", "k=10", "k=10"]
    assert re.search(
        r"best [\d,]+ queries a second on one thread, [\d,]+ on two: \d\.\d\dx; median", lines[2]
    )


def test_a_long_run_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PROGRESS_EVERY_S", 0.0)
    lines: list[str] = []
    run_search_bench(
        SearchOptions(1500, engine=("stream",), k=(10,), queries=5, folder=tmp_path), progress=lines.append
    )
    assert re.match(r"exact answers: 1,500 of 1,500 pages after \d+ s, now measuring", lines[0])
    assert any(line.startswith("stream: 1,500 of 1,500 pages") for line in lines)


def test_a_disk_that_is_too_small_is_known_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"takes about 3000000\.0 GB, and .* Name a folder .* --folder"):
        run_search_bench(SearchOptions(10**12, engine=("vsplade",), folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_takes_too_long_is_stopped_and_named(tmp_path: Path) -> None:
    report = run_search_bench(
        SearchOptions(1500, engine=("vsplade",), k=(10,), queries=5, folder=tmp_path, limit=0.05)
    )
    assert report["results"] == []
    assert report["failures"] == [{"engine": "vsplade", "reason": "stopped after 0 s"}]


def test_bad_options_are_refused() -> None:
    with pytest.raises(InputError, match=r"no engine 'lucene'; choose from: vsplade"):
        run_search_bench(SearchOptions(100, engine=("lucene",)))
    with pytest.raises(InputError, match="at least one query"):
        run_search_bench(SearchOptions(100, engine=("stream",), queries=0))
