"""The report: every section, six figures, what was not run, and nothing of a result as HTML."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from research.experiments import report
from research.experiments.fusing import fused_run
from research.experiments.paper import measured_rows
from research.paper.curves import best_and_last
from vsplade.errors import InputError

SCALE = [{"search": name, "recall@5": 0.8, "ms, 1 threads": ms} for name, ms in (("full", 0.5), ("two", 0.1))]
RERANKED = [{"first stage": "sparse", "recall@5": 0.5, "recall@5, reranked": 0.7, "recall@100": 0.9}]


def point(step: int, ndcg: float, stop: float) -> dict[str, object]:
    return {"step": step, "dev": {"ndcg@5": ndcg, "flops": ndcg, "active": 9, "stop_share": stop}}


def run(row: str, seed: int, ndcgs: list[float]) -> dict[str, object]:
    measured = [point(10 * n, ndcg, 0.1 * n) for n, ndcg in enumerate(ndcgs, 1)]
    return {"row": row, "seed": seed, "measured": measured, "final": measured[-1], "table": {"zero": 0.25}}


RUNS = [
    run("Li-LSR", 0, [0.5, 0.4]),
    run("Li-LSR", 1, [0.3, 0.6]),
    run("gated by OCR text", 0, [0.6, 0.7]),
]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    kept = {
        "a": {"encoder": "reader", "pages": 1234, "queries": 5, "ndcg@5": 0.5, "flops": 0.1},
        "grounding.a": {"overlap": {"image": {"top-30": 0.5}}},
        "flops.a": {"per_query": [{"system": "sparse", "total": 900}, {"system": "dense", "total": 10**9}]},
        "scale.a": {"rows": SCALE},
        "subsets.a": {"rows": [{"subset": "<b>all</b>", "gap": 0.1}]},
        "growth.a": {
            "rows": [{"pages": 10, "recall@5": 0.9}, {"pages": 100, "recall@5": 0.8}],
            "dense rows": [{"pages": 10, "recall@5": 0.8}, {"pages": 100, "recall@5": 0.4}],
        },
        "reranking.a": {"model": "minilm", "rows": RERANKED},
        "cases.a": {
            "cases": [
                {"query": "q", "page": "p", "picture": "data:image/jpeg;base64,AAAA",
                 **{key: [["word", 0.5]] for key in ("Q", "P", "P*", "C", "C*")}}
            ]
        },
        "throughput.a": {
            "encoder": "mine", "pages": 8, "cores": 2,
            "reader": {"pages_per_s": 3.25, "pages_per_cpu_s": 5.5},
            "tesseract": {"pages_per_s": 1.5, "pages_per_cpu_s": 0.75},
        },
        "throughput.a.rapidocr": {
            "engine": "rapidocr", "pages": 8, "wall_s": 4.0, "pages_per_processor_s": 0.4,
        },
    }  # fmt: skip
    for name, value in kept.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    (tmp_path / "ablation").mkdir()
    (tmp_path / "ablation" / "ablation.json").write_text(json.dumps({"results": RUNS}))
    (tmp_path / "table" / "ours").mkdir(parents=True)
    (tmp_path / "table" / "ours" / "mine.json").write_text('{"ndcg@5": 0.512, "flops": 0.875}')
    return tmp_path


def test_one_page_with_six_figures(results: Path) -> None:
    text, missing = report.page(results)
    assert text.count("<svg") == 6
    assert missing == [
        "Fusion at scale",
        "Union of image and caption terms",
        "Masking, margin, stop words, active terms",
    ]
    assert "<b>all" not in text
    assert "&lt;b&gt;all" in text
    assert "51.2" in text
    assert "<td>1,234</td>" in text
    assert 'src="data:image/jpeg;base64,AAAA"' in text
    assert "60.1" in text  # the paper's own average stands beside ours
    nothing, all_missing = report.page(results / "table")
    assert nothing.count("<svg") == 1  # the drawing of the idea needs no results
    assert len(all_missing) == len(report.SECTIONS) - 1


def test_rates_of_all_systems_stand_in_one_table(results: Path) -> None:
    (part,) = report.throughput(results)
    assert [(row["system"], row["pages a second"]) for row in part.tables["a"]] == [
        ("mine", 3.25), ("tesseract", 1.5), ("rapidocr", 2.0),
    ]  # fmt: skip
    assert [row["a second of processor time"] for row in part.tables["a"]] == [5.5, 0.75, 0.4]


def test_captioners_are_rows_of_the_table(results: Path) -> None:
    assert len(report.captioners(results)) == 1  # of the ablation alone
    (results / "table" / "captions-small").mkdir()
    (results / "table" / "captions-small" / "mine.json").write_text('{"ndcg@5": 0.25, "flops": 1}')
    own, _ = report.captioners(results)
    assert own.tables["NDCG@5, in points"] == [{"captions by": "small", "mine": "25.0", "FLOPS": "1.00"}]


def test_a_result_that_cannot_be_read_is_named(results: Path) -> None:
    (results / "flops.b.json").write_text("{")
    with pytest.raises(InputError, match=r"flops\.b\.json is no JSON"):
        report.page(results)
    with pytest.raises(InputError, match="is not a folder"):
        report.page(results / "none")


def test_the_best_step_stands_beside_the_last() -> None:
    softplus, gated = best_and_last(RUNS)
    assert (softplus["row"], softplus["seeds"]) == ("Li-LSR", 2)
    assert softplus["dev: last"] == "0.500 (0.400 to 0.600)"
    assert softplus["dev: best"] == "0.550 (0.500 to 0.600)"
    assert softplus["dev: best step"] == "10, 20"
    assert gated["dev: last"] == gated["dev: best"] == "0.700"


def test_rows_of_the_table_by_folder(results: Path) -> None:
    (results / "table" / "theirs").mkdir()
    (results / "table" / "theirs" / "visrag.mpdocvqa.json").write_text('{"ndcg@5": 0.8}')
    assert measured_rows(results / "table") == [
        {"system": "ours", "visrag": "-", "mine": "51.2", "FLOPS": "0.88"},
        {"system": "theirs", "visrag": "80.0 (1 of 6)", "mine": "-", "FLOPS": "-"},
    ]
    fused = fused_run([{"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 5.0, "c": 4.0}}], [0.7, 0.3])
    assert list(fused["q"]) == ["a", "b", "c"]
    with pytest.raises(InputError, match="2 runs and 1 weights"):
        fused_run([{}, {}], [1.0])
