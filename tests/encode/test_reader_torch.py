"""The reader through torch: about the vectors that onnxruntime makes, within the stated tolerance."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from test_reader import WORDS, page, sheet

from vsplade.encode import load_encoder
from vsplade.encode.gpu.onnx_weights import initializers
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.reader.reader_queries import MODEL
from vsplade.errors import InputError, ModelMismatchError
from vsplade.types import Page, SparseVector

torch = pytest.importorskip("torch")

COSINE = 0.94
"""docs/model-card.md states it: torch does not round activations to 8 bits, and it reads pages whole. What is
spelled differs more."""


def cosine(a: SparseVector, b: SparseVector) -> float:
    shared, i, j = np.intersect1d(a.terms, b.terms, return_indices=True)
    product = float(a.weights[i] @ b.weights[j]) if len(shared) else 0.0
    return product / float(np.linalg.norm(a.weights) * np.linalg.norm(b.weights))


def test_about_the_same_vectors_but_another_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    # torch spells nothing: what the network reads is compared
    monkeypatch.setattr(ReaderEncoder, "_spelled", lambda self, pose, image, cells: cells)
    plain, through_torch = load_encoder("reader"), load_encoder("reader:device=cpu:0")
    assert type(plain) is not type(through_torch)
    assert plain.fingerprint != through_torch.fingerprint
    sheets = [
        sheet(WORDS),
        sheet(WORDS.upper(), 14, 700, 500),
        sheet("harbour lighthouse", 60, ink=250, paper=20),
    ]
    sheets += [sheet(WORDS, 9, 1500, 600), sheet(WORDS, 24, 1500, 600)]  # tiny at the size that is read
    pages = [page(image, str(n)) for n, image in enumerate(sheets)]
    for a, b in zip(plain.encode_pages(pages), through_torch.encode_pages(pages), strict=True):
        assert cosine(a, b) >= COSINE


def test_an_index_that_torch_has_filled_is_searched_without_it(tmp_path: Path) -> None:
    from vsplade.ingest import index_paths
    from vsplade.search.index import Index

    sheet("harbour lighthouse", 18, 250, 100).save(tmp_path / "one.png")
    index_paths([tmp_path / "one.png"], tmp_path / "index", encoder="reader:device=cpu:0")
    assert Index.open(tmp_path / "index").identity.name == "reader:device=torch"
    script = """
import sys
sys.modules["torch"] = None  # as if it were not installed
from vsplade.search.index import Index
index = Index.open(sys.argv[1])
assert [hit.id for hit in index.search("lighthouse")] == ["one"]
from vsplade.errors import MissingExtraError
from vsplade.ingest import index_paths
try:
    index_paths([sys.argv[2]], sys.argv[1])
except MissingExtraError as error:
    print(error)
"""
    sheet("mountain", 18, 250, 100).save(tmp_path / "two.png")
    told = [sys.executable, "-c", script, str(tmp_path / "index"), str(tmp_path / "two.png")]
    done = subprocess.run(told, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "torch" in done.stdout
    with pytest.raises(ModelMismatchError, match="device=torch"):
        index_paths([tmp_path / "two.png"], tmp_path / "index", encoder="reader")
    index_paths([tmp_path / "two.png"], tmp_path / "index")
    assert [hit.id for hit in Index.open(tmp_path / "index").search("mountain")] == ["two"]


def test_blank_and_empty_batches() -> None:
    encoder = load_encoder("reader:device=cpu:0")
    assert list(encoder.encode_pages([])) == []
    (vector,) = encoder.encode_pages([page(sheet(""))])
    assert len(vector) == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_explained() -> None:
    with pytest.raises(InputError, match="no GPU"):
        load_encoder("reader:device=cuda")


def test_order_is_kept_over_batches_of_other_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch waits for pages of its own shape, but no vector overtakes another."""
    from vsplade.encode.gpu import batch_queue, gpu_reader

    monkeypatch.setattr(gpu_reader, "BATCHES", ((0, 2),))
    monkeypatch.setattr(batch_queue, "MOST_WAITING", 1.5)
    words = ["harbour", "mountain", "winter", "garden", "letter", "bridge", "silver"]
    sizes = [(250, 100), (180, 150), (250, 100), (250, 100), (180, 150), (250, 100), (400, 90)]
    encoder = load_encoder("reader:device=cpu:0")
    taken = 0

    def pages() -> Iterator[Page]:
        nonlocal taken
        for word, size in zip(words, sizes, strict=True):
            taken += 1
            yield page(sheet(word, 18, *size), word)

    ahead = []
    for word, vector in zip(words, encoder.encode_pages(pages()), strict=True):
        ahead.append(taken)
        (term,) = encoder.vocabulary.encode(word)  # type: ignore[attr-defined]
        assert term in vector.top(3).terms
    assert ahead[0] <= 3  # not the whole list at once


