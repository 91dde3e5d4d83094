"""Compiled loops of the reader do what numpy and onnxruntime do."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numba
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from vsplade.compiled import compiled
from vsplade.encode.reader import detect, term_scan
from vsplade.encode.reader.detect import Named, fold, namer
from vsplade.encode.reader.onnx_constants import constants
from vsplade.encode.reader.page_loops import edges, near_on_line
from vsplade.encode.reader.reader_queries import MODEL
from vsplade.encode.reader.window_loops import folded, gathered
from vsplade.errors import InputError

HEAD = MODEL / "head.onnx"


def test_a_process_compiles_for_itself_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def njit(cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr("vsplade.compiled.njit", njit)
    assert compiled(fastmath=True)(lambda x: x + 1)(2) == 3


def test_pixels_are_folded() -> None:
    grey = np.random.default_rng(0).integers(0, 256, (96, 160), np.uint8)
    window = grey[16:64, 32:144]
    expected = fold(255 - window).astype(np.float32) / 255
    assert folded(window).dtype == np.float32
    assert (folded(window) == expected).all()


def test_features_are_gathered() -> None:
    rng = np.random.default_rng(0)
    fine, coarse = (
        rng.random((channels, *shape), np.float32) for channels, shape in ((5, (6, 8)), (7, (3, 4)))
    )
    rows, columns = np.nonzero(rng.random((6, 8)) < 0.3)
    expected = np.concatenate([fine[:, rows, columns], coarse[:, rows // 2, columns // 2]]).T
    assert (gathered(fine, coarse, rows, columns) == expected).all()
    assert gathered(fine, coarse, rows[:0], columns[:0]).shape == (0, 12)


def test_edges_are_counted() -> None:
    rng = np.random.default_rng(0)
    for shape in ((8, 8), (16, 48), (64, 160)):
        grey = rng.integers(0, 60, shape, np.uint8)
        levels = grey.astype(np.int64)
        left, above = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        left[:, 1:] = np.abs(np.diff(levels, axis=1)) > 16
        above[1:] = np.abs(np.diff(levels, axis=0)) > 16
        for found, marks in zip(edges(grey, 8, 16), (left, above), strict=True):
            assert (found == marks.reshape(shape[0] // 8, 8, -1, 8).sum(axis=(1, 3))).all()


def test_places_near_each_other_on_a_line_are_found() -> None:
    rng = np.random.default_rng(0)
    for count in (0, 1, 50):
        height, x = rng.integers(0, 9, count) / 4.0, rng.random(count) * 9
        reach, back, ahead = rng.random((3, count)) * 2
        one, other = near_on_line(height, reach, x, back, ahead)
        expected = {
            (row, near)
            for row in range(count)
            for near in range(count)
            if abs(height[near] - height[row]) <= reach[row] and -back[row] < x[near] - x[row] < ahead[row]
        }
        assert len(one) == len(expected)
        assert set(zip(one.tolist(), other.tolist(), strict=True)) == expected
        assert (np.diff(height[one]) >= 0).all()


@pytest.mark.parametrize("name", ["head", "size", "trunk", "speller"])
def test_constants_are_those_of_the_onnx_package(name: str) -> None:
    path = MODEL / f"{name}.onnx"
    expected = {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}
    found = constants(path)
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key].dtype == values.dtype
        assert np.array_equal(found[key], values)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    whole = HEAD.read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "head.onnx"
    for length in (1, 50, 4000, len(whole) // 2):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"head\.onnx"):
            constants(path)
    for _ in range(200):  # never another error, whatever stands there
        start = int(rng.integers(0, len(whole) - 64))
        path.write_bytes(whole[:start] + rng.bytes(16) + whole[start + 16 :])
        with suppress(InputError):
            constants(path)
    with pytest.raises(InputError):
        constants(tmp_path / "nothing.onnx")


def plausible(count: int) -> NDArray[np.float32]:
    """Features of which the head is about as sure as of real ones: some high, most near zero."""
    rng = np.random.default_rng(count)
    return (rng.gamma(0.3, 3.0, (count, 384)) * (rng.random((count, 384)) < 0.6)).astype(np.float32)


def exactly(features: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The chance of every term, and the em, in floats of 64 bits."""
    held = constants(HEAD)

    def layer(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
        weights = held[f"{name}.weight_quantized"] * held[f"{name}.weight_scale"].astype(np.float64)
        return np.asarray(values @ weights + held[f"{name}.bias"])

    seen = np.maximum(layer("head.hidden", features.astype(np.float64)), 0)
    products = layer("head.vocabulary", seen)
    powers = np.exp(products - products.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True), np.exp2(layer("size", seen)[:, 0])


def ways(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Named, float]]:
    """As this processor names cells, and as one without the instruction does; and how far chances are off."""
    features = plausible(203)
    first = namer(HEAD, 4)(features)
    monkeypatch.setattr(term_scan, "has_instruction", lambda: False)
    return [(first, 0.01), (namer(HEAD, 4)(features), 0.03)]


def test_cells_are_named_as_exact_numbers_name_them(monkeypatch: pytest.MonkeyPatch) -> None:
    chances, ems = exactly(plausible(203))
    order = np.argsort(-chances, axis=1, kind="stable")
    for (found, terms, sizes), off in ways(monkeypatch):
        assert found.shape == terms.shape == (203, 4)
        assert (np.diff(found, axis=1) <= 0).all()
        assert (terms[:, 0] == order[:, 0]).mean() > 0.95
        here = np.take_along_axis(chances, terms.astype(np.int64), axis=1)
        assert np.abs(found - here).mean() < off
        assert np.abs(sizes / ems - 1).max() < 0.1
        for row in range(203):
            assert len(set(terms[row].tolist())) == 4


def test_no_cells_are_named_without_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime 1.18 crashes on no cells at all."""
    for has_instruction in (term_scan.has_instruction(), False):
        monkeypatch.setattr(term_scan, "has_instruction", lambda here=has_instruction: here)
        monkeypatch.setattr(detect, "onnx_session", lambda path: None)
        chances, terms, ems = namer(HEAD, 4)(np.zeros((0, 384), np.float32))
        assert chances.shape == terms.shape == (0, 4)
        assert ems.shape == (0,)


def test_a_cell_is_named_alike_among_others() -> None:
    """By the compiled loops; onnxruntime rounds 64 cells by one scale."""
    if not term_scan.has_instruction():
        return
    features, name = plausible(1500), namer(HEAD, 4)
    together = name(features)
    for rows in (slice(1), slice(3, 20), slice(1020, 1030), slice(0)):
        for part, whole in zip(name(features[rows]), together, strict=True):
            assert (part == whole[rows]).all()
