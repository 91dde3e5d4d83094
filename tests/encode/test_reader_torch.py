"""The reader through torch: the same vectors as through onnxruntime, within the stated tolerance."""

from __future__ import annotations

import numpy as np
import pytest
from test_reader import WORDS, page, sheet

from vsplade.encode import load_encoder
from vsplade.errors import InputError
from vsplade.types import SparseVector

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

COSINE = 0.95
"""docs/model-card.md states it: torch does not round activations to 8 bits."""


def cosine(a: SparseVector, b: SparseVector) -> float:
    shared, i, j = np.intersect1d(a.terms, b.terms, return_indices=True)
    product = float(a.weights[i] @ b.weights[j]) if len(shared) else 0.0
    return product / float(np.linalg.norm(a.weights) * np.linalg.norm(b.weights))


def test_same_vectors_and_fingerprint() -> None:
    plain, through_torch = load_encoder("reader"), load_encoder("reader:device=cpu:0")
    assert type(plain) is not type(through_torch)
    assert plain.fingerprint == through_torch.fingerprint
    sheets = [sheet(WORDS), sheet(WORDS.upper(), 14, 700, 500), sheet("harbour 4711", 60, ink=250, paper=20)]
    pages = [page(image, str(n)) for n, image in enumerate(sheets)]
    for a, b in zip(plain.encode_pages(pages), through_torch.encode_pages(pages), strict=True):
        assert cosine(a, b) >= COSINE


def test_blank_and_empty_batches() -> None:
    encoder = load_encoder("reader:device=cpu:0")
    assert list(encoder.encode_pages([])) == []
    (vector,) = encoder.encode_pages([page(sheet(""))])
    assert len(vector) == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_explained() -> None:
    with pytest.raises(InputError, match="no GPU"):
        load_encoder("reader:device=cuda")
