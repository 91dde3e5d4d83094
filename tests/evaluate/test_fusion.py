from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from vsplade.cli import cli
from vsplade.errors import InputError
from vsplade.evaluate import PageVectors, evaluate_dataset, fuse_report, load_dataset, write_run
from vsplade.evaluate.fusion import text_half_run
from vsplade.types import SparseVector

from .conftest import TEXTS
from .sighted import paired

MakeDataset = Callable[..., Path]


def vectors(texts: dict[str, str | None]) -> PageVectors:
    """Vectors of ``reader+text`` for pages whose pixels show nothing but 'apples' on page a."""
    encoder = paired()
    seen = {page: encoder.first.encode_query("apples" if page == "a" else "zebra") for page in texts}
    return PageVectors.collect(
        (page, encoder._join(seen[page], encoder.text.encode_text(text or "")))
        for page, text in texts.items()
    )


def test_fusing_with_the_text_half(make_dataset: MakeDataset) -> None:
    dataset = load_dataset(make_dataset())
    pages = vectors({**TEXTS, "d": None})
    report = evaluate_dataset(dataset, paired(), vectors=pages)
    assert report.measures["recall@1"] == pytest.approx(0.5)  # the pixels know apples only
    run, unseen = text_half_run(dataset, paired(), pages, k=10)
    assert unseen == {"d"}
    fused, how = fuse_report(dataset, report, {"text": run}, (0.7, 0.3), unseen=[set(), unseen])
    assert fused.measures["ndcg@5"] == pytest.approx(1.0)
    assert fused.encoder == "sighted+text + text"
    assert how.alone[0] == pytest.approx(report.measures["ndcg@5"])
    assert not how.tuned_here


def test_tuning_is_labelled_and_excludes_weights(make_dataset: MakeDataset) -> None:
    dataset = load_dataset(make_dataset())
    report = evaluate_dataset(dataset, texts=TEXTS)
    wrong = {"q1": {"d": 2.0, "c": 1.0}, "q2": {"d": 2.0, "a": 1.0}}
    fused, how = fuse_report(dataset, report, {"wrong": wrong}, tune=True)
    assert how.tuned_here
    assert how.to_json()["tuned_on_this_set"] is True
    assert fused.measures["ndcg@5"] == pytest.approx(report.measures["ndcg@5"])
    with pytest.raises(InputError, match="not both"):
        fuse_report(dataset, report, {"wrong": wrong}, (0.5, 0.5), tune=True)
    with pytest.raises(InputError, match="nothing to fuse"):
        fuse_report(dataset, report, {})
    with pytest.raises(InputError, match=r"text\+text|keeps no text layers"):
        text_half_run(
            dataset, paired().text, PageVectors.collect([("a", SparseVector.from_dict({1: 1.0}))]), 5
        )


def test_eval_fuses_and_tunes_on_the_command_line(make_dataset: MakeDataset, tmp_path: Path) -> None:
    folder = make_dataset()
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in TEXTS.items()))
    other = tmp_path / "other.run"
    write_run(other, {"q1": {"a": 3.0, "b": 1.0}, "q2": {"c": 3.0, "d": 1.0}})
    base = ["eval", str(folder), "--texts", str(texts), "--json", "--fuse-with", str(other)]
    result = CliRunner().invoke(cli, base)
    assert result.exit_code == 0, result.output
    fusion = json.loads(result.stdout)["fusion"]
    assert fusion["weights"] == [0.5, 0.5]
    tuned = json.loads(CliRunner().invoke(cli, [*base, "--tune"]).stdout)["fusion"]
    assert tuned["tuned_on_this_set"] is True
    assert tuned["fused"] >= fusion["fused"]
    chosen = json.loads(CliRunner().invoke(cli, [*base, "--weights", "0.9,0.1", "--fusion", "rrf"]).stdout)
    assert chosen["fusion"]["method"] == "rrf"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--weights", "0.5,0.5"], "give --fuse"),
        (["--tune"], "give --fuse"),
        (["--fuse-with", "RUN", "--weights", "0.5,0.6"], "sum to 1"),
        (["--fuse-with", "RUN", "--weights", "half"], "write numbers"),
        (["--fuse-with", "RUN", "--weights", "1"], "need 2 weights"),
        (["--fuse-with", "BAD"], "line 1: page 'nowhere' is not in the corpus"),
    ],
)
def test_mistakes_are_explained(
    make_dataset: MakeDataset, tmp_path: Path, extra: list[str], message: str
) -> None:
    folder = make_dataset()
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in TEXTS.items()))
    (tmp_path / "RUN").write_text("q1 Q0 a 1 3.0 x\n")
    (tmp_path / "BAD").write_text("q1 Q0 nowhere 1 3.0 x\n")
    extra = [str(tmp_path / part) if part in ("RUN", "BAD") else part for part in extra]
    result = CliRunner().invoke(cli, ["eval", str(folder), "--texts", str(texts), *extra])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
