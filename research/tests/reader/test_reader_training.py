"""Training itself: the schedule, going on exactly where it stopped, and learning."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")
pytest.importorskip("safetensors", reason="checkpoints need safetensors: pip install 'vsplade[train]'")

from research.reader.kinds import make_scene
from research.reader.options import TrainingConfig, TrainingRun
from research.reader.realpages import RealPage, read_page
from research.reader.rounding import is_rounding
from research.reader.supply import GrowingPool, Supply, WindowBatch, make_windows
from research.reader.synthesis import Synthesis
from research.reader.train import Training, batch_seed, learning_rate, train
from research.reader.typeset import Typesetter
from research.reader.words import WordBank
from vsplade.encode.gpu.network import NetworkConfig
from vsplade.errors import InputError

CPU = torch.device("cpu")
EXAMPLES = Path(__file__).parents[3] / "examples"
SMALL = TrainingConfig(seconds=8.0, windows=1, pieces=64, scenes=4, warm_up=0.25, seed=5)


class Clock:
    """One second a look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_the_rate_rises_holds_and_falls() -> None:
    config = TrainingConfig(rate=1.0, warm_up=0.1, cool_down=0.4)
    rates = [learning_rate(config, progress) for progress in (0, 0.05, 0.1, 0.5, 0.6, 0.8, 1.0)]
    assert rates == pytest.approx([0, 0.5, 1, 1, 1, 0.5, 0.01])
    assert learning_rate(replace(config, warm_up=0.0), 0.0) == 1


def test_rounding_begins_towards_the_end(tmp_path: Path, synthesis: Synthesis, tiny: NetworkConfig) -> None:
    config = replace(SMALL, rounded=0.5)
    training = Training(tiny, config, tmp_path, CPU, Clock())
    make = maker(synthesis, config.windows, config.seed)
    seen = []
    hook = training.model.trunk.rounded.register_forward_pre_hook(
        lambda module, _: seen.append((training.spent, is_rounding(training.model.trunk)))
    )
    steps(training, make, 8)
    hook.remove()
    assert {on for spent, on in seen if spent < 4} == {False}
    assert {on for spent, on in seen if spent >= 4} == {True}


