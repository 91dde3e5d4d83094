from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from vsplade.cli import cli
from vsplade.errors import InputError
from vsplade.evaluate import PageVectors, evaluate_dataset, fuse_with_text, load_dataset
from vsplade.evaluate.fusion import text_half_run

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
    assert text_half_run(dataset, paired(), pages, k=10)[1] == {"d"}
    fused, how = fuse_with_text(dataset, report, paired(), (0.7, 0.3))
    assert fused.measures["ndcg@5"] == pytest.approx(1.0)
    assert fused.encoder == "sighted+text + text layer"
    assert how.alone[0] == pytest.approx(report.measures["ndcg@5"])
    assert how.to_json()["weights"] == [0.7, 0.3]
    with pytest.raises(InputError, match="keeps no text layers"):
        fuse_with_text(dataset, report, paired().text)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--weights", "0.5,0.5"], "give --fuse"),
        (["--fuse"], "keeps no text layers"),
        (["--fuse", "--weights", "half"], "write numbers"),
    ],
)
def test_mistakes_are_explained(
    make_dataset: MakeDataset, tmp_path: Path, extra: list[str], message: str
) -> None:
    folder = make_dataset()
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in TEXTS.items()))
    result = CliRunner().invoke(
        cli, ["eval", str(folder), "--encoder", "text", "--texts", str(texts), *extra]
    )
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
