"""Tables that were learned apart become one: turned to each other first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from research.meaning.mix_tables import load_table, mix_tables, mixed, rotation
from research.meaning.options import MixOptions
from research.tests.meaning.conftest import VOCABULARY
from vsplade.errors import InputError

RNG = np.random.default_rng(0)


def a_rotation(size: int) -> np.ndarray:
    return np.linalg.qr(RNG.normal(size=(size, size)))[0]


def a_model(folder: Path, rows: np.ndarray, words: list[str], weights: str) -> Path:
    folder.mkdir()
    scale = np.abs(rows).max(1) / 127
    np.save(folder / "query.npy", np.round(rows / scale[:, None]).astype(np.int8))
    np.save(folder / "query_scale.npy", scale.astype(np.float32))
    (folder / "vocab.txt").write_text("".join(f"{name}\n" for name in VOCABULARY))
    (folder / "words.txt").write_text("".join(f"{word}\n" for word in words))
    (folder / "meaning.json").write_text(json.dumps({"dimensions": rows.shape[1], "weights": weights}))
    for name in ("page.onnx", "centroids.npy"):
        (folder / name).write_bytes(weights.encode())
    return folder


def test_the_rotation_is_found() -> None:
    rows, turn = RNG.normal(size=(200, 6)), a_rotation(6)
    np.testing.assert_allclose(rotation(rows, rows @ turn), turn, atol=1e-8)


def test_the_same_table_turned_and_longer_changes_nothing() -> None:
    rows = RNG.normal(size=(50, 6))
    names = [f"w{n}" for n in range(50)]
    order = RNG.permutation(50)
    others = 3 * (rows @ a_rotation(6))[order]
    np.testing.assert_allclose(mixed(rows, names, others, [names[n] for n in order], 0.5), rows, atol=1e-8)


def test_a_word_that_one_table_lacks_keeps_its_row() -> None:
    rows, others = RNG.normal(size=(40, 6)), RNG.normal(size=(40, 6))
    names = [f"w{n}" for n in range(40)]
    found = mixed(rows, names, others, [*names[:39], "other"], 0.5)
    np.testing.assert_array_equal(found[39], rows[39])
    assert (np.abs(found[:39] - rows[:39]).max(1) > 1e-3).all()


def test_pages_stay_those_of_the_first(tmp_path: Path) -> None:
    rows = RNG.normal(size=(len(VOCABULARY) + 2, 16))
    one = a_model(tmp_path / "one", rows, ["abc", "xyz"], "first")
    two = a_model(tmp_path / "two", rows @ a_rotation(16), ["abc", "xyz"], "second")
    told = mix_tables(MixOptions(one, two, tmp_path / "out"))
    assert told["weights"] == "first"
    assert (tmp_path / "out" / "page.onnx").read_bytes() == b"first"
    found, names = load_table(tmp_path / "out")
    assert names[-2:] == ["abc", "xyz"]
    cosine = (found * rows).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(rows, axis=1)
    assert cosine.min() > 0.98  # rounded to 31 steps
    short = a_model(tmp_path / "short", rows[:, :8], ["abc", "xyz"], "third")
    with pytest.raises(InputError, match="8 dimensions"):
        mix_tables(MixOptions(one, short, tmp_path / "out"))