@pytest.mark.parametrize("wrong", [{"windows": 0}, {"cool_down": 0.0}, {"real_share": 1.5}, {"rate": -1.0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        TrainingConfig(**wrong)  # type: ignore[arg-type]


def test_seeds_of_batches_and_runs_differ() -> None:
    seeds = {batch_seed(seed, number) for seed in range(4) for number in range(200)}
    assert len(seeds) == 800


def maker(synthesis: Synthesis, windows: int, seed: int) -> Callable[[int], WindowBatch]:
    def make(number: int) -> WindowBatch:
        torch.manual_seed(batch_seed(seed, number))
        return make_windows(synthesis, None, windows, 0.0).worn(synthesis.plain)

    return make


def steps(training: Training, make: Callable[[int], WindowBatch], count: int) -> None:
    """As many steps as asked for: each takes two looks at the clock."""
    supply = Supply(make, CPU, training.step, depth=1)
    try:
        training.run(supply, training.clock() + 2 * count + 1, say=lambda _: None)
    finally:
        supply.close()


@pytest.mark.usefixtures("exact")
def test_two_and_two_steps_are_four(tmp_path: Path, synthesis: Synthesis, tiny: NetworkConfig) -> None:
    make = maker(synthesis, SMALL.windows, SMALL.seed)
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    whole.mkdir()
    halves.mkdir()
    torch.manual_seed(0)
    one = Training(tiny, SMALL, whole, CPU, Clock())
    steps(one, make, 4)
    torch.manual_seed(0)
    first = Training(tiny, SMALL, halves, CPU, Clock())
    steps(first, make, 2)
    assert first.step == 2
    torch.manual_seed(99)
    second = Training(tiny, SMALL, halves, CPU, Clock())
    second.restore(halves / "last.safetensors", keep_schedule=True)
    steps(second, make, 4)
    assert (one.step, one.spent) == (second.step, second.spent) == (4, 8.0)
    expected = one.model.state_dict()
    for name, tensor in second.model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


def test_weights_alone_start_a_new_schedule(tmp_path: Path, tiny: NetworkConfig) -> None:
    torch.manual_seed(1)
    training = Training(tiny, SMALL, tmp_path, CPU)
    training.step, training.spent = 7, 3.0
    training.save("weights.safetensors", with_optimizer=False)
    fresh = Training(tiny, SMALL, tmp_path, CPU)
    fresh.restore(tmp_path / "weights.safetensors", keep_schedule=False)
    assert (fresh.step, fresh.spent) == (0, 0.0)
    assert torch.equal(fresh.model.head.narrow.weight, training.model.head.narrow.weight)
    with pytest.raises(InputError, match="--initial"):
        fresh.restore(tmp_path / "weights.safetensors", keep_schedule=True)


def test_a_short_run_learns(tmp_path: Path, typesetter: Typesetter, tiny: NetworkConfig) -> None:
    """On one plain window that comes back again and again, with only its own terms to choose from."""
    torch.manual_seed(0)
    synthesis = Synthesis(typesetter, [make_scene(seed, plain=True) for seed in range(12)], plain=True)
    batch = make_windows(synthesis, None, 1, 0.0).worn(plain=True)
    while len(batch.targets.piece_term) < 40:  # some have few words of a size to be read
        batch = make_windows(synthesis, None, 1, 0.0).worn(plain=True)
    terms, numbers = batch.targets.piece_term.unique(return_inverse=True)
    assert len(terms) > 5
    batch = replace(batch, targets=replace(batch.targets, piece_term=numbers))
    training = Training(replace(tiny, vocabulary=len(terms)), replace(SMALL, pieces=256), tmp_path, CPU)
    for group in training.optimizer.param_groups:
        group["lr"] = 1e-2
    losses = [training.train_step(batch) for _ in range(25)]
    for name in ("word", "name", "character"):
        before, after = (float(getattr(losses[n], name).detach()) for n in (0, -1))
        assert after < 0.7 * before, f"{name} went from {before:.3f} to {after:.3f}"


def test_train_runs_from_files_and_resumes(tmp_path: Path, face: Path, bank: WordBank) -> None:
    bank.save(tmp_path / "words.npz")
    network = json.dumps({"fine": 8, "middle": 16, "coarse": 16, "coarse_blocks": 1, "rank": 8})
    run = TrainingRun(words=tmp_path / "words.npz", fonts=face.parent, out=tmp_path / "run", network=network)
    config = replace(SMALL, seconds=0.01)
    said: list[str] = []
    result = train(run, config, said.append)
    assert result["step"] == 1
    assert any("faces" in line for line in said)
    assert train(replace(run, out=tmp_path / "echo"), replace(config, echo=2), said.append)["step"] == 1
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert log[0]["step"] == 1
    resumed = replace(run, resume=tmp_path / "run" / "last.safetensors")
    assert train(resumed, replace(config, seconds=result["spent"] + 0.2), said.append)["step"] >= 2
    with pytest.raises(InputError, match="not both"):
        train(replace(resumed, initial=resumed.resume), config, said.append)
    with pytest.raises(InputError, match="has no option"):
        train(replace(run, network='{"wings": 2}'), config, said.append)


def test_windows_worn_twice_hold_the_same_words_in_other_pictures(synthesis: Synthesis) -> None:
    torch.manual_seed(0)
    windows = make_windows(synthesis, None, 4, 0.0)
    kept = windows.pictures.clone()
    first, second = windows.worn(), windows.worn()
    assert torch.equal(windows.pictures, kept), "wear left the drawing alone"
    terms = [set(batch.targets.piece_term.tolist()) for batch in (first, second)]
    assert len(terms[0] & terms[1]) > 0.8 * len(terms[0] | terms[1]), "all but what wear left nothing of"
    assert not torch.equal(first.pictures, second.pictures)


def test_an_error_while_batches_are_made_reaches_the_training() -> None:
    def fails(number: int) -> WindowBatch:
        raise ValueError(f"batch {number}")

    supply = Supply(fails, CPU, 3)
    with pytest.raises(ValueError, match="batch 3"):
        supply.next()
    supply.close()


def test_real_pages_join_the_batch_and_their_errors_are_not_lost(synthesis: Synthesis) -> None:
    page = read_page(str(EXAMPLES / "report.pdf"), 0, 1200)
    assert page is not None
    pool = GrowingPool([page, page], CPU, (1,), say=lambda _: None).wait()
    torch.manual_seed(0)
    batch = make_windows(synthesis, pool, 4, 0.5).worn(synthesis.plain)
    assert batch.synthetic == 2
    assert batch.pictures.shape[0] == 4
    assert int(batch.targets.piece_window.max()) >= 2

    def broken() -> object:
        raise OSError("the disk is gone")
        yield RealPage

    with pytest.raises(OSError, match="the disk is gone"):
        GrowingPool(broken(), CPU, (1,), say=lambda _: None).wait()  # type: ignore[arg-type]
    with pytest.raises(InputError, match="text layer"):
        GrowingPool([], CPU, (1,), say=lambda _: None).wait()
