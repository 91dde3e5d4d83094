"""From a folder with a model to an index and back, and searching without torch."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from PIL import Image, ImageDraw  # noqa: E402

import vsplade  # noqa: E402
from vsplade.encode.modernvbert import checkpoint, query  # noqa: E402
from vsplade.encode.modernvbert.encoder import ModernVBertEncoder, ModernVBertOptions  # noqa: E402
from vsplade.encode.modernvbert.processor import PageProcessor  # noqa: E402
from vsplade.errors import InputError  # noqa: E402
from vsplade.types import Page, PlacingEncoder  # noqa: E402

from . import tiny  # noqa: E402


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny.write_folder(tmp_path / "model", tiny.released_tensors())


def page(seed: int, size: tuple[int, int] = (60, 80)) -> Page:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Page(id=f"p{seed}", image=Image.fromarray(pixels), path=f"p{seed}.png")


def encoder(model: Path, **options: object) -> ModernVBertEncoder:
    return ModernVBertEncoder(ModernVBertOptions(str(model), **options))  # type: ignore[arg-type]


def test_pages_come_in_order_whatever_the_batch(model: Path) -> None:
    pages = [page(n, (60, 80) if n % 2 else (90, 30)) for n in range(5)]
    one = list(encoder(model, batch=1).encode_pages(pages))
    many = list(encoder(model, batch=3, threads=2).encode_pages(pages))
    file = tiny.released_tensors()
    processor = PageProcessor(model)
    for single, batched, seen in zip(one, many, pages, strict=True):
        tiles, grid = processor.tiles(seen.image)
        plain = tiny.plain_vector(
            file, list(processor.prompt_ids(grid)), torch.from_numpy(processor.normalise(tiles))
        )
        dense = np.zeros(tiny.TERMS, np.float32)
        dense[single.terms] = single.weights
        assert np.abs(dense - plain.numpy()).max() < 1e-5
        assert np.array_equal(single.terms, batched.terms)
        assert np.allclose(single.weights, batched.weights, atol=1e-5)
    assert len(next(iter(encoder(model, top=5).encode_pages(pages)))) == 5


def test_queries_add_repeats_and_leave_special_tokens_out(model: Path) -> None:
    side = encoder(model)
    table = query.query_weights(model)
    with torch.no_grad():
        from_torch = checkpoint.load(model).model.query_table().numpy()
    assert np.allclose(table, from_torch, atol=1e-6)
    ids = PageProcessor(model).tokenizer.encode(" red red green", add_special_tokens=False).ids
    vector = side.encode_query(" red red green")
    assert sorted(vector.terms.tolist()) == sorted(set(ids))
    red = max(set(ids), key=ids.count)
    assert vector.weights[vector.terms.tolist().index(red)] == pytest.approx(2 * table[red])
    assert len(side.encode_query("[CLS][SEP]<image>")) == 0
    assert len(side.encode_query("")) == 0
    assert side.vocabulary.token(red) == "red"
    assert len(side.vocabulary) == tiny.TERMS


def test_places_are_the_cells_of_the_best_logits(model: Path) -> None:
    reader = encoder(model)
    assert isinstance(reader, PlacingEncoder)
    seen = page(3, (60, 90))
    vector, boxes = reader.encode_with_places(seen)
    assert len(boxes) == len(vector)
    processor = PageProcessor(model)
    tiles, grid = processor.tiles(seen.image)
    ids = processor.prompt_ids(grid)
    logits = tiny.plain_logits(
        tiny.released_tensors(), list(ids), torch.from_numpy(processor.normalise(tiles))
    )
    image_places = [n for n, token in enumerate(ids) if token == tiny.IMAGE_TOKEN]
    side, checked = 4, 0
    for term, box in zip(vector.terms.tolist(), boxes, strict=True):
        best = int(logits[:, term].argmax())
        if best not in image_places:
            assert (box.left, box.top, box.right, box.bottom) == (0, 0, 1, 1)
            continue
        tile, cell = divmod(image_places.index(best), side * side)
        rows, columns = (grid.rows, grid.columns) if tile < grid.rows * grid.columns else (1, 1)
        top, left = divmod(tile, columns) if rows > 1 else (0, 0)
        assert box.left == pytest.approx((left * side + cell % side) / (columns * side))
        assert box.bottom == pytest.approx((top * side + cell // side + 1) / (rows * side))
        checked += 1
    assert checked > 5


def make_pictures(folder: Path) -> Path:
    folder.mkdir()
    for n, colour in enumerate(("red", "green", "blue")):
        picture = Image.new("RGB", (120, 160), "white")
        ImageDraw.Draw(picture).rectangle((20, 20 + 30 * n, 90, 60 + 30 * n), fill=colour)
        picture.save(folder / f"{colour}.png")
    return folder


def test_index_and_search_by_folder(model: Path, tmp_path: Path) -> None:
    from vsplade.ingest import index_paths

    pictures = make_pictures(tmp_path / "pictures")
    report = index_paths([str(pictures)], tmp_path / "index", encoder=str(model))
    assert not report.failures
    index = vsplade.Index.open(tmp_path / "index")
    hits = index.search(" red green blue page", k=3)
    assert len(hits) == 3
    by_hand = {h.id: index.vector(h.id) for h in hits}
    asked = encoder(model).encode_query(" red green blue page")
    for hit in hits:
        weights = dict(zip(by_hand[hit.id].terms.tolist(), by_hand[hit.id].weights.tolist(), strict=True))
        expected = sum(
            weights.get(t, 0) * w for t, w in zip(asked.terms.tolist(), asked.weights.tolist(), strict=True)
        )
        assert hit.score == pytest.approx(expected, rel=1e-2)


SEARCH = """
import sys
from vsplade import Index
from vsplade.encode import load_encoder
encoder = load_encoder(sys.argv[2]) if len(sys.argv) > 2 else None
print(len(Index.open(sys.argv[1], encoder=encoder).search(" red green blue page", k=3)))
bad = [name for name in ("torch", "transformers", "safetensors", "huggingface_hub") if name in sys.modules]
assert not bad, bad
"""


def test_search_needs_no_torch_and_no_model(model: Path, tmp_path: Path) -> None:
    from vsplade.ingest import index_paths

    index_paths([str(make_pictures(tmp_path / "pictures"))], tmp_path / "index", encoder=str(model))

    def search(*more: str) -> str:
        command = [sys.executable, "-c", SEARCH, str(tmp_path / "index"), *more]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.strip()

    assert search() == "3"
    query.export(model, tmp_path / "light", str(model.resolve()))
    assert {p.name for p in (tmp_path / "light").iterdir()} == {
        "query.npy",
        "tokenizer.json",
        "vsplade-query.json",
    }
    shutil.rmtree(model)
    assert search() == "3"  # the cache has the query side
    shutil.rmtree(tmp_path / "cache")
    assert search(str(tmp_path / "light")) == "3"  # and an exported side is enough
    with pytest.raises(InputError, match="query side"):
        list(encoder(tmp_path / "light").encode_pages([page(1)]))


def test_a_changed_model_is_noticed(model: Path) -> None:
    first = encoder(model)
    again = encoder(model)
    assert (first.name, first.fingerprint) == (again.name, again.fingerprint)
    tiny.write_folder(model, tiny.released_tensors(seed=9))
    changed = encoder(model)
    assert changed.fingerprint != first.fingerprint
    assert changed.encode_query("red").weights.tolist() != first.encode_query("red").weights.tolist()


def test_names_and_mistakes(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vsplade.encode import load_encoder

    with pytest.raises(InputError, match="There is no encoder"):
        load_encoder("nothing-of-that-name")
    assert load_encoder(str(model)).name == str(model.resolve())
    assert load_encoder(f"{model}:top=7").name == f"{model.resolve()}:top=7"
    with pytest.raises(InputError, match="no option 'colour'"):
        load_encoder(f"{model}:colour=3")
    with pytest.raises(InputError, match="Precision"):
        load_encoder(f"{model}:precision=int8")
    with pytest.raises(InputError, match="no folder"):
        load_encoder(str(tmp_path / "nothing"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="could it be fetched"):
        load_encoder("nobody/no-such-model")
    upstream = tiny.write_folder(tmp_path / "up", tiny.upstream_tensors(), released=False)
    with pytest.raises(InputError, match="no query table"):
        load_encoder(str(upstream))


def test_a_hub_name_is_read_from_the_hub_s_cache(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folders that the hub's client makes when it downloads; then again with the model gone."""
    from vsplade.encode import load_encoder

    hub = pytest.importorskip("huggingface_hub")
    repository = tmp_path / "hub" / "models--naver--v-splade-quality"
    shutil.copytree(model, repository / "snapshots" / "0123456789abcdef0123456789abcdef01234567")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123456789abcdef0123456789abcdef01234567")
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    named = load_encoder("naver/v-splade-quality:batch=1")
    here = load_encoder(str(model))
    assert (named.name, named.fingerprint) == ("naver/v-splade-quality", here.fingerprint)
    one, other = (next(iter(each.encode_pages([page(0)]))) for each in (named, here))
    assert np.array_equal(one.terms, other.terms)
    shutil.rmtree(repository)
    alone = load_encoder("naver/v-splade-quality")  # queries need the table only, which was kept
    assert alone.fingerprint == named.fingerprint
    assert np.array_equal(alone.encode_query("page").terms, named.encode_query("page").terms)