def squares(image: Image.Image) -> tuple[int, int]:
    return -(-image.width // 128), -(-image.height // 128)


def test_rare_shapes_share_a_batch() -> None:
    from concurrent.futures import Future

    from vsplade.encode.gpu.batch_queue import PageQueue

    sent: list[list[int]] = []

    def submit(images: list[Image.Image]) -> Future[list[SparseVector]]:
        sent.append([image.width for image in images])
        done: Future[list[SparseVector]] = Future()
        done.set_result([SparseVector.from_dict({image.width: 1.0}) for image in images])
        return done

    queue, out = PageQueue(submit, 4, squares), []
    widths = [100, 300, 101, 500, 102, 900, 103, 104, 105, 106, 107, 108, 109, 901, 110, 111, 112]
    for width in widths:
        queue.add(Image.new("L", (width, 50)))
        out += [int(vector.terms[0]) for vector in queue.ready()]
    out += [int(vector.terms[0]) for vector in queue.rest()]
    assert out == widths
    assert sent[:3] == [[100, 101, 102, 103], [104, 105, 106, 107], [108, 109, 110, 111]]
    assert sent[3:] == [[300, 500, 112], [900, 901]]


def test_a_long_strip_does_not_share_a_batch_with_a_tall_one() -> None:
    from concurrent.futures import Future

    from vsplade.encode.gpu.batch_queue import PageQueue

    sent: list[list[tuple[int, int]]] = []

    def submit(images: list[Image.Image]) -> Future[list[SparseVector]]:
        sent.append([image.size for image in images])
        done: Future[list[SparseVector]] = Future()
        done.set_result([SparseVector.from_dict({1: 1.0}) for _ in images])
        return done

    queue = PageQueue(submit, 8, squares)
    for size in ((30_000, 60), (60, 30_000), (1000, 1400), (1400, 1000)):
        queue.add(Image.new("L", size))
    assert len(list(queue.rest())) == 4
    assert sent == [[(30_000, 60)], [(60, 30_000)], [(1000, 1400), (1400, 1000)]]


def test_places_are_those_of_the_words() -> None:
    image = Image.new("L", (400, 500), 255)
    image.paste(sheet("harbour", 24, 240, 100), (150, 370))
    encoder = load_encoder("reader:device=cpu:0")
    (term,) = encoder.vocabulary.encode("harbour")  # type: ignore[attr-defined]
    vector, boxes = encoder.encode_with_places(page(image))  # type: ignore[attr-defined]
    box = boxes[vector.terms.tolist().index(term)]
    assert box.left > 0.3
    assert 0.75 < (box.top + box.bottom) / 2 < 0.95


def test_the_size_of_type_is_told_if_the_model_has_it() -> None:
    from vsplade.encode.gpu.gpu_reader import TorchReaderEncoder

    encoder = load_encoder("reader:device=cpu:0")
    assert isinstance(encoder, TorchReaderEncoder)
    knows = "size.bias" in initializers(MODEL / "head.onnx")
    cells = encoder.read(sheet(WORDS))
    assert len(cells.em) == len(cells.term) > 10
    assert np.isfinite(cells.em).all() == knows
    torch.nn.init.zeros_(encoder.network.size.weight)
    torch.nn.init.constant_(encoder.network.size.bias, 4.0)
    assert (encoder.read(sheet(WORDS)).em == 16).all()


def test_best_terms_are_an_exact_top_k() -> None:
    from vsplade.encode.gpu.detect_torch import best_terms

    logits = torch.randn(50, 28 * 512, generator=torch.Generator().manual_seed(0)) * 3
    logits[0, 7::512][:4] = 30  # all in one group
    expected = torch.softmax(logits, 1).topk(4, 1)
    values, terms = best_terms(logits, 4)
    torch.testing.assert_close(values, expected.values)
    assert (logits.gather(1, terms) == logits.gather(1, expected.indices)).all()
    values, terms = best_terms(logits[:, :-1], 4)  # no whole number of groups
    torch.testing.assert_close(values, torch.softmax(logits[:, :-1], 1).topk(4, 1).values)


@pytest.mark.parametrize(("stem", "inner"), [(0, 1.0), (8, 1.0), (8, 0.5)])
def test_fused_network_is_the_same_function(stem: int, inner: float) -> None:
    from vsplade.encode.gpu.fuse_convs import convolve_add_relu, convolve_relu, fuse
    from vsplade.encode.gpu.network import NetworkConfig, Reader, fold_norms

    torch.manual_seed(0)
    config = NetworkConfig(
        vocabulary=64, stem=stem, fine=16, middle=16, coarse=32, inner=inner, hidden=16, rank=8
    )
    reader = Reader(config).eval()
    fold_norms(reader)
    fused = fuse(reader.trunk)
    picture = torch.rand(2, 1, 64, 96)
    with torch.inference_mode():
        for one, two in zip(reader.trunk(picture), fused(picture), strict=True):
            torch.testing.assert_close(one, two)
    made = [node.target for node in fused.graph.nodes]
    blocks = config.fine_blocks + config.middle_blocks + config.coarse_blocks + 1
    assert made.count(convolve_add_relu) == blocks
    assert (
        made.count(convolve_relu) >= blocks + 3
    )  # and the stem's, if it has as many channels as cuDNN likes


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton, which comes with torch")
def test_kernel_of_the_best_terms() -> None:
    """In triton's interpreter, which must be chosen before triton is imported."""
    script = """
import torch
from vsplade.encode.gpu.reader_kernels import best_terms, fits
generator = torch.Generator().manual_seed(0)
for rows, terms, best in ((3, 30_720, 4), (2, 2048, 2), (0, 2048, 4)):
    assert fits(terms, best)
    logits = (torch.randn(rows, terms, generator=generator) * 4).half()
    logits[:1, 100::1024] = 40  # all in one column
    expected = torch.softmax(logits.float(), 1).topk(best, 1)
    values, found = best_terms(logits, best)
    torch.testing.assert_close(values, expected.values)
    assert (logits.gather(1, found) == logits.gather(1, expected.indices)).all()
    assert all(len(set(row)) == best for row in found.tolist())
assert not fits(1000, 4) and not fits(1024, 3)
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_places_of_a_mask_without_waiting() -> None:
    from vsplade.encode.gpu.transfers import rows_of

    mask = torch.tensor([False, True, True, False, True])
    assert rows_of(mask, 3).tolist() == [1, 2, 4]
    assert rows_of(mask, 5).tolist() == [1, 2, 4, 0, 0]  # more room than there are places
    assert rows_of(mask & False, 0).tolist() == []
    assert rows_of(torch.zeros(0, dtype=torch.bool), 2).tolist() == [0, 0]


def test_tiny_type_is_told_as_on_the_cpu() -> None:
    """Half of the weight below a bound, and the weighted median below it, are the same thing."""
    from vsplade.encode.gpu.detect_torch import Found
    from vsplade.encode.gpu.gpu_reader import TorchReaderEncoder
    from vsplade.encode.reader.detect import type_size

    encoder = load_encoder("reader:device=cpu:0")
    assert isinstance(encoder, TorchReaderEncoder)
    generator, pages, cells = torch.Generator().manual_seed(0), 60, 1500
    page = torch.randint(pages - 1, (cells,), generator=generator).sort().values  # the last one is blank
    em = 4 + page / 8 + torch.rand(cells, generator=generator)  # from all tiny to none
    em[:40], chance = encoder._config["tiny"], torch.rand(cells, generator=generator)
    nothing = torch.zeros(cells, 2)
    told = encoder._with_tiny_type(Found(page, nothing, nothing, chance, nothing, em, page), cells, pages)
    sizes = [type_size(em[page == n].numpy(), chance[page == n].numpy()) for n in range(pages)]
    assert told.tolist() == [size < encoder._config["tiny"] for size in sizes]
    assert 10 < sum(told.tolist()) < 50


def test_an_error_in_a_batch_is_raised_and_the_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    import gc
    import threading

    from vsplade.encode.gpu.gpu_reader import TorchReaderEncoder

    before = threading.active_count()
    encoder = load_encoder("reader:device=cpu:0")
    for name in ("pack", "send"):  # in the packer's thread, and in the one that starts the work
        with monkeypatch.context() as patched:
            patched.setattr(TorchReaderEncoder, name, lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                list(encoder.encode_pages([page(sheet("harbour", 18, 250, 100))] * 3))
    some = encoder.encode_pages(page(sheet("harbour", 18, 250, 100)) for _ in range(100))
    assert len(next(some))  # type: ignore[call-overload]
    assert threading.active_count() > before + 2
    some.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before + 2  # those that start the work and end it stay, for the next
    assert len(list(encoder.encode_pages([page(sheet("harbour", 18, 250, 100))] * 3))) == 3
    assert threading.active_count() == before + 2
    del encoder, some
    gc.collect()
    assert threading.active_count() == before


def test_any_number_of_pages_is_read_larger_in_one_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number differs from batch to batch, and a GPU needs time for each new shape."""
    from vsplade.encode.gpu.gpu_reader import TorchReaderEncoder

    encoder = load_encoder("reader:device=cpu:0")
    assert isinstance(encoder, TorchReaderEncoder)
    monkeypatch.setattr(TorchReaderEncoder, "reading_edge", 160)
    words = ["harbour", "mountain", "winter", "garden", "letter", "bridge"]
    pages = [page(sheet(f"{word} " * 6, 16, 240, 120 + n), word) for n, word in enumerate(words)]
    shapes: list[tuple[int, ...]] = []
    trunk = encoder.trunk

    def watched(picture: Any) -> Any:
        shapes.append(tuple(picture.shape))
        return trunk(picture)

    monkeypatch.setattr(encoder, "trunk", watched)
    monkeypatch.setitem(encoder._config, "tiny", 1000.0)  # every page on which anything was read
    for count in (1, 2, 5):
        shapes.clear()
        vectors = list(encoder.encode_pages(pages[:count]))
        assert [shape[0] for shape in shapes[3:]] == ([4] * -(-count // 4) if count > 1 else [1])
        assert len(set(shapes[3:])) == 1
        for word, vector in zip(words, vectors, strict=False):
            (term,) = encoder.vocabulary.encode(word)
            assert term in vector.top(3).terms
