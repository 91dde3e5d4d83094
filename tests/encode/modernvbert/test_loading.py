"""Every shape of a model's folder, public or left by training: loaded right, or refused in a sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from PIL import Image  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from vsplade.encode import load_encoder  # noqa: E402
from vsplade.encode.modernvbert import checkpoint, query  # noqa: E402
from vsplade.encode.modernvbert.encoder import ModernVBertEncoder, ModernVBertOptions  # noqa: E402
from vsplade.errors import InputError  # noqa: E402
from vsplade.types import Page  # noqa: E402

from . import tiny  # noqa: E402

IDS = [591, *range(5, 30), 592]
LAYER = "encoder.encoder.model.text_model.layers.1.mlp.Wi"


def vector(folder: Path, ids: list[int] = IDS) -> Any:
    with torch.no_grad():
        return checkpoint.load(folder).model(torch.tensor([ids]), torch.ones(1, len(ids))).weights[0]


def configured(folder: Path, tensors: dict[str, Any], config: dict[str, Any]) -> Path:
    tiny.write_folder(folder, tensors)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        checkpoint.load(folder)
    text = str(caught.value)
    assert len(text) - len(str(folder)) * text.count(str(folder)) < 400
    assert "\n" not in text
    return text


@pytest.mark.parametrize("kind", ["released", "upstream"])
@pytest.mark.parametrize(
    ("rows", "more"),
    [(tiny.ROWS, tiny.EXTRA), (tiny.TERMS, tiny.EXTRA), (tiny.ROWS, None), (tiny.TERMS, None), (None, None)],
)
def test_sizes_come_from_the_tensors(tmp_path: Path, kind: str, rows: int | None, more: int | None) -> None:
    config = tiny.config()
    config["text_config"]["vocab_size"] = rows
    config["additional_vocab_size"] = more
    config.pop("vocab_size")
    config = {key: value for key, value in config.items() if value is not None}
    tensors = tiny.released_tensors() if kind == "released" else tiny.upstream_tensors()
    folder = configured(tmp_path / "model", tensors, config)
    plain = tiny.plain_vector(tiny.released_tensors(), IDS, None)
    assert (plain > 0).sum() > 20
    assert torch.allclose(vector(folder), plain, atol=1e-5)
    checkpoint.save(checkpoint.load(folder), tmp_path / "again")
    assert torch.allclose(vector(tmp_path / "again"), plain, atol=1e-5)
    assert len(checkpoint.load(folder).model.query_table()) == tiny.TERMS


def test_one_whole_embedding_table_in_a_released_file(tmp_path: Path) -> None:
    tensors = tiny.released_tensors()
    name = "encoder.encoder.model.text_model.embeddings.tok_embeddings."
    tensors[name + "weight"] = torch.cat(
        [tensors[name + "weight"], tensors.pop(name + "additional_embedding.weight")]
    )
    plain = tiny.plain_vector(tiny.released_tensors(), IDS, None)
    assert torch.allclose(vector(tiny.write_folder(tmp_path, tensors)), plain, atol=1e-5)


THETAS = {
    "none": ({}, (160000.0, 160000.0)),
    "both": ({"global_rope_theta": 5000.0, "local_rope_theta": 100.0}, (5000.0, 100.0)),
    "global alone": ({"global_rope_theta": 5000.0}, (5000.0, 160000.0)),
    "parameters": (
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 5000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            }
        },
        (5000.0, 100.0),
    ),
    "one for all": ({"rope_parameters": {"rope_type": "default", "rope_theta": 70.0}}, (70.0, 70.0)),
}


@pytest.mark.parametrize("shape", THETAS)
def test_rotary_bases(tmp_path: Path, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, (far, near) = THETAS[shape]
    config = tiny.config()
    for key in ("global_rope_theta", "local_rope_theta"):
        del config["text_config"][key]
    config["text_config"] |= keys
    folder = configured(tmp_path, tiny.released_tensors(), config)
    usual = tiny.plain_vector(tiny.released_tensors(), IDS, None)
    rotate = tiny._rotate
    monkeypatch.setattr(tiny, "_rotate", lambda x, theta: rotate(x, far if theta == 160000.0 else near))
    plain = tiny.plain_vector(tiny.released_tensors(), IDS, None)
    assert (plain - usual).abs().max() > 1e-4  # 10,000 would be noticed
    assert torch.allclose(vector(folder), plain, atol=1e-5)


@pytest.mark.parametrize("names", [("vbert", "modernvbert_text", "modernvbert_vision"), ("other", "x", "y")])
def test_names_of_the_model_do_not_matter_where_the_tensors_fit(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    config = tiny.config()
    config["model_type"], config["text_config"]["model_type"], config["vision_config"]["model_type"] = names
    config["vision_config"]["embed_dim"] = config["vision_config"].pop("hidden_size")
    plain = tiny.plain_vector(tiny.released_tensors(), IDS, None)
    folder = configured(tmp_path, tiny.released_tensors(), config)
    assert torch.allclose(vector(folder), plain, atol=1e-5)


def test_refused_in_one_sentence(tmp_path: Path) -> None:
    body = {n: t for n, t in tiny.upstream_tensors().items() if n.startswith("model.")}
    embedding = body | {"custom_text_proj.weight": torch.zeros(8, tiny.WIDTH)}
    assert "embedding model" in refusal(tiny.write_folder(tmp_path / "dense", embedding, released=False))
    config = tiny.config()
    config["text_config"]["num_attention_heads"] = "many"
    assert "cannot be read" in refusal(configured(tmp_path / "odd", tiny.released_tensors(), config))
    config = tiny.config() | {"image_token_id": 70000}
    assert "70000" in refusal(configured(tmp_path / "token", tiny.released_tensors(), config))


# -- the page prompt, and paths ------------------------------------------------------------------------------


def page() -> Page:
    pixels = np.random.default_rng(1).integers(0, 256, (80, 60, 3), dtype=np.uint8)
    return Page(id="p", image=Image.fromarray(pixels), path="p.png")


def test_the_prompt_is_an_option_of_its_own_fingerprint(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path / "model", tiny.released_tensors())
    bare, asked = load_encoder(str(folder)), load_encoder(f"{folder}:prompt=Describe the image.")
    assert asked.name == f"{folder.resolve()}:prompt=Describe the image."
    again = load_encoder(asked.name)
    assert (again.name, again.fingerprint) == (asked.name, asked.fingerprint)
    assert asked.fingerprint != bare.fingerprint
    (one,), (other,) = bare.encode_pages([page()]), asked.encode_pages([page()])
    assert not (np.array_equal(one.terms, other.terms) and np.allclose(one.weights, other.weights, atol=1e-4))
    assert isinstance(asked, ModernVBertEncoder)
    assert "<image>Describe the image.<end_of_utterance>" in asked._processor.prompt
    both = load_encoder(f"{folder}:prompt=Look: here,top=3")
    assert load_encoder(both.name).fingerprint == both.fingerprint
    for bad in ("a, b", "<image>", " a"):
        with pytest.raises(InputError, match="prompt"):
            ModernVBertOptions(str(folder), prompt=bad)


@pytest.mark.parametrize("name", ["run 12:30", "a:top=5", "C:x"])
def test_a_colon_belongs_to_the_path(tmp_path: Path, name: str) -> None:
    folder = tiny.write_folder(tmp_path / name / "model", tiny.released_tensors())
    plain = load_encoder(str(folder))
    assert plain.name == str(folder.resolve())
    topped = load_encoder(f"{folder}:top=4")
    assert topped.name == f"{folder.resolve()}:top=4"
    with pytest.raises(InputError, match="no option 'colour'"):
        load_encoder(f"{folder}:colour=3")
    shutil.rmtree(tmp_path / name)
    if "=" not in name:  # the folder is gone, the query side was kept
        assert load_encoder(topped.name).fingerprint == topped.fingerprint


# -- bags of words, LoRA -------------------------------------------------------------------------------------


def test_a_bag_of_words_model_has_no_table(tmp_path: Path) -> None:
    tensors = {n: t for n, t in tiny.released_tensors().items() if not n.startswith("query_encoder.")}
    folder = tiny.write_folder(tmp_path / "model", tensors)
    expected = np.ones(tiny.TERMS)
    expected[list(tiny.SPECIAL)] = 0
    assert np.array_equal(query.query_weights(folder), expected)
    loaded = checkpoint.load(folder)
    assert np.array_equal(loaded.model.query_table().numpy(), expected)
    assert torch.allclose(vector(folder), tiny.plain_vector(tiny.released_tensors(), IDS, None), atol=1e-5)
    checkpoint.save(loaded, tmp_path / "again")
    assert np.array_equal(query.query_weights(tmp_path / "again"), expected)


def lora(tensors: dict[str, Any], module: str, scale: float) -> tuple[dict[str, Any], Any]:
    """Its two factors, and the weight they make."""
    generator = torch.Generator().manual_seed(len(module))
    weight = tensors[module + ".weight"]
    down = torch.randn(4, weight.shape[1], generator=generator) * 0.3
    up = torch.randn(weight.shape[0], 4, generator=generator) * 0.3
    return {"A": down, "B": up}, weight + scale * up @ down


def settings(folder: Path, **more: object) -> None:
    facts = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, **more}
    (folder / "adapter_config.json").write_text(json.dumps(facts))


@pytest.mark.parametrize("rslora", [False, True])
@pytest.mark.parametrize("wrapped", ["encoder.encoder.base_model.model.model.", "encoder.encoder.model."])
def test_a_training_checkpoint_is_merged(tmp_path: Path, wrapped: str, rslora: bool) -> None:
    tensors = tiny.released_tensors()
    file, expected = dict(tensors), dict(tensors)
    for module in (LAYER, "encoder.mlm_head.dense", "query_encoder.projection"):
        factors, expected[module + ".weight"] = lora(tensors, module, 4.0 if rslora else 2.0)
        file[module + ".base_layer.weight"] = file.pop(module + ".weight")
        file |= {f"{module}.lora_{side}.default.weight": factor for side, factor in factors.items()}
    bias = "query_encoder.projection.bias"
    file["query_encoder.projection.base_layer.bias"] = file.pop(bias)
    file = {name.replace("encoder.encoder.model.", wrapped): tensor for name, tensor in file.items()}
    folder = tiny.write_folder(tmp_path / "model", file)
    assert "lora_alpha" in refusal(folder)
    with pytest.raises(InputError, match="lora_alpha"):
        query.query_weights(folder)
    settings(folder, use_rslora=rslora)
    assert torch.allclose(vector(folder), tiny.plain_vector(expected, IDS, None), atol=1e-4)
    merged = tiny.write_folder(tmp_path / "merged", expected)
    assert np.allclose(query.query_weights(folder), query.query_weights(merged), atol=1e-5)
    assert not np.allclose(
        query.query_weights(folder),
        query.query_weights(tiny.write_folder(tmp_path / "base", tensors)),
        atol=1e-2,
    )
    settings(folder, use_dora=True)
    assert "merge_and_unload" in refusal(folder)


def test_an_adapter_alone_needs_its_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = tiny.released_tensors()
    factors, weight = lora(tensors, LAYER, 2.0)
    projection = torch.full((1, tiny.WIDTH), 0.2)
    expected = tensors | {LAYER + ".weight": weight, "query_encoder.projection.weight": projection}
    folder = tmp_path / "adapter"
    folder.mkdir()
    inner = LAYER.removeprefix("encoder.encoder.")  # made on the body alone
    file = {f"base_model.model.{inner}.lora_{side}.weight": factor for side, factor in factors.items()}
    file["base_model.model.query_encoder.projection.modules_to_save.weight"] = projection
    save_file(file, folder / "adapter_model.safetensors")
    settings(folder, base_model_name_or_path="someone/base-model")
    assert "someone/base-model" in refusal(folder)
    with pytest.raises(InputError, match="someone/base-model"):
        load_encoder(str(folder))
    base = tiny.write_folder(tmp_path / "base", tensors)
    stored = tmp_path / "hub" / "models--someone--base-model"
    shutil.copytree(base, stored / "snapshots" / ("0123456789" * 4))
    (stored / "refs").mkdir()
    (stored / "refs" / "main").write_text("0123456789" * 4)
    with monkeypatch.context() as patch:
        hub = pytest.importorskip("huggingface_hub")
        patch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        assert torch.allclose(vector(folder), tiny.plain_vector(expected, IDS, None), atol=1e-4)
    settings(folder, base_model_name_or_path=str(base))
    assert torch.allclose(vector(folder), tiny.plain_vector(expected, IDS, None), atol=1e-4)
    merged = tiny.write_folder(tmp_path / "merged", expected)
    assert np.allclose(query.query_weights(folder), query.query_weights(merged), atol=1e-6)
    ours, theirs = load_encoder(str(folder)), load_encoder(str(merged))
    (one,), (other,) = ours.encode_pages([page()]), theirs.encode_pages([page()])
    assert np.array_equal(one.terms, other.terms)
    assert np.allclose(one.weights, other.weights, atol=1e-4)
    first = ours.fingerprint
    tiny.write_folder(base, tiny.released_tensors(seed=5))
    assert load_encoder(str(folder)).fingerprint != first  # another base, another model


TOWER = "vision_model.encoder.layers.1.mlp.fc1"
PLACES = (
    # as transformers has it, as the upstream file has it, as the release has it
    ("model." + TOWER, "model.vision_model." + TOWER, "encoder.encoder.model." + TOWER),
    ("model.connector.modality_projection", "model.connector.modality_projection",
     "encoder.encoder.model.connector.modality_projection.proj"),
    ("projection_head.dense", "projection_head.dense", "encoder.mlm_head.dense"),
    ("model.text_model.layers.2.attn.Wqkv", "model.text_model.layers.2.attn.Wqkv",
     "encoder.encoder.model.text_model.layers.2.attn.Wqkv"),
)  # fmt: skip


@pytest.mark.parametrize("made_on", [0, 1, 2], ids=["transformers", "upstream", "release"])
@pytest.mark.parametrize("base", ["upstream", "release"])
def test_an_adapter_finds_its_layers_in_either_layout(tmp_path: Path, made_on: int, base: str) -> None:
    """Of all parts, the vision tower's too: peft names them as the class was built that it was trained on."""
    released = base == "release"
    tensors = tiny.released_tensors() if released else tiny.upstream_tensors()
    expected, file = dict(tensors), {}
    for names in PLACES:
        stored = names[2 if released else 1]
        factors, expected[stored + ".weight"] = lora(tensors, stored, 2.0)
        file |= {
            f"base_model.model.{names[made_on]}.lora_{side}.weight": part for side, part in factors.items()
        }
    (tmp_path / "adapter").mkdir()
    save_file(file, tmp_path / "adapter" / "adapter_model.safetensors")
    plain = tiny.write_folder(tmp_path / "base", tensors, released)
    settings(tmp_path / "adapter", base_model_name_or_path=str(plain))
    merged = checkpoint.load(tiny.write_folder(tmp_path / "merged", expected, released)).model.state_dict()
    found = checkpoint.load(tmp_path / "adapter").model.state_dict()
    bare = checkpoint.load(plain).model.state_dict()
    assert sum(not torch.equal(found[name], bare[name]) for name in found) == len(PLACES)
    assert all(torch.allclose(found[name], merged[name], atol=1e-5) for name in merged)


