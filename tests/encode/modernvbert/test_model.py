"""The model against a plain second implementation; both layouts strictly; the upstream backbone."""

from __future__ import annotations

import json
import unittest.mock
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from safetensors.torch import load_file  # noqa: E402

from vsplade.encode.modernvbert import checkpoint, text_tower, tower  # noqa: E402
from vsplade.encode.modernvbert.processor import PageProcessor  # noqa: E402
from vsplade.errors import InputError  # noqa: E402

from . import tiny  # noqa: E402


def test_page_vectors_equal_a_plain_implementation(released: Path) -> None:
    model = checkpoint.load(released).model
    processor = PageProcessor(released)
    file = load_file(released / "model.safetensors")
    cut = [processor.tiles(tiny.noise(70, 50)), processor.tiles(tiny.noise(20, 90, 1))]
    prompts = [processor.prompt_ids(grid) for _, grid in cut]
    assert len(prompts[0]) != len(prompts[1]), "the batch must have padding"
    ids = torch.full((2, max(map(len, prompts))), tiny.SPECIAL[3])
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt)] = torch.tensor(prompt)
        mask[row, : len(prompt)] = 1
    pixels = torch.from_numpy(np.concatenate([processor.normalise(tiles) for tiles, _ in cut]))
    with torch.no_grad():
        pooled = model(ids, mask, pixels)
    for row, (tiles, _) in enumerate(cut):
        plain = tiny.plain_vector(file, list(prompts[row]), torch.from_numpy(processor.normalise(tiles)))
        assert (plain > 0).sum() > 20
        assert torch.allclose(pooled.weights[row], plain, atol=1e-5)
        logits = tiny.plain_logits(file, list(prompts[row]), torch.from_numpy(processor.normalise(tiles)))
        assert torch.allclose(pooled.logits[row], logits.amax(0) * tiny.WIDTH**-0.25, atol=1e-5)
    assert (pooled.weights[:, list(tiny.SPECIAL)] == 0).all()


