from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.evaluate.conftest import TEXTS

from research.experiments.eval_report import (
    EvalReportOptions,
    read_report,
    report,
    to_html,
    to_markdown,
    write_report,
)  # fmt: skip
from vsplade.errors import InputError
from vsplade.evaluate import evaluate_dataset

MakeDataset = Callable[..., Path]


def test_report_files(make_dataset: MakeDataset, tmp_path: Path) -> None:
    folder = make_dataset()
    good = evaluate_dataset(folder, texts=TEXTS)
    bad = evaluate_dataset(folder, "text:k1=0", texts={**TEXTS, "a": "", "b": "engine"})
    markdown = to_markdown([good, bad])
    assert "| set | text:k1=0.0 |" in markdown
    assert "against the first system: NDCG@5 -0.5" in markdown
    paths = write_report(tmp_path / "out", [good, bad], plots=False)
    assert [path.name for path in paths] == ["report.json", "report.md", "report.html"]
    assert len(json.loads(paths[0].read_text())["reports"]) == 2
    assert "<img" not in paths[2].read_text()
    with pytest.raises(InputError, match="nothing to report"):
        write_report(tmp_path / "none", [])


def test_report_plots(make_dataset: MakeDataset) -> None:
    pytest.importorskip("matplotlib")
    page = to_html([evaluate_dataset(make_dataset(), texts=TEXTS)])
    assert page.count('src="data:image/png;base64,iVBOR') == 2


def test_a_report_of_what_vsplade_eval_printed(make_dataset: MakeDataset, tmp_path: Path) -> None:
    found = evaluate_dataset(make_dataset(), texts=TEXTS)
    printed = tmp_path / "bm25.json"
    printed.write_text(json.dumps(found.to_json(per_query=True)))
    assert to_markdown([read_report(printed)]) == to_markdown([found])
    written = report(EvalReportOptions(tmp_path / "out", (printed, printed), no_plots=True))
    assert "against the first system: NDCG@5 +0.0000" in Path(written[1]).read_text()
    printed.write_text(json.dumps(found.to_json()))
    with pytest.raises(InputError, match="per_query"):
        read_report(printed)
