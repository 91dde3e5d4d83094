"""Pairs of neighbours counted on the device are those that the host finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

from vsplade.encode.gpu.bigrams_torch import BatchStanding, NeighboursOnDevice, hashed, hashed_triple  # noqa: E402
from vsplade.encode.gpu.pipeline import finish  # noqa: E402
from vsplade.encode.hash_bits import CHECK  # noqa: E402
from vsplade.encode.reader import bigrams as on_host  # noqa: E402
from vsplade.encode.reader.bigrams import PAIRS, Neighbours, Pairs  # noqa: E402
from vsplade.encode.reader.detect import Cells  # noqa: E402
from vsplade.encode.tokenizer import Tokenizer  # noqa: E402

TOKENIZER = Tokenizer.load()
HEAVY = np.random.default_rng(0).random(len(TOKENIZER)) < 0.8
HOST = Neighbours(TOKENIZER, HEAVY, 2.8)
DEVICE = NeighboursOnDevice(HOST, torch.device("cpu"))
COPIES = 3


def test_numbers_are_the_same() -> None:
    left, right = np.random.default_rng(1).integers(0, 1 << 16, (2, 20_000))
    numbers = hashed(torch.from_numpy(left), torch.from_numpy(right))
    np.testing.assert_array_equal(numbers.numpy(), on_host.hashed(left, right))
    triples = np.random.default_rng(2).integers(0, 1 << 16, (3, 20_000))
    numbers = hashed_triple(*(torch.from_numpy(terms) for terms in triples))
    np.testing.assert_array_equal(numbers.numpy(), on_host.hashed_triple(*triples))


def test_days_are_the_same() -> None:
    runs = [*map(str, range(40)), "05", "dec", "march", "1999", "2018", "keeper"]
    terms = np.array([TOKENIZER.term(run) for run in runs], np.int64)
    triples = terms[np.random.default_rng(3).integers(0, len(terms), (3, 20_000))]
    here = HOST.days.as_days(*triples)
    there = HOST.days.moved(torch.from_numpy).as_days(*(torch.from_numpy(column) for column in triples))
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(other.numpy(), one)
    assert (np.stack(here) != triples).any(0).mean() > 0.1


def page_of(rng: np.random.Generator, count: int) -> tuple[Cells, np.ndarray]:
    """Cells on few lines, so that many are neighbours, and the copy each was read on."""
    copy = rng.integers(0, COPIES, count)
    pixel = np.array([1e-3, 2.5e-3, 6e-3], np.float32)[copy][:, None].repeat(2, 1)
    place = np.stack([rng.integers(0, 400, count), rng.integers(0, 8, count) * 13], 1) + 0.5
    chance = rng.random((count, 2)).astype(np.float32) ** 2
    term = rng.integers(0, len(TOKENIZER), (count, 2)).astype(np.int32)
    em = rng.uniform(5, 40, count).astype(np.float32)
    return Cells((place * pixel).astype(np.float32), pixel, chance, term, em), copy


def dense(pairs: Pairs) -> np.ndarray:
    return np.bincount(pairs.number, pairs.chance, PAIRS)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 30), st.lists(st.integers(0, 150), min_size=1, max_size=4))
def test_counts_are_those_of_the_host(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    pages = [page_of(rng, size) for size in sizes]
    columns = [
        (np.full(2 * len(copy), number) * COPIES + copy.repeat(2), (cells.middle / cells.pixel).repeat(2, 0),
         cells.em.repeat(2), cells.term.reshape(-1), cells.probability.reshape(-1))
        for number, (cells, copy) in enumerate(pages)
    ]  # fmt: skip
    sheet, place, em, term, chance = (torch.from_numpy(np.concatenate(c)) for c in zip(*columns, strict=True))
    standing = BatchStanding(sheet, place.double(), em.double(), term.long(), chance)
    counted = finish(DEVICE.counted(standing, COPIES, len(pages)))
    for (cells, _), *columns in zip(pages, *(column.numpy() for column in counted), strict=True):
        found, words, checks, terms = columns
        expected = HOST.on_page(cells)
        np.testing.assert_allclose(found, dense(expected.pairs), atol=1e-5)
        np.testing.assert_allclose(words, dense(expected.whole), atol=1e-5)
        numbers = np.unique(expected.pairs.number)
        named = terms[numbers]
        hashes = on_host.hashed(named >> 32, named & (1 << 32) - 1)
        np.testing.assert_array_equal(hashes >> CHECK, numbers)
        both = np.concatenate([expected.pairs.hash, expected.whole.hash])
        assert set(np.unique(both) >> CHECK << CHECK | checks[np.unique(both) >> CHECK]) <= set(both.tolist())


def test_a_batch_without_words_has_no_pairs() -> None:
    nothing = torch.zeros(0)
    standing = BatchStanding(
        nothing.long(), torch.zeros(0, 2).double(), nothing.double(), nothing.long(), nothing
    )
    counts, whole, *_ = finish(DEVICE.counted(standing, COPIES, 2))
    assert counts.shape == whole.shape == (2, PAIRS)
    assert not counts.any()
    assert not whole.any()