def test_damaged_query_sides(model: Path, tmp_path: Path) -> None:
    side = tmp_path / "light"
    query.export(model, side, "x")
    facts = json.loads((side / query.FACTS).read_text())
    (side / query.FACTS).write_text(json.dumps({**facts, "format": 99}))
    with pytest.raises(InputError, match="format 99"):
        query.open_side(side)
    (side / query.FACTS).write_text(json.dumps(facts))
    np.save(side / query.TABLE, np.full(5, np.nan, np.float32))
    with pytest.raises(InputError, match="table of query weights"):
        query.open_side(side)
    (model / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(InputError, match="sound safetensors"):
        query.query_weights(model)


class _Nothing:
    """Stands in for a stream or an event."""

    def __init__(self, *_: object) -> None: ...

    def record(self, *_: object) -> None: ...

    def synchronize(self) -> None: ...

    def wait_stream(self, *_: object) -> None: ...


@pytest.mark.parametrize("count", [1, 4, 11])
def test_batches_in_flight_come_back_in_order(
    model: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The way of a GPU with its streams taken out; the device stays the CPU."""
    pages = [page(n, (60, 80) if n % 3 else (90, 30)) for n in range(count)]
    wanted = list(encoder(model, batch=1).encode_pages(pages))
    plain_empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *a, pin_memory=False, **k: plain_empty(*a, **k))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "Stream", _Nothing)
    monkeypatch.setattr(torch.cuda, "Event", _Nothing)
    monkeypatch.setattr(torch.cuda, "current_stream", _Nothing)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(ModernVBertEncoder, "on_gpu", True)
    ours = encoder(model, batch=2, precision="float32")
    vars(ours)["_gpu_cuts"] = True
    found = list(ours.encode_pages(pages))
    assert len(found) == count
    for one, other in zip(found, wanted, strict=True):
        dense = np.zeros((2, tiny.TERMS), np.float32)
        dense[0, one.terms], dense[1, other.terms] = one.weights, other.weights
        assert np.abs(dense[0] - dense[1]).max() < 0.02  # the GPU's cutting may round a pixel otherwise
    vector, boxes = ours.encode_with_places(pages[0])
    assert len(boxes) == len(vector) > 0
