from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.evaluate.sighted import Sighted

from research.experiments.paper import ROWS
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.evaluate import load_dataset, measure
from vsplade.types import Page, SparseVector

mteb = pytest.importorskip("mteb")
datasets = pytest.importorskip("datasets")

from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

from research.experiments.mteb_model import VspladeSearch, mteb_run

WORDS = ("apples", "engine", "turbine", "harbour")


class Shades(Sighted):
    """Reads a page by its shade of grey: page n shows word n."""

    fingerprint = "shades-1"

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        for page in pages:
            shade = int(np.asarray(page.image.convert("L")).mean())
            terms = set(Tokenizer.load().encode(WORDS[shade // 60]))
            yield SparseVector.from_dict(dict.fromkeys(terms, 1.0))


def pictures() -> list[Image.Image]:
    return [Image.new("RGB", (30, 40), (n * 60 + 10,) * 3) for n in range(len(WORDS))]


class ToyTask(AbsTaskRetrieval):  # type: ignore[misc]
    metadata = TaskMetadata(
        name="ToyPages",
        description="Four pages, each with one word.",
        reference=None,
        dataset={"path": "none/none", "revision": "1"},
        type="DocumentUnderstanding",
        category="t2i",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_5",
        modalities=["text", "image"],
    )

    def load_data(self, *args: Any, **kwargs: Any) -> None:
        corpus = {"id": [f"p{n}" for n in range(len(WORDS))], "image": pictures()}
        queries = {"id": ["q0", "q1"], "text": ["the turbine", "apples please"]}
        self.dataset = {
            "default": {
                "test": {
                    "corpus": datasets.Dataset.from_dict(corpus),
                    "queries": datasets.Dataset.from_dict(queries),
                    "relevant_docs": {"q0": {"p2": 1}, "q1": {"p0": 1}},
                    "top_ranked": None,
                }
            }
        }
        self.data_loaded = True


def test_a_toy_task_of_mteb_runs_on_our_index() -> None:
    model = VspladeSearch(Shades())
    result = mteb.evaluate(model, [ToyTask()], cache=None)
    scores = result.task_results[0].scores["test"][0]
    assert scores["ndcg_at_5"] == pytest.approx(1.0)
    assert scores["recall_at_1"] == pytest.approx(1.0)
    assert model.mteb_model_meta.name == "vsplade/sighted"
    model.close()


def test_the_protocol_is_mtebs() -> None:
    from mteb.models import SearchProtocol

    assert isinstance(VspladeSearch(Shades()), SearchProtocol)


def test_reranking_scores_only_what_was_found_before() -> None:
    model = VspladeSearch(Shades())
    corpus = [{"id": f"p{n}", "image": image} for n, image in enumerate(pictures())]
    model.index(corpus)
    found = model.search([{"id": "q", "text": "apples engine"}], top_ranked={"q": ["p1", "p3"]}, top_k=1)
    assert list(found["q"]) == ["p1"]
    model.close()
    with pytest.raises(InputError, match="nothing to search yet"):
        model.search([{"id": "q", "text": "apples"}])
    with pytest.raises(InputError, match="has no picture"):
        model.index([{"id": "x", "text": "words only"}])


def test_a_model_of_mteb_on_our_data_set(make_dataset: Callable[..., Path]) -> None:
    folder = make_dataset()
    for n, page in enumerate("abcd"):
        pictures()[n].save(folder / "images" / f"{page}.png")
    dataset = load_dataset(folder)  # q1 asks for a (apples), q2 for b and c (engine)
    run = mteb_run(dataset, VspladeSearch(Shades()), k=10)
    assert list(run["q1"]) == ["a"]
    assert measure(dataset.qrels, run, ["recall@1"])["recall@1"] == pytest.approx((1 + 0.5) / 2)
    reranked = mteb_run(
        dataset, VspladeSearch(Shades()), first_stage={"q1": {"b": 2.0, "a": 1.0}, "q2": {"d": 1.0}}
    )
    assert reranked == {"q1": {"a": pytest.approx(1.0)}, "q2": {}}


def test_every_row_of_the_paper_is_in_the_registry() -> None:
    known = {meta.name for meta in mteb.get_model_metas()}
    missing = [row.mteb for row in ROWS if row.mteb and row.mteb not in known]
    assert not missing
