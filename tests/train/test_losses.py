"""The losses against numbers worked out by hand, and their gradients."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from vsplade.errors import InputError
from vsplade.train import losses
from vsplade.train.losses import Side, flops_share, rate_share
from vsplade.train.training_config import PaperConfig, load_config


def tensor(rows: object, grad: bool = False) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64, requires_grad=grad)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_info_nce_by_hand() -> None:
    queries = tensor([[1.0, 0.0], [0.0, 2.0]])
    pages = tensor([[0.3, 0.1], [0.2, 0.4]], grad=True)
    # scores / 0.1: query 0: 3, 2; query 1: 2, 8
    expected = (math.log(1 + math.exp(-1)) + math.log(1 + math.exp(-6))) / 2
    loss = losses.info_nce(queries, pages, 0.1)
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    loss.backward()
    # d/d page 0 = mean over queries of (softmax - right) * query / 0.1
    wrong0, wrong1 = sigmoid(-1), sigmoid(-6)
    assert pages.grad[0].tolist() == pytest.approx([-wrong0 / 0.1 / 2, wrong1 * 2 / 0.1 / 2], rel=1e-9)
    assert pages.grad[1].tolist() == pytest.approx([wrong0 / 0.1 / 2, -wrong1 * 2 / 0.1 / 2], rel=1e-9)


def test_info_nce_with_hard_negatives_and_other_processes() -> None:
    queries = tensor([[1.0, 0.0]])
    candidates = tensor([[5.0, 0.0], [0.1, 0.0], [0.2, 9.0]])  # another process's, ours, our hard negative
    expected = -math.log(math.exp(1) / (math.exp(50) + math.exp(1) + math.exp(2)))
    assert losses.info_nce(queries, candidates, 0.1, first=1).item() == pytest.approx(expected, rel=1e-12)


def test_flops_by_hand() -> None:
    weights = tensor([[1.0, 0.0, 2.0], [3.0, 0.0, 0.0]], grad=True)
    loss = losses.flops(weights)
    assert loss.item() == pytest.approx(2.0**2 + 0 + 1.0**2)
    loss.backward()
    assert weights.grad.tolist() == [[2.0, 0.0, 1.0], [2.0, 0.0, 1.0]]  # 2 * mean / batch


def test_gate_by_hand() -> None:
    pages, captions = tensor([[1.0, 2.0, 0.0, 0.5]]), tensor([[0.5, 0.5, 3.0, 0.0]])
    # overlap 0.5, 1, 0, 0; to the power of 2: 0.25, 1
    gate = losses.overlap_gate(pages, captions, 0.5)
    assert gate[0].tolist() == pytest.approx([0.2, 0.8, 0.0, 0.0])
    assert losses.overlap_gate(pages, captions, 1.0)[0].tolist() == pytest.approx([1 / 3, 2 / 3, 0, 0])
    nothing = losses.overlap_gate(tensor([[1.0, 0.0]]), tensor([[0.0, 1.0]]), 0.5)
    assert nothing.tolist() == [[0.0, 0.0]]
    tiny = losses.overlap_gate(pages.float() * 1e-18, captions.float(), 0.5)
    assert tiny[0].tolist() == pytest.approx([0.2, 0.8, 0.0, 0.0], rel=1e-5)


def test_gated_loss_by_hand() -> None:
    logits = tensor([[0.3, -1.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]], grad=True)
    gate = tensor([[0.2, 0.8, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    loss = losses.caption_gated(logits, gate)
    expected = -(0.2 * math.log(sigmoid(0.3)) + 0.8 * math.log(sigmoid(-1)) + math.log(0.5)) / 2
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    loss.backward()
    assert logits.grad[0].tolist() == pytest.approx([-0.2 * sigmoid(-0.3) / 2, -0.8 * sigmoid(1.0) / 2, 0, 0])
    assert logits.grad[1].tolist() == pytest.approx([0, 0, 0, -0.25])


def test_the_gate_s_stop_gradient_stops() -> None:
    """The gated loss alone moves the page's logits, and neither vector that the gate is made of."""
    logits = tensor([[0.5, 1.5, -0.5]], grad=True)
    pages, captions = tensor([[0.4, 0.9, 0.1]], grad=True), tensor([[1.0, 0.5, 0.7]], grad=True)
    gate = losses.overlap_gate(pages, captions, 0.5)
    assert not gate.requires_grad
    losses.caption_gated(logits, gate).backward()
    assert pages.grad is None
    assert captions.grad is None
    assert logits.grad.abs().sum() > 0
    # and where the logits are the page's own, the gradient is the gate's, not that of its making
    raw = tensor([[0.5, 1.5, -0.5]], grad=True)
    own = torch.log1p(torch.relu(raw))
    losses.caption_gated(raw, losses.overlap_gate(own, captions, 0.5)).backward()
    fixed = losses.overlap_gate(own.detach(), captions.detach(), 0.5)
    assert torch.allclose(raw.grad, -fixed * torch.sigmoid(-raw.detach()))


def test_below_zero_a_gated_term_still_learns() -> None:
    """Why the loss takes the logit and not the weight: ReLU would stop the gradient."""
    logits = tensor([[-3.0]], grad=True)
    losses.caption_gated(logits, tensor([[1.0]])).backward()
    assert logits.grad.item() == pytest.approx(-sigmoid(3.0))


