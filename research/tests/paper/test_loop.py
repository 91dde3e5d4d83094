"""The loop: it learns, resumes bit for bit, stops at a NaN without losing work, and many processes are one
batch.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("pyarrow")

from safetensors.torch import load_file, save_file

from research.paper.data import ColpaliPairs, RlhnPairs, picture_id
from research.paper.judging import Judging, train_judged
from research.paper.mixing import MixedConfig, PaperTrainer, train_mixed
from vsplade.encode import load_encoder
from vsplade.encode.modernvbert import checkpoint
from vsplade.errors import InputError
from vsplade.train import lora
from vsplade.train.loop import LAST, Run, TrainingError
from vsplade.train.pairs import ImagePair

from .conftest import WORDS, picture

CONFIG = MixedConfig(
    batch=4, steps=8, lora_rank=4, precision="float32", longest_text=24, flops_warm_up_steps=4, rate=2e-3,
    accumulate=1, shortest_query=0, random_passages=False, query_start="ones",
)  # fmt: skip


@pytest.fixture
def images(colpali: Path) -> ColpaliPairs:
    return ColpaliPairs(colpali, {picture_id(picture(n)): f" {WORDS[n % 5]} page total" for n in range(20)})


@pytest.fixture
def texts(rlhn: Path) -> RlhnPairs:
    return RlhnPairs(rlhn, CONFIG)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def test_a_resumed_run_is_the_same_bit_for_bit(
    backbone: Path, images: ColpaliPairs, texts: RlhnPairs, tmp_path: Path
) -> None:
    whole = train_mixed(CONFIG, Run(backbone, tmp_path / "whole"), images, texts)
    assert whole == {"step": 8, "steps": 8, "finished": True}
    for stop in (3, 5, 0):
        train_mixed(CONFIG, Run(backbone, tmp_path / "parts", stop_after=stop), images, texts)
    one, other = load_file(tmp_path / "whole" / LAST), load_file(tmp_path / "parts" / LAST)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert any(name.startswith("optimizer.") for name in one)
    finished = [load_file(tmp_path / n / "model" / "model.safetensors") for n in ("whole", "parts")]
    assert all(torch.equal(finished[0][name], finished[1][name]) for name in finished[0])
    steps = [json.loads(line)["step"] for line in (tmp_path / "parts" / "log.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 9))


def test_the_result_is_a_model_like_any_other(
    backbone: Path, images: ColpaliPairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSPLADE_CACHE", str(tmp_path / "cache"))
    trainer = PaperTrainer(dataclasses.replace(CONFIG, steps=2), Run(backbone, tmp_path / "run"), images)
    trainer.train()
    batch = trainer.loader.make(0)
    with torch.no_grad():
        before = trainer.model.eval()(batch.pages.ids, batch.pages.mask, trainer._pixels(batch.tiles)).weights
    trainer.export(tmp_path / "model")
    again = checkpoint.load(tmp_path / "model").model
    with torch.no_grad():
        after = again(batch.pages.ids, batch.pages.mask, trainer._pixels(batch.tiles)).weights
        assert torch.allclose(before, after, atol=1e-5)
        assert not any(isinstance(part, lora.LoraLinear) for part in again.modules())
        table = again.query_table().numpy()
    encoder = load_encoder(str(tmp_path / "model"))
    vector = encoder.encode_query(" red")
    assert np.allclose(vector.weights, table[vector.terms.astype(int)], atol=1e-6)


def test_it_learns(backbone: Path, images: ColpaliPairs, tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, steps=60, batch=5, captions="gated", warm_up=0.0)
    trainer = PaperTrainer(config, Run(backbone, tmp_path / "run"), images)
    trainer.train()
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    for name in ("rank", "caption_rank"):
        start, end = (np.mean([line[name] for line in part]) for part in (lines[:5], lines[-5:]))
        assert end < 0.7 * start, (name, start, end)


@pytest.mark.parametrize(
    "change",
    [
        {"captions": "none", "query": "one"},
        {"captions": "none"},
        {"captions": "rank"},
        {"captions": "cosine"},
        {"query": "relu"},
        {"query": "log1p_relu", "query_start": "ones"},
        {"repeats": "counted", "accumulate": 2},
        {"lora_rank": 0},
        {"lora_vision": True},
        {"precision": "bfloat16"},
        {"gradient_checkpointing": False},
    ],
)
def test_every_ablation_runs(
    backbone: Path, images: ColpaliPairs, texts: RlhnPairs, tmp_path: Path, change: dict
) -> None:
    config = dataclasses.replace(CONFIG, steps=4, **change)
    trainer = PaperTrainer(config, Run(backbone, tmp_path / "run"), images, texts)
    fixed = {n: p.detach().clone() for n, p in trainer.model.named_parameters() if not p.requires_grad}
    learned = {n: p.detach().clone() for n, p in trainer.learned.items()}
    trainer.train()
    now = dict(trainer.model.named_parameters())
    assert all(torch.equal(now[name], before) for name, before in fixed.items())
    assert any(not torch.equal(now[name], before) for name, before in learned.items())
    assert ("query.projection.weight" in learned) == (config.query != "one")
    assert "query.embeddings.weight" in fixed
    if config.lora_rank:
        assert any(name.startswith("head.decoder") for name in learned)
        assert any("vision_model" in name for name in learned) == config.lora_vision


def test_checkpointing_changes_no_gradient(backbone: Path, images: ColpaliPairs, tmp_path: Path) -> None:
    found = []
    for checkpointing in (True, False):
        config = dataclasses.replace(CONFIG, gradient_checkpointing=checkpointing)
        trainer = PaperTrainer(config, Run(backbone, tmp_path), images)
        trainer.losses(trainer.loader.make(0))[0].total.backward()
        found.append({name: p.grad for name, p in trainer.learned.items()})
    assert any(gradient is not None and gradient.abs().sum() > 0 for gradient in found[0].values())
    for name, gradient in found[0].items():
        assert torch.allclose(gradient, found[1][name], atol=1e-6), name


def test_nan_stops_the_run_and_loses_nothing(backbone: Path, images: ColpaliPairs, tmp_path: Path) -> None:
    run = Run(backbone, tmp_path / "run")
    trainer = PaperTrainer(CONFIG, run, images)
    for step in range(2):
        trainer.advance([trainer.loader.make(step)])
    before = {name: p.detach().clone() for name, p in trainer.learned.items()}
    batch = trainer.loader.make(2)
    real = trainer.losses

    def broken(given: object) -> object:
        parts, active = real(given)  # type: ignore[arg-type]
        return dataclasses.replace(parts, total=parts.total * float("nan")), active

    trainer.losses = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(TrainingError, match=r"not a number .* at step 2"):
        trainer.advance([batch])
    again = PaperTrainer(CONFIG, run, images)
    again.resume(run.out / LAST)
    assert again.step == 2
    assert all(torch.equal(again.learned[name], before[name]) for name in before)
    again.advance([batch])  # and it goes on from there
    assert again.step == 3


def test_another_configuration_is_refused(
    backbone: Path, images: ColpaliPairs, texts: RlhnPairs, tmp_path: Path
) -> None:
    run = Run(backbone, tmp_path / "run", stop_after=1)
    train_mixed(CONFIG, run, images)
    with pytest.raises(InputError, match=r"another configuration \(rate: 0.002 -> 0.1\)"):
        train_mixed(dataclasses.replace(CONFIG, rate=0.1), run, images)
    with pytest.raises(InputError, match="seed: 0 -> 1"):
        train_mixed(dataclasses.replace(CONFIG, seed=1), run, images)
    with pytest.raises(InputError, match="text_pairs: 0 -> "):
        train_mixed(CONFIG, run, images, texts)
    other = shutil.copytree(backbone, tmp_path / "other")
    tensors = load_file(other / "model.safetensors")
    save_file({name: tensor * 1.01 for name, tensor in tensors.items()}, other / "model.safetensors")
    with pytest.raises(InputError, match="backbone: 'modernvbert-"):
        train_mixed(CONFIG, dataclasses.replace(run, backbone=other), images)
    assert load_file(run.out / LAST), "the checkpoint is still there"


def test_a_picture_that_cannot_be_read_loses_no_step(
    backbone: Path, images: ColpaliPairs, tmp_path: Path
) -> None:
    run = Run(backbone, tmp_path / "run")
    trainer = PaperTrainer(CONFIG, run, images)
    wanted = int(trainer.plan.rows(4)[0])

    class Broken:
        groups = images.groups

        def __getitem__(self, number: int) -> ImagePair:
            pair = images[number]
            return dataclasses.replace(pair, image=b"no picture") if number == wanted else pair

    with pytest.raises(InputError, match="cannot be read"):
        train_mixed(CONFIG, run, Broken())
    with (run.out / "log.jsonl").open("a") as file:  # as if it had gone on without a checkpoint, and died
        file.write('{"step": 5, "loss": 1.0}\n{"step": 6, "lo')
    trainer.resume(run.out / LAST)
    assert trainer.step == 4
    steps = [json.loads(line)["step"] for line in (run.out / "log.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4]


def test_sparsity_warms_up_in_training(backbone: Path, images: ColpaliPairs, tmp_path: Path) -> None:
    """The weight that FLOPS have in the total, step by step."""
    config = dataclasses.replace(CONFIG, captions="none", page_flops=0.5, flops_warm_up_steps=4)
    trainer = PaperTrainer(config, Run(backbone, tmp_path), images)
    batch = trainer.loader.make(0)
    found = []
    for trainer.step in (0, 2, 4, 6):
        with torch.no_grad():
            losses = trainer.losses(batch)[0]
        found.append(float((losses.total - losses.parts["rank"]) / losses.parts["flops"]))
    assert found == pytest.approx([0.0, 0.5 * 0.25, 0.5, 0.5], abs=1e-4)


def test_a_released_model_trains_further_only_with_its_own_table(
    images: ColpaliPairs, tmp_path: Path
) -> None:
    from tests.encode.modernvbert import tiny

    folder = tiny.write_folder(tmp_path / "m", tiny.released_tensors(), longest_edge=64)
    PaperTrainer(CONFIG, Run(folder, tmp_path / "run"), images)
    (folder / "config.json").write_text(json.dumps(tiny.config() | {"query_activation": "relu"}))
    with pytest.raises(InputError, match="query table with relu"):
        PaperTrainer(CONFIG, Run(folder, tmp_path / "run"), images)


WORKER = """
import json, sys, torch
from pathlib import Path
from safetensors.torch import save_file
from research.tests.paper.conftest import WORDS, picture
from research.paper.mixing import MixedConfig, PaperTrainer
from research.paper.data import ColpaliPairs, RlhnPairs, picture_id
from vsplade.train.distributed import joined
from vsplade.train.loop import Run
torch.set_num_threads(1)
backbone, colpali, rlhn, out, batch = sys.argv[1:]
images = ColpaliPairs(Path(colpali), {picture_id(picture(n)): f" {WORDS[n % 5]} page total" for n in
range(20)})
config = MixedConfig(batch=int(batch), steps=8, lora_rank=4, precision="float32", longest_text=24,
flops_warm_up_steps=1, shortest_query=0, accumulate=1)
with joined() as world:
    texts = RlhnPairs(Path(rlhn), config)
    trainer = PaperTrainer(config, Run(Path(backbone), Path(out)), images, texts, world)
    trainer.step = 2
    found = {}
    for kind in ("image", "text"):
        step = next(s for s in range(8) if trainer.plan.kind(s) == kind)
        trainer.optimizer.zero_grad(set_to_none=True)
        trainer.losses(trainer.loader.make(step).to(trainer.device))[0].total.backward()
        trainer.world.average_gradients(trainer.learned.values())
        found |= {f"{kind}.{name}": p.grad for name, p in trainer.learned.items() if p.grad is not None}
    if world.leads:
        save_file(found, out + "/gradients.safetensors")
