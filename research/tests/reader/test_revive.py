"""Silent units of the head: woken without anyone noticing, and what is written fits into a lower rank."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")
pytest.importorskip("onnx", reason="the windows come from the export, which needs onnx")
pytest.importorskip("safetensors", reason="checkpoints need safetensors: pip install 'vsplade[train]'")

from research.command import command
from research.reader.options import ReviveOptions
from research.reader.probe import load_reader
from research.reader.revive import living, revive, revived, word_features
from research.tests.reader.test_export import lively
from research.tests.reader.test_narrow import EXAMPLES, windows
from vsplade.cli.common import note
from vsplade.encode.gpu.network import NetworkConfig, Reader
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.train import training_checkpoint

ALIVE = 7


def half_asleep() -> Reader:
    """A reader that finds words everywhere and has a few units that fire."""
    sizes = {"stem": 8, "fine": 8, "middle": 16, "coarse": 16, "hidden": 24, "rank": 16}
    reader = lively(NetworkConfig(vocabulary=300, middle_blocks=1, coarse_blocks=1, **sizes))
    with torch.no_grad():
        reader.trunk.word.bias.fill_(3.0)
        reader.head.hidden.bias[:ALIVE] = 0.5
        reader.head.hidden.bias[ALIVE:] = -100.0
    return reader


def silent(_: str) -> None:
    pass


@pytest.mark.parametrize("rank", [ALIVE, 10, 16])
def test_it_reads_as_before_with_all_units_awake(rank: int) -> None:
    old = half_asleep()
    new = revived(old, rank, windows(16), say=silent)
    assert new.config.rank == rank
    with torch.no_grad():
        seen = word_features(old, windows(24)[16:])
        assert int(living(old.head, seen).sum()) == ALIVE
        assert int(living(new.head, seen).sum()) >= 22
        fires = (new.head.look(seen)[:, ALIVE:] > 0).float().mean(0)
        assert 0.2 < float(fires.median()) < 0.8
        torch.testing.assert_close(new.head(seen), old.head(seen), rtol=1e-3, atol=1e-3)
        size = new.size(new.head.look(seen))
        torch.testing.assert_close(size, old.size(old.head.look(seen)), rtol=1e-3, atol=1e-3)


def test_woken_units_learn() -> None:
    """All of them get a gradient within two steps, which silent ones never do."""

    def changed(reader: Reader) -> int:
        seen = word_features(reader, windows(8)).detach()
        wanted = torch.arange(len(seen)) % 300
        before = reader.head.hidden.weight.detach().clone()
        optimizer = torch.optim.SGD(reader.head.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(reader.head(seen), wanted).backward()
            optimizer.step()
        return int((reader.head.hidden.weight != before).any(1).sum())

    assert changed(half_asleep()) == ALIVE
    assert changed(revived(half_asleep(), 10, windows(16), say=silent)) >= 22


@pytest.mark.parametrize("rank", [ALIVE - 1, 17])
def test_a_rank_that_does_not_fit_is_refused(rank: int) -> None:
    with pytest.raises(InputError, match=rf"between {ALIVE}.*and 16"):
        revived(half_asleep(), rank, windows(8), say=silent)


def test_pages_without_words_are_refused() -> None:
    reader = half_asleep()
    with torch.no_grad():
        reader.trunk.word.bias.fill_(-1000.0)
    with pytest.raises(InputError, match="no words"):
        revived(reader, 16, windows(4), say=silent)


def test_a_checkpoint_becomes_one_to_go_on_from(tmp_path: Path) -> None:
    reader = half_asleep()
    tensors = {f"model.{name}": tensor for name, tensor in reader.state_dict().items()}
    header = {"network": reader.config.to_json(), "vocabulary": Tokenizer.load().fingerprint}
    training_checkpoint.save(tmp_path / "old.safetensors", tensors, header)
    (tmp_path / "pdfs").mkdir()
    shutil.copy(EXAMPLES / "report.pdf", tmp_path / "pdfs")
    line = [str(tmp_path / "old.safetensors"), "--pdfs", str(tmp_path / "pdfs")]
    line += ["--out", str(tmp_path / "new.safetensors"), "--rank", "12", "--windows", "4", "--json"]
    ran = CliRunner().invoke(command(revive, ReviveOptions, say=note), line)
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["network"]["rank"] == 12
    assert load_reader(tmp_path / "new.safetensors", torch.device("cpu")).head.narrow.out_features == 12