def test_cosine_by_hand() -> None:
    assert losses.cosine_alignment(
        tensor([[1.0, 0.0], [1.0, 1.0]]), tensor([[2.0, 0.0], [1.0, 0.0]])
    ).item() == (pytest.approx((0 + 1 - 1 / math.sqrt(2)) / 2))


def sides() -> tuple[torch.Tensor, Side, torch.Tensor, Side]:
    queries = tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.2]])
    page, caption = tensor([[0.9, 0.1, 0.2], [0.1, 0.8, 0.0]]), tensor([[0.5, 0.0, 0.4], [0.0, 1.0, 0.3]])
    logits = torch.expm1(page) - 0.1
    return queries, Side(page, page), logits, Side(caption, caption)


@pytest.mark.parametrize("captions", ["gated", "rank", "cosine", "none"])
@pytest.mark.parametrize("ramp", [0.0, 0.25, 1.0])
def test_the_groups_add_up(captions: str, ramp: float) -> None:
    config = PaperConfig(captions=captions, caption_rank_weight=0.5, page_flops=0.05, cosine_weight=3.0)
    queries, page, logits, caption = sides()
    found = losses.page_losses(config, queries, page, logits, caption, 0, ramp)
    rank = losses.info_nce(queries, page.weights, 0.1)
    expected = rank + ramp * 0.05 * losses.flops(page.weights)
    if captions != "none":
        expected += 0.5 * losses.info_nce(queries, caption.weights, 0.1)
        expected += ramp * 0.005 * losses.flops(caption.weights)
    if captions == "gated":
        expected += 5 * losses.caption_gated(logits, losses.overlap_gate(page.weights, caption.weights, 0.5))
    if captions == "cosine":
        expected += 3 * losses.cosine_alignment(page.weights, caption.weights)
    assert found.total.item() == pytest.approx(expected.item(), rel=1e-12)


def test_sparsity_really_warms_up() -> None:
    assert [flops_share(step, 500, "quadratic") for step in (0, 250, 499, 500, 9999)] == [
        0,
        0.25,
        0.996004,
        1,
        1,
    ]
    assert [flops_share(step, 500, "linear") for step in (0, 250, 500)] == [0, 0.5, 1]
    assert flops_share(0, 0, "linear") == 1
    shares = [flops_share(step, 500, "quadratic") for step in range(600)]
    assert shares == sorted(shares)


def test_warm_up_stable_decay() -> None:
    shares = [rate_share(step, 100, 0.05, 0.2) for step in range(100)]
    assert shares[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert set(shares[5:80]) == {1.0}
    assert shares[80:] == sorted(shares[80:], reverse=True)
    assert 0 < shares[-1] < 0.06
    assert shares[80] < 1
    assert rate_share(0, 1, 0, 0) == 1


def test_presets_are_the_paper_s() -> None:
    quality, efficient = load_config("quality"), load_config("efficient")
    assert (quality.page_flops, quality.caption_rank_weight) == (0.01, 1.0)
    assert (efficient.page_flops, efficient.caption_rank_weight) == (0.05, 0.5)
    for config in (quality, efficient):
        assert (config.temperature, config.gate_temperature, config.gate_weight) == (0.1, 0.5, 5.0)
        assert (config.caption_flops, config.flops_warm_up_steps, config.batch, config.epochs) == (
            0.005,
            500,
            42,
            3,
        )
        assert (config.rate, config.warm_up, config.decay, config.lora_rank) == (5e-4, 0.05, 0.2, 32)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lambda_p = 0.01", "no option 'lambda_p'"),
        ("rate = 'fast'", "not a number"),
        ("captions = 'some'", "captions is one of"),
        ("rate = -1.0", "rate must be above 0"),
        ("rate = nan", "rate must be above 0"),
        ("warm_up = 0.9", "together"),
        ("batch = 1", "2 pairs"),
        ("rate =", "not sound TOML"),
    ],
)
def test_configurations_are_read_strictly(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        load_config(tmp_path / "mine.toml")


def test_configurations_of_one_s_own(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("rate = 1e-4\nlora_vision = true\n")
    config = load_config(tmp_path / "mine.toml", {"batch": "8"})
    assert (config.rate, config.lora_vision, config.batch) == (1e-4, True, 8)
    with pytest.raises(InputError, match="no configuration"):
        load_config(tmp_path / "nothing.toml")


def test_scores_beyond_the_clamp_do_not_count() -> None:
    queries = tensor([[1.0, 0.0], [0.0, 1.0]])
    pages = tensor([[30.0, 0.0], [0.0, 0.2]], grad=True)
    # scores / 0.1 are 300 and 0; 0 and 2: the first is cut to 3
    loss = losses.info_nce(queries, pages, 0.1, clamp=3.0)
    assert loss.item() == pytest.approx((math.log1p(math.exp(-3)) + math.log1p(math.exp(-2))) / 2, rel=1e-9)
    loss.backward()
    assert pages.grad[0, 0].item() == 0.0
    assert pages.grad[1, 1].item() < 0
    assert PaperConfig().score_clamp == 100.0


def test_the_public_values_where_the_paper_is_silent() -> None:
    config = PaperConfig()
    assert (config.clip, config.accumulate, config.lora_vision) == (5.0, 4, False)
    assert (config.query_start, config.repeats, config.longest_caption) == ("random", "once", 1024)