"""


def test_two_processes_have_the_gradient_of_one_large_batch(
    backbone: Path, colpali: Path, rlhn: Path, tmp_path: Path
) -> None:
    """Cross-process negatives: every query meets the pages of all processes, and gradients flow back to
    them.
    """
    (tmp_path / "worker.py").write_text(WORKER)
    root = Path(__file__).resolve().parents[3]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def start(rank: int, size: int, out: Path) -> subprocess.Popen[bytes]:
        out.mkdir(exist_ok=True)
        given = [str(backbone), str(colpali), str(rlhn), str(out), str(4 // size)]
        environment = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "PYTHONPATH": os.pathsep.join((str(root), str(root / "src"))),
            "GLOO_SOCKET_IFNAME": "lo",
        }
        return subprocess.Popen(
            [sys.executable, str(tmp_path / "worker.py"), *given], env=environment, cwd=root
        )

    running = [start(0, 1, tmp_path / "one"), start(0, 2, tmp_path / "two"), start(1, 2, tmp_path / "two")]
    assert [process.wait(timeout=200) for process in running] == [0, 0, 0]
    one, two = (load_file(tmp_path / name / "gradients.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    assert any(name.startswith("text.") and tensor.abs().max() > 1e-3 for name, tensor in one.items())
    for name in one:
        assert torch.allclose(one[name], two[name], atol=1e-5, rtol=1e-3), name


def test_accumulated_gradients_are_the_mean_of_the_batches_own(
    backbone: Path, images: ColpaliPairs, tmp_path: Path
) -> None:
    trainer = PaperTrainer(
        dataclasses.replace(CONFIG, accumulate=2, clip=0.0), Run(backbone, tmp_path), images
    )
    batches = [trainer.loader.make(n) for n in range(2)]
    wanted: dict[str, torch.Tensor] = {}
    for batch in batches:
        trainer.optimizer.zero_grad(set_to_none=True)
        trainer.losses(batch)[0].total.backward()
        for name, p in trainer.learned.items():
            wanted[name] = wanted.get(name, 0) + p.grad / 2
    trainer.advance(batches)
    assert trainer.step == 1
    for name, p in trainer.learned.items():
        assert torch.allclose(p.grad, wanted[name], atol=1e-7), name


def test_a_step_of_several_batches_resumes_bit_for_bit(
    backbone: Path, images: ColpaliPairs, texts: RlhnPairs, tmp_path: Path
) -> None:
    config = dataclasses.replace(CONFIG, accumulate=3, steps=4, random_passages=True, query_start="random")
    train_mixed(config, Run(backbone, tmp_path / "whole"), images, texts)
    for stop in (1, 3, 0):
        train_mixed(config, Run(backbone, tmp_path / "parts", stop_after=stop), images, texts)
    one, other = load_file(tmp_path / "whole" / LAST), load_file(tmp_path / "parts" / LAST)
    assert all(torch.equal(one[name], other[name]) for name in one)
    facts = json.loads((tmp_path / "whole" / "log.jsonl").read_text().splitlines()[0])
    assert {"loss", "text_rank", "rate"} <= facts.keys()


def test_where_a_new_table_starts(backbone: Path, images: ColpaliPairs, tmp_path: Path) -> None:
    tables = {}
    for start, activation in (("ones", "softplus"), ("ones", "log1p_relu"), ("random", "softplus")):
        config = dataclasses.replace(CONFIG, query_start=start, query=activation)
        tables[start, activation] = (
            PaperTrainer(config, Run(backbone, tmp_path), images).model.query().detach()
        )
    assert torch.allclose(tables["ones", "softplus"], torch.ones(()), atol=1e-6)
    assert torch.allclose(tables["ones", "log1p_relu"], torch.ones(()), atol=1e-6)
    assert tables["random", "softplus"].std() > 0.01
    other = PaperTrainer(
        dataclasses.replace(CONFIG, query_start="random", seed=5), Run(backbone, tmp_path), images
    )
    assert not torch.equal(other.model.query().detach(), tables["random", "softplus"])


@pytest.mark.parametrize("repeats", ["once", "counted"])
def test_training_and_serving_agree_on_repeated_words(
    backbone: Path, images: ColpaliPairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repeats: str
) -> None:
    monkeypatch.setenv("VSPLADE_CACHE", str(tmp_path / "cache"))
    config = dataclasses.replace(CONFIG, steps=1, repeats=repeats, query="log1p_relu", query_start="ones")
    train_mixed(config, Run(backbone, tmp_path / "run"), images)
    folder = tmp_path / "run" / "model"
    said = json.loads((folder / "config.json").read_text()).get("query_repeats", "counted")
    assert said == repeats
    encoder = load_encoder(str(folder))
    model = checkpoint.load(folder).model
    text = " red red red blue"
    ids = torch.tensor([encoder.vocabulary.tokenizer.encode(text, add_special_tokens=False).ids])
    served = encoder.encode_query(text)
    trained = model.encode_queries(ids, torch.ones_like(ids)).detach()[0].numpy()
    assert np.allclose(trained[served.terms.astype(int)], served.weights, atol=1e-5)
    assert np.count_nonzero(trained) == len(served)
    once = load_encoder(str(folder)).encode_query(" red").weights[0]
    found = dict(zip(served.terms.tolist(), served.weights.tolist(), strict=True))
    red = int(encoder.encode_query(" red").terms[0])
    assert found[red] == pytest.approx(once * (3 if repeats == "counted" else 1), rel=1e-5)


def test_both_ways_of_repeated_words_have_their_own_fingerprint(tmp_path: Path) -> None:
    from tests.encode.modernvbert import tiny

    from vsplade.encode.modernvbert.query import fingerprint

    folder = tiny.write_folder(tmp_path / "m", tiny.released_tensors(), longest_edge=64)
    before = fingerprint(folder)
    (folder / "config.json").write_text(json.dumps(tiny.config() | {"query_repeats": "once"}))
    assert fingerprint(folder) != before
    (folder / "config.json").write_text(json.dumps(tiny.config() | {"query_repeats": "twice"}))
    with pytest.raises(InputError, match="'counted' or 'once'"):
        checkpoint.load(folder)


def test_the_best_step_is_kept_beside_the_last(backbone: Path, images: ColpaliPairs, tmp_path: Path) -> None:
    scores = iter([0.2, 0.5, 0.4, 0.3, 0.9])

    def judge(model: object, processor: object, device: object) -> dict[str, float]:
        assert not model.training  # type: ignore[attr-defined]
        return {"ndcg@5": next(scores), "stop_share": 0.1}

    run = Run(backbone, tmp_path / "run")
    done = train_judged(Judging(judge, every=2, patience=2), CONFIG, run, images)
    assert done == {"step": 8, "steps": 8, "finished": True, "best_step": 4}
    rows = [json.loads(line) for line in (run.out / "judged.jsonl").read_text().splitlines()]
    assert [(row["step"], row["ndcg@5"]) for row in rows] == [(2, 0.2), (4, 0.5), (6, 0.4), (8, 0.3)]
    whole = train_mixed(CONFIG, Run(backbone, tmp_path / "whole", stop_after=4), images)
    assert whole["step"] == 4
    there, best = load_file(tmp_path / "whole" / LAST), load_file(run.out / "best.safetensors")
    assert all(torch.equal(there[name], best[name]) for name in best)
    last, kept = (load_file(run.out / name / "model.safetensors") for name in ("model", "best-model"))
    assert any(not torch.equal(last[name], kept[name]) for name in last)


def test_a_run_that_gets_no_better_ends_early(backbone: Path, images: ColpaliPairs, tmp_path: Path) -> None:
    scores = iter([0.5, 0.4, 0.4, 0.9, 0.9])
    judging = Judging(lambda *_: {"ndcg@5": next(scores)}, every=1, patience=2)
    done = train_judged(judging, CONFIG, Run(backbone, tmp_path / "run"), images)
    assert done == {"step": 3, "steps": 8, "finished": True, "best_step": 1}
    assert (tmp_path / "run" / "best-model" / "model.safetensors").is_file()


def test_without_a_warm_up_sparsity_weighs_at_once(
    backbone: Path, images: ColpaliPairs, tmp_path: Path
) -> None:
    """As in the public code, whose warm-up never runs."""
    config = dataclasses.replace(CONFIG, captions="none", page_flops=0.5, flops_warm_up_steps=0)
    trainer = PaperTrainer(config, Run(backbone, tmp_path), images)
    with torch.no_grad():
        losses = trainer.losses(trainer.loader.make(0))[0]
    found = float((losses.total - losses.parts["rank"]) / losses.parts["flops"])
    assert found == pytest.approx(0.5, abs=1e-4)