def test_texts_and_queries(released: Path) -> None:
    model = checkpoint.load(released).model
    file = load_file(released / "model.safetensors")
    ids = torch.tensor([[591, 5, 7, 5, 592], [591, 9, 592, 593, 593]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    with torch.no_grad():
        assert torch.allclose(
            model(ids, mask).weights[1], tiny.plain_vector(file, [591, 9, 592], None), atol=1e-5
        )
        raw = file["query_encoder.embeddings.weight"] @ file["query_encoder.projection.weight"][0]
        weights = torch.log(1 + torch.exp(raw + file["query_encoder.projection.bias"]))
        query = model.encode_queries(ids, mask)
        model.repeats = "once"
        once = model.encode_queries(ids, mask)
    assert query[0].nonzero().flatten().tolist() == [5, 7]  # special tokens never
    assert torch.allclose(query[0, [5, 7]], weights[[5, 7]] * torch.tensor([2, 1]), atol=1e-6)
    assert torch.allclose(once[0, [5, 7]], weights[[5, 7]], atol=1e-6)
    assert query[1].nonzero().flatten().tolist() == [9]


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_released_file_is_written_back_as_it_was(tmp_path: Path, kind: torch.dtype) -> None:
    tensors = {name: tensor.to(kind) for name, tensor in tiny.released_tensors().items()}
    tensors["encoder.encoder.model.text_model.layers.0.attn_norm.weight"] = torch.ones(tiny.WIDTH, dtype=kind)
    folder = tiny.write_folder(tmp_path / "in", tensors)
    checkpoint.save(checkpoint.load(folder), tmp_path / "out")
    again = load_file(tmp_path / "out" / "model.safetensors")
    assert again.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert again[name].dtype == kind
        assert torch.equal(again[name], tensor), name
    assert json.loads((tmp_path / "out" / "config.json").read_text()) == tiny.config()
    for name in ("tokenizer.json", "preprocessor_config.json"):
        assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()


def test_vision_head_of_a_file_is_kept(tmp_path: Path) -> None:
    from transformers import SiglipVisionConfig, SiglipVisionModel

    eye = SiglipVisionModel(
        SiglipVisionConfig(**{k: v for k, v in tiny.config()["vision_config"].items() if k != "model_type"})
    )
    head = {n.split("vision_model.")[-1]: t for n, t in eye.state_dict().items() if "head." in n}
    assert len(head) > 5
    tensors = tiny.released_tensors() | {
        "encoder.encoder.model.vision_model." + n: t for n, t in head.items()
    }
    folder = tiny.write_folder(tmp_path / "in", tensors)
    checkpoint.save(checkpoint.load(folder), tmp_path / "out")
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == tensors.keys()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda t: t.pop("encoder.mlm_head.norm.weight"), "encoder.mlm_head.norm.weight"),
        (lambda t: t.pop("query_encoder.projection.bias"), "query_encoder.projection.bias"),
        (
            lambda t: t.pop(
                "encoder.encoder.model.text_model.embeddings.tok_embeddings.additional_embedding.weight"
            ),
            "additional_embedding.weight",
        ),
        (
            lambda t: t.update({"encoder.encoder.model.text_model.layers.9.mlp.Wi.weight": torch.zeros(2)}),
            "layers.9.mlp.Wi",
        ),
        (lambda t: t.update({"surprise.weight": torch.zeros(2)}), "surprise.weight"),
        (
            lambda t: t.update({"encoder.mlm_head.decoder.bias": torch.zeros(7)}),
            r"decoder.bias is \(7,\), not \(600,\)",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(tmp_path: Path, change: object, named: str) -> None:
    tensors = tiny.released_tensors()
    change(tensors)  # type: ignore[operator]
    with pytest.raises(InputError, match=named):
        checkpoint.load(tiny.write_folder(tmp_path, tensors))


def test_other_files_are_refused(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path, {"bert.embeddings.weight": torch.zeros(3)})
    with pytest.raises(InputError, match="no V-SPLADE or ModernVBERT checkpoint"):
        checkpoint.load(folder)
    (folder / "model.safetensors").write_bytes(b"not a safetensors file at all")
    with pytest.raises(InputError, match="sound safetensors"):
        checkpoint.load(folder)
    with pytest.raises(InputError, match=r"config\.json"):
        checkpoint.load(tmp_path / "nothing")


def test_upstream_backbone_converts_on_load(tmp_path: Path) -> None:
    from transformers import ModernVBertConfig, ModernVBertForMaskedLM

    upstream = tiny.upstream_tensors()
    folder = tiny.write_folder(tmp_path / "up", upstream, released=False)
    loaded = checkpoint.load(folder)
    plain = tiny.config(released=False)
    native = ModernVBertConfig(
        **{k: plain[k] for k in ("text_config", "vision_config", "image_token_id", "pixel_shuffle_factor")}
    )
    native.vision_config.vision_use_head = False
    reference = ModernVBertForMaskedLM(native).eval()
    reference.load_state_dict(
        {n.replace("vision_model.vision_model", "vision_model"): t for n, t in upstream.items()}
    )
    ids, mask = torch.tensor([[591, 5, 6, 7, 592]]), torch.ones(1, 5)
    with torch.no_grad():
        logits = reference(input_ids=ids, attention_mask=mask).logits[0, :, : tiny.TERMS].amax(0)
        pooled = loaded.model(ids, mask)
    assert torch.allclose(pooled.logits[0], logits * tiny.WIDTH**-0.25, atol=1e-5)
    # the query table starts as a plain bag of words over the backbone's own embeddings
    table = loaded.model.query_table().detach()
    assert torch.allclose(table[:500], torch.ones(500), atol=1e-6)
    checkpoint.save(loaded, tmp_path / "converted")
    again = checkpoint.load(tmp_path / "converted")
    assert load_file(tmp_path / "converted" / "model.safetensors").keys() == tiny.released_tensors().keys()
    with torch.no_grad():
        assert torch.equal(again.model(ids, mask).weights, pooled.weights)


def test_upstream_s_older_name_of_the_connector(tmp_path: Path) -> None:
    upstream = tiny.upstream_tensors()
    plain = checkpoint.load(tiny.write_folder(tmp_path / "new", upstream, released=False)).model
    name = "model.connector.modality_projection.weight"
    older = {n.replace("projection.weight", "projection.proj.weight") if n == name else n: t
             for n, t in upstream.items()}  # fmt: skip
    loaded = checkpoint.load(tiny.write_folder(tmp_path / "old", older, released=False)).model
    ours, theirs = loaded.state_dict(), plain.state_dict()
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    both = older | {name: upstream[name].clone()}
    with pytest.raises(InputError, match="in excess"):
        checkpoint.load(tiny.write_folder(tmp_path / "both", both, released=False))


def test_query_activations(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path / "up", tiny.upstream_tensors(), released=False)
    for activation in ("relu", "one"):
        loaded = checkpoint.load(folder, activation=activation)
        assert torch.equal(loaded.model.query_table()[:500], torch.ones(500))
        checkpoint.save(loaded, tmp_path / activation)
        assert checkpoint.load(tmp_path / activation).model.query_activation == activation
    with pytest.raises(InputError, match="softplus"):
        checkpoint.load(folder, activation="gelu")


def test_text_without_padding_is_the_same(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = checkpoint.load(released).model
    ids = torch.randint(0, 500, (3, 50))
    mask = torch.ones_like(ids)
    mask[1, 30:] = mask[2, 1:] = 0
    with torch.inference_mode():
        assert model.for_encoding(0.5, 0.5)
        wanted = [model(ids, seen).logits for seen in (None, mask)]
        monkeypatch.setattr(text_tower, "can_pack", lambda *_: True)
        monkeypatch.setattr(text_tower.TextTower, "_seen", None)
        for seen, exact in zip((None, mask), wanted, strict=True):
            torch.testing.assert_close(model(ids, seen).logits, exact, atol=1e-5, rtol=1e-4)


def test_the_encoding_towers_and_compiled_layers_change_nothing(
    released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler is left out here (it takes a minute on a CPU): what is tested is all that surrounds it."""
    model = checkpoint.load(released).model
    ids = torch.randint(0, 500, (2, 50))
    ids[:, 5:37] = tiny.IMAGE_TOKEN
    tiles = torch.randint(0, 256, (2 * 32 // tiny.TOKENS_A_TILE, 3, tiny.TILE, tiny.TILE), dtype=torch.uint8)
    mask = torch.ones_like(ids)
    with torch.inference_mode():
        plain = model(ids, mask, (tiles / 255 - 0.5) / 0.5)
        places = (ids == tiny.IMAGE_TOKEN).flatten().nonzero().squeeze(1)
        monkeypatch.setattr(tower, "TILES_ON_CPU", 3)
        assert model.for_encoding(0.5, 0.5)
        assert model.text_tower is not None
        chunked = [model(ids, None, tiles, places)]
        with unittest.mock.patch.object(torch.nn.Module, "compile"):
            model.compile_layers()
        chunked.append(model(ids, None, tiles, places))
    for ours in chunked:
        torch.testing.assert_close(ours.logits, plain.logits, atol=1e-5, rtol=1e-4)
    with pytest.raises(InputError, match="image tokens, but the prompts hold"):
        model(ids, None, tiles[:1], places)