def test_weights_and_an_adapter_side_by_side(tmp_path: Path) -> None:
    tensors = tiny.released_tensors()
    factors, weight = lora(tensors, LAYER, 2.0)
    folder = tiny.write_folder(tmp_path, tensors)
    file = {f"base_model.model.{LAYER}.lora_{side}.weight": factor for side, factor in factors.items()}
    save_file(file, folder / "adapter_model.safetensors")
    settings(folder, base_model_name_or_path="someone/base-model")
    assert "remove the adapter" in refusal(folder)
    settings(folder, base_model_name_or_path=".")
    expected = tensors | {LAYER + ".weight": weight}
    assert torch.allclose(vector(folder), tiny.plain_vector(expected, IDS, None), atol=1e-4)
    save_file({f"base_model.model.{LAYER}.lora_A.weight": factors["A"]}, folder / "adapter_model.safetensors")
    assert "half" in refusal(folder)
    wrong = {f"base_model.model.other.lora_{side}.weight": factor for side, factor in factors.items()}
    save_file(wrong, folder / "adapter_model.safetensors")
    assert "another model" in refusal(folder)


@pytest.mark.parametrize("older", ["backbone.", "backbone.encoder.", "encoder.backbone."])
def test_older_names_of_the_encoder(tmp_path: Path, older: str) -> None:
    file = {n.replace("encoder.encoder.", older, 1): t for n, t in tiny.released_tensors().items()}
    folder = tiny.write_folder(tmp_path, file)
    assert torch.allclose(vector(folder), tiny.plain_vector(tiny.released_tensors(), IDS, None), atol=1e-5)
    assert len(query.query_weights(folder)) == tiny.TERMS
