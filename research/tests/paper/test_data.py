"""Readers of the public layouts, of folders and of PDFs; the plan of a run."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("pyarrow")

from research.paper import data
from research.paper.data import (
    ColpaliPairs,
    LongQueryPairs,
    RlhnPairs,
    check_captions,
    picture_id,
    read_captions,
)
from research.paper.mixing import MixedConfig, MixedLoader, MixedPlan, text_losses
from vsplade.errors import InputError
from vsplade.train.losses import Side, flops, info_nce
from vsplade.train.pairs import FolderPairs, shuffled
from vsplade.train.pdfs import pick_queries, prepare_pdfs

from .conftest import WORDS, picture

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def test_colpali_rows(colpali: Path) -> None:
    pairs = ColpaliPairs(colpali)
    assert list(pairs.groups) == [4, 4, 2, 3, 4, 2]  # the row without a query is left out
    kept = [n for n in range(20) if n != 13]
    for place, n in enumerate(kept):
        pair = pairs[place]
        assert (pair.query, pair.image, pair.caption) == (f" {WORDS[n % 5]} page", picture(n), None)
        assert pair.id == picture_id(picture(n))


def test_captions_must_match_their_pages(colpali: Path, tmp_path: Path) -> None:
    captions = {picture_id(picture(n)): f"caption {n}" for n in range(20)}
    pairs = ColpaliPairs(colpali, captions)
    assert pairs[2].caption == "caption 2"
    ids = pairs.ids(tmp_path / "captions.jsonl")
    assert ids == [picture_id(picture(n)) for n in range(20) if n != 13]
    check_captions(ids, captions)
    others = {picture_id(picture(n)): "x" for n in range(3)}
    with pytest.raises(InputError, match="16 of 19 pictures have no caption"):
        check_captions(ids, others)
    with pytest.raises(InputError, match="belong to other pictures"):
        ColpaliPairs(colpali, others)[10]
    path = tmp_path / "captions.jsonl"
    for line, message in (
        ("{", "line 1: not JSON"),
        ("[1]", "expected a JSON object"),
        ('{"id": 3}', "text 'id'"),
    ):
        path.write_text(line + "\n")
        with pytest.raises(InputError, match=message):
            read_captions(path)


def test_pictures_are_read_once_for_their_ids(
    colpali: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "data"
    shutil.copytree(colpali, copy)
    ids = ColpaliPairs(copy).ids(tmp_path / "captions.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(data, "picture_id", lambda _: pytest.fail("read again"))
        assert ColpaliPairs(copy).ids(tmp_path / "captions.jsonl") == ids
    (tmp_path / "captions.jsonl.rows").write_text('{"stamp": [')  # a run that was killed
    assert ColpaliPairs(copy).ids(tmp_path / "captions.jsonl") == ids
    next(copy.rglob("*.parquet")).unlink()
    assert len(ColpaliPairs(copy).ids(tmp_path / "captions.jsonl")) < len(ids)


def test_rlhn_rows(rlhn: Path) -> None:
    config = MixedConfig(shortest_query=0, text_titles=True)
    pairs = RlhnPairs(rlhn, config)
    assert sum(pairs.groups) == 14  # one row has no hard negatives left
    assert all(len(pairs.take(n, 0).passages) == 3 for n in range(14))
    single = next(p for p in (pairs.take(n, 0) for n in range(14)) if p.passages[1] == p.passages[2])
    assert single.passages[0].startswith("Title 4 ")
    none = RlhnPairs(rlhn, replace(config, hard_negatives=0))
    assert sum(none.groups) == 15
    assert len(none.take(3, 0).passages) == 1


def test_rlhn_is_sampled_and_drawn_as_the_public_code_does(rlhn: Path) -> None:
    config = MixedConfig(shortest_query=0, text_sample=7)
    some, again = RlhnPairs(rlhn, config), RlhnPairs(rlhn, config)
    assert sum(some.groups) == 7
    rows = [some.take(n, 0) for n in range(7)]
    assert rows == [again.take(n, 0) for n in range(7)]  # drawn once, for a seed
    assert not any("Title" in text for row in rows for text in row.passages)  # text only
    whole = RlhnPairs(rlhn, replace(config, text_sample=0))
    known = [whole.take(n, 0).query for n in range(14)]
    assert [row.query for row in rows] != known[:7]
    other = RlhnPairs(rlhn, replace(config, seed=1))
    assert [other.take(n, 0) for n in range(7)] != rows
    epochs = {tuple(whole.take(6, epoch).passages[1:]) for epoch in range(9)}
    assert len(epochs) > 2, "hard negatives are drawn anew in every pass"
    first = RlhnPairs(rlhn, replace(config, text_sample=0, random_passages=False))
    assert len({first.take(6, epoch).passages for epoch in range(9)}) == 1


def test_short_queries_are_left_out(colpali: Path, rlhn: Path, tmp_path: Path) -> None:
    assert sum(ColpaliPairs(colpali).groups) == 19  # "red page" has 8 characters
    assert sum(ColpaliPairs(colpali, shortest_query=9).groups) < 19
    with pytest.raises(InputError, match="No row"):
        RlhnPairs(rlhn, MixedConfig())  # "total" has 5: dropped, as all others
    kept = RlhnPairs(rlhn, MixedConfig(shortest_query=5))
    assert {kept.take(n, 0).query.strip() for n in range(sum(kept.groups))} == {"green", "total"}
    (tmp_path / "a.png").write_bytes(picture(1))
    lines = [json.dumps({"image": "a.png", "query": query}) for query in ("short", "longer")]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    assert LongQueryPairs(tmp_path, False, 6)[0].query == "longer"
    with pytest.raises(InputError, match="shorter than 9 characters"):
        LongQueryPairs(tmp_path, False, 9)


def test_wrong_folders(colpali: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no parquet files"):
        ColpaliPairs(tmp_path)
    with pytest.raises(InputError, match="no column positive_passages"):
        RlhnPairs(colpali, MixedConfig())
    (tmp_path / "x.parquet").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        ColpaliPairs(tmp_path)


def test_folder_pairs(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture(1))
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps({"image": "a.png", "query": "q", "caption": "c"}) + "\n")
    pair = FolderPairs(tmp_path, True)[0]
    assert (pair.query, pair.caption, pair.image) == ("q", "c", picture(1))
    for row, message in (
        ({"image": "a.png", "query": "q"}, "caption must be a text"),
        ({"image": "b.png", "query": "q", "caption": "c"}, "missing, first b.png"),
    ):
        path.write_text(json.dumps(row) + "\n")
        with pytest.raises(InputError, match=message):
            FolderPairs(tmp_path, True)
    path.write_text("")
    with pytest.raises(InputError, match="empty"):
        FolderPairs(tmp_path, False)


def test_shuffling_keeps_groups_together() -> None:
    order = shuffled([4, 3, 5], seed=1, epoch=0)
    assert sorted(order.tolist()) == list(range(12))
    assert order.tolist() == shuffled([4, 3, 5], 1, 0).tolist()
    assert order.tolist() != shuffled([4, 3, 5], 1, 1).tolist()
    group = np.repeat([0, 1, 2], [4, 3, 5])[order]
    assert (np.diff(group) != 0).sum() == 2


def test_three_batches_of_texts_for_each_of_images() -> None:
    assert MixedPlan(MixedConfig(batch=4, epochs=2), [10, 10], [30]).steps == 2 * 5 * 4 // 4
    plan = MixedPlan(MixedConfig(batch=4, epochs=2, accumulate=1), [10, 10], [30])
    assert plan.steps == plan.batches == 2 * 5 * 4
    kinds = [plan.kind(step) for step in range(plan.steps)]
    for block in range(10):
        assert Counter(kinds[4 * block : 4 * block + 4]) == {"image": 1, "text": 3}
    assert len({kinds[4 * b : 4 * b + 4].index("image") for b in range(10)}) > 1
    images = [plan.rows(step) for step in range(plan.steps) if kinds[step] == "image"]
    for epoch in (images[:5], images[5:]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(20))
    texts = [plan.rows(step) for step in range(plan.steps) if kinds[step] == "text"]
    assert len(np.unique(np.concatenate(texts[:7]))) == 28


def test_batches_of_texts_are_ranked_and_kept_sparse() -> None:
    config = MixedConfig(page_flops=0.05)
    queries = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.2]])
    passages = torch.tensor([[0.9, 0.1, 0.2], [0.1, 0.8, 0.0], [0.5, 0.5, 0.5]])
    found = text_losses(config, queries, Side(passages, passages), 0, 0.5)
    rank = info_nce(queries, passages, config.temperature, 0, config.score_clamp)
    assert found.total.item() == pytest.approx((rank + 0.5 * 0.05 * flops(passages)).item())
    assert (config.texts_per_image, config.hard_negatives, config.shortest_query) == (3, 2, 6)
    assert (config.text_sample, config.random_passages, config.text_titles) == (300_000, True, False)
    with pytest.raises(InputError, match="longest_text must be above 0"):
        MixedConfig(longest_text=0)


def test_processes_share_one_batch() -> None:
    one, two = (
        MixedPlan(MixedConfig(batch=8), [40], None),
        MixedPlan(MixedConfig(batch=4), [40], None, processes=2),
    )
    assert one.steps == two.steps
    assert one.batches == 12
    assert all(np.array_equal(one.rows(step), two.rows(step)) for step in range(one.batches))
    with pytest.raises(InputError, match="one step takes 84"):
        MixedPlan(MixedConfig(), [40], None, processes=2)


def test_batches(backbone: Path, colpali: Path, rlhn: Path) -> None:
    from tests.encode.modernvbert import tiny

    from vsplade.encode.modernvbert.processor import PageProcessor

    config = MixedConfig(
        batch=3, longest_text=10, longest_caption=12, shortest_query=0, random_passages=False
    )
    captions = {picture_id(picture(n)): "red green blue page total " * 9 for n in range(20)}
    images, texts = ColpaliPairs(colpali, captions), RlhnPairs(rlhn, config)
    plan = MixedPlan(config, images.groups, texts.groups)
    loader = MixedLoader(config, plan, PageProcessor(backbone), images, texts)
    made = list(loader.run(0, 4))
    image = next(batch for batch in made if batch.tiles is not None)
    assert image.tiles is not None
    assert image.captions is not None
    assert int((image.pages.ids == tiny.IMAGE_TOKEN).sum()) == len(image.tiles) * tiny.TOKENS_A_TILE
    assert image.captions.ids.shape == (3, 12)
    assert image.captions.ids[:, -1].tolist() == [tiny.SPECIAL[2]] * 3  # cut, but still closed by [SEP]
    assert not np.isin(image.queries.ids[image.queries.mask.bool()].numpy(), tiny.SPECIAL).any()
    text = next(batch for batch in made if batch.tiles is None)
    assert len(text.pages.ids) == 9
    step = next(step for step in range(4) if plan.kind(step) == "text")
    encode = PageProcessor(backbone).text_ids
    right = [encode(texts.take(int(row), 0).passages[0], 10) for row in plan.rows(step)]
    assert text.pages.ids[:3].tolist() == [
        row + [tiny.SPECIAL[3]] * (text.pages.ids.shape[1] - len(row)) for row in right
    ]
    with pytest.raises(InputError, match="has no caption"):
        list(MixedLoader(config, plan, PageProcessor(backbone), ColpaliPairs(colpali), texts).run(0, 4))


def test_pdfs_become_pairs(tmp_path: Path) -> None:
    source = tmp_path / "pdfs"
    source.mkdir()
    for name in ("paper.pdf", "scan.pdf"):
        (source / name).write_bytes((EXAMPLES / name).read_bytes())
    counts = prepare_pdfs(source, tmp_path / "out", 200)
    assert counts["pages"] > 0
    assert counts["skipped"] > 0  # the scan has no text layer
    pairs = FolderPairs(tmp_path / "out", True)
    assert sum(pairs.groups) == counts["pairs"]
    first = pairs[0]
    assert first.query in (first.caption or "")
    assert 4 <= len(first.query.split()) <= 12
    again = prepare_pdfs(source, tmp_path / "out", 200)
    assert (again["pairs"], again["pages"]) == (counts["pairs"], 0)
    (source / "paper.pdf").unlink()
    with pytest.raises(InputError, match="text layer"):
        prepare_pdfs(source, tmp_path / "other", 200)


def test_queries_from_text() -> None:
    text = "\n".join(f"line {n} has some words of its own in it" for n in range(20))
    picked = pick_queries(text, "a_1")
    assert len(picked) == 2
    assert picked == pick_queries(text, "a_1")
    assert picked != pick_queries(text, "a_2")
    assert pick_queries("too short", "a") == []
