"""The ablation on a tiny reader: every row trains, is measured and is kept."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from PIL import Image

from research.paper import ablation, ablation_data
from research.paper.cells import PageCells, read_pages
from research.paper.options import AblationOptions
from research.paper.small import SmallSplade, TextInputs, text_inputs
from vsplade.encode.gpu.network import Head, NetworkConfig, Reader
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.train import training_checkpoint
from vsplade.train.training_config import PaperConfig

CPU = torch.device("cpu")
WORDS = ("revenue", "profit", "water", "energy", "people", "total")


def write_reader(path: Path) -> Path:
    torch.manual_seed(0)
    config = NetworkConfig(fine=8, middle=8, coarse=8, middle_blocks=1, coarse_blocks=1, hidden=16, rank=16)
    reader = Reader(config)
    with torch.no_grad():
        reader.trunk.word.bias.fill_(0.0)
        reader.head.vocabulary.weight.mul_(30.0)  # sure enough of some terms for them to weigh something
        reader.head.narrow.weight.mul_(20.0)
    tensors = {f"model.{name}": tensor for name, tensor in reader.state_dict().items()}
    training_checkpoint.save(
        path, tensors, {"network": config.to_json(), "vocabulary": Tokenizer.load().fingerprint}
    )
    return path


def write_pictures(folder: Path, names: list[str]) -> None:
    (folder / "images").mkdir(parents=True)
    for number, name in enumerate(names):
        pixels = np.random.default_rng(number).integers(0, 256, (48 + 16 * (number % 2), 64), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / f"{name}.png")


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> AblationOptions:
    """Tiny data of every kind, read once for all tests."""
    folder = tmp_path_factory.mktemp("ablation")
    for name in ("charts", "reports"):
        write_pictures(folder / name, [f"p{n}" for n in range(6)])
        rows = [
            {"image": f"images/p{n}.png", "query": f"{WORDS[n]} in 2019", "caption": f"the {WORDS[n]} rose"}
            for n in range(6)
        ]
        (folder / name / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    write_pictures(folder / "dev", [f"d{n}" for n in range(4)])
    queries = [{"_id": f"q{n}", "text": f"what is the {WORDS[n]}?"} for n in range(4)]
    (folder / "dev" / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    judged = "".join(f"q{n}\td{n}\t1\n" for n in range(4))
    (folder / "dev" / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    ocr = [{"id": f"images/p{n}.png", "caption": WORDS[n]} for n in range(6)]
    (folder / "ocr.jsonl").write_text("\n".join(map(json.dumps, ocr)))
    texts = [{"query": word, "text": f"about {word}"} for word in WORDS]
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, texts)))
    options = AblationOptions(
        folder / "charts", folder / "out", (folder / "dev",),
        write_reader(folder / "reader.safetensors"),
        texts=(folder / "texts.jsonl",), ocr=folder / "ocr.jsonl", reports=folder / "reports",
        cells=12, seeds=1, steps=6, batch=3, processes=0, device="cpu",
    )  # fmt: skip
    ablation_data.gather(options, CPU, lambda _: None)
    return options


@pytest.fixture
def options(gathered: AblationOptions, tmp_path: Path) -> AblationOptions:
    """With a folder for results of its own, which holds the pages as they were read."""
    shutil.copytree(gathered.out, tmp_path / "out")
    return replace(gathered, out=tmp_path / "out")


def test_every_row_is_trained_and_measured(options: AblationOptions) -> None:
    said: list[str] = []
    report = ablation.ablate(options, said.append)
    assert report["runs"] == len(ablation.ROWS)
    kept = json.loads((options.out / "ablation.json").read_text())["results"]
    assert [one["row"] for one in kept] == ["before training", *(row.name for row in ablation.ROWS)]
    for one in kept[1:]:
        assert [point["step"] for point in one["measured"]] == list(range(1, 7))
        assert {"ndcg@5", "flops", "active", "stop_share"} <= one["final"]["dev"].keys()
        assert all(np.isfinite(point["loss"]) for point in one["curve"])
        assert one["curve"][0]["active"] > 0
    tables = {one["row"]: one["table"] for one in kept[1:]}
    assert tables["bag of words"] == {"least": 1.0, "mean": 1.0, "largest": 1.0, "zero": 0.0}
    assert tables["Li-LSR"]["least"] < tables["Li-LSR"]["largest"]
    parts = {one["row"]: set().union(*(point.keys() for point in one["curve"])) for one in kept}
    assert "gated" in parts["gated by OCR text"]
    assert "cosine" in parts["Li-LSR, cosine alignment"]
    assert "caption_rank" not in parts["Li-LSR"]


def test_a_collapsed_table_is_seen() -> None:
    raw = torch.tensor([-1.0, -2.0, 0.5, -3.0])
    assert ablation.table_facts(torch.relu(raw)) == {"least": 0, "mean": 0.125, "largest": 0.5, "zero": 0.75}


def test_same_seed_same_run(options: AblationOptions) -> None:
    cache = ablation_data.gather(options, CPU, lambda _: None)
    row = ablation.ROWS[2]
    one, same = (ablation.train_row(row, 1, options, str(cache), "cpu") for _ in range(2))
    other = ablation.train_row(row, 2, options, str(cache), "cpu")
    assert one["curve"] == same["curve"]
    assert one["curve"] != other["curve"]


def test_untrained_model_is_the_reader_pooled_by_maximum(options: AblationOptions) -> None:
    """Against the plain formula: log-probability of word and term, plus the margin, of the best cell."""
    reader = ablation_data.load_backbone(options.reader, CPU)
    paths = sorted((options.charts / "images").iterdir())[:2]
    cells = read_pages(reader, paths, 1408, 12, CPU)
    nothing = TextInputs(torch.zeros(1, 16), torch.zeros(1))
    model = SmallSplade(reader.head, nothing, PaperConfig(query="one"))
    pooled = model(*cells.batch([0, 1]))
    for page in range(2):
        here = slice(int(cells.starts[page]), int(cells.starts[page + 1]))
        logits = reader.head.vocabulary(cells.features[here].float()) + cells.offset[here, None]
        plain = (logits.amax(0) + 4.0) * 16**-0.25
        torch.testing.assert_close(pooled.logits[page], plain, atol=1e-4, rtol=1e-4)
        assert torch.exp(torch.logsumexp(logits, 1)).max() <= 1.001  # offsets make probabilities of logits


def test_layers_learn_and_texts_pass_them_too() -> None:
    torch.manual_seed(0)
    head = Head(NetworkConfig(vocabulary=12, middle=8, coarse=8, hidden=16, rank=16))
    model = SmallSplade(head, text_inputs(head, 20.0), PaperConfig())
    ids, mask = torch.tensor([[5, 9, 0]]), torch.tensor([[True, True, False]])
    pooled = model.read_texts(ids, mask)
    assert set(pooled.logits[0].topk(2).indices.tolist()) == {5, 9}
    pooled.weights.sum().backward()
    assert model.layers[0].out.weight.grad.abs().sum() > 0
    assert model.decoder.base.weight.grad is None


def test_a_page_without_words_scores_nothing() -> None:
    cells = PageCells(
        torch.zeros(3, 16, dtype=torch.float16), torch.zeros(3), torch.zeros(3, 3),
        torch.zeros(3, dtype=torch.long), torch.zeros(3), torch.tensor([0, 0, 2]),
    )  # fmt: skip
    features, offset, _, mask = cells.batch([0, 1])
    assert features.shape == (2, 2, 16)
    assert mask.tolist() == [[True, False], [True, True]]
    assert offset[0, 0] < -1000


def test_texts_that_do_not_match_their_pages_are_refused(options: AblationOptions, tmp_path: Path) -> None:
    (tmp_path / "ocr.jsonl").write_text(json.dumps({"id": "images/other.png", "caption": "x"}))
    wrong = replace(options, ocr=tmp_path / "ocr.jsonl", out=tmp_path / "new")
    with pytest.raises(InputError, match="no text for 6 of 6 pictures"):
        ablation_data.gather(wrong, CPU, lambda _: None)


def test_results_become_a_table_and_curves(options: AblationOptions, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from research.paper.curves import choose, draw, read_results, table

    ablation.ablate(replace(options, rows=("Li-LSR",), steps=4))
    rows = read_results(options.out / "ablation.json")
    lines = table(rows).splitlines()
    assert lines[2].startswith("| Li-LSR | ")
    assert len({line.count("|") for line in lines}) == 1
    draw(rows, tmp_path / "curves.png")
    assert Image.open(tmp_path / "curves.png").size[0] > 100
    with pytest.raises(InputError, match="no row 'BM25'"):
        choose(rows, ["BM25"])
    assert list(choose({**rows, "other": []}, ["Li-LSR"])) == ["Li-LSR"]
    with pytest.raises(InputError, match="no results"):
        read_results(tmp_path / "nothing.json")
