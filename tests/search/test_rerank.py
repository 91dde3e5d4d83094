from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from vsplade.errors import InputError, PageError
from vsplade.search.hits import Hit
from vsplade.search.rerank import Vectors, max_sim, render_hits, rerank_hits


def rows(*values: list[float]) -> Vectors:
    return np.array(values, dtype=np.float32)


def test_max_sim_by_hand() -> None:
    query = rows([1, 0], [0, 2])
    page = rows([0.5, 0.1], [0.2, 3.0], [-1, -1])
    assert max_sim(query, page) == pytest.approx(0.5 + 6.0)
    assert max_sim(query, page[:0]) == 0.0
    with pytest.raises(InputError, match="do not fit"):
        max_sim(query, rows([1, 2, 3]))


class Brightness:
    """A model with one row: bright pages for everything."""

    def embed_query(self, text: str) -> Vectors:
        return rows([1.0])

    def embed_pages(self, images: Iterable[Image.Image]) -> Iterator[Vectors]:
        for image in images:
            yield rows([float(np.asarray(image.convert("L")).mean())])


def picture(path: Path, shade: int) -> None:
    Image.new("L", (20, 20), shade).save(path)


def test_hits_are_read_again_from_their_files(tmp_path: Path) -> None:
    for n in range(3):
        picture(tmp_path / f"p{n}.png", 50 * n)
    hits = [
        Hit(f"p{n}", 9.0 - n, f"p{n}", 1, {"path": str(tmp_path / f"p{n}.png"), "pages": 1}) for n in range(3)
    ]
    best = rerank_hits("words", hits, Brightness(), lambda hits: render_hits(hits, 20))
    assert [hit.id for hit in best] == ["p2", "p1", "p0"]
    assert best[0].score == pytest.approx(100)
    (tmp_path / "p1.png").unlink()
    with pytest.raises(PageError, match=r"p1.png: .*rerank"):
        rerank_hits("words", hits, Brightness(), lambda hits: render_hits(hits, 20))
    with pytest.raises(PageError, match="does not know its file"):
        list(render_hits([Hit("x", 1.0, "x", 1, {})], 20))


def test_one_page_of_a_pdf(tmp_path: Path) -> None:
    pages = [Image.new("L", (60, 60), shade) for shade in (10, 240, 120)]
    pages[0].save(tmp_path / "three.pdf", save_all=True, append_images=pages[1:])
    hit = Hit("three_2", 1.0, "three", 2, {"path": str(tmp_path / "three.pdf"), "pages": 3})
    (image,) = render_hits([hit], 60)
    assert np.asarray(image.convert("L")).mean() == pytest.approx(240, abs=3)


# -- transformers' own class, with random weights ------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    if not hasattr(transformers, "ColModernVBertForRetrieval"):
        pytest.skip("this transformers has no ColModernVBERT")
    special = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "<image>", "<fake_token_around_image>"]
    special += ["<global-img>", "<end_of_utterance>", "<|begin_of_text|>"]
    special += [f"<row_{i}_col_{j}>" for i in range(1, 7) for j in range(1, 7)]
    words = ["turbine", "engine", "User", ":", "Describe", "the", "image", ".", "Assistant", "\n", "\n\n"]
    vocabulary = {token: number for number, token in enumerate([*special, *words])}
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\s+|[:.]"), "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        additional_special_tokens=special[5:],
    )
    images = transformers.Idefics3ImageProcessor(
        size={"longest_edge": 64}, max_image_size={"longest_edge": 32}, do_image_splitting=True
    )
    processor = transformers.ColModernVBertProcessor(images, tokenizer, image_seq_len=4)
    text: dict[str, Any] = {"vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 2, "intermediate_size": 32, "pad_token_id": 1, "cls_token_id": 2}
    text |= {"sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3, "local_attention": 16}
    vision = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    vision |= {"image_size": 32, "patch_size": 8}
    vlm = transformers.ModernVBertConfig(
        text_config=transformers.ModernBertConfig(**text),
        vision_config={"model_type": "siglip_vision_model", **vision},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pixel_shuffle_factor=2,
    )
    torch.manual_seed(0)
    model = transformers.ColModernVBertForRetrieval(
        transformers.ColModernVBertConfig(vlm_config=vlm, embedding_dim=8)
    )
    folder = tmp_path_factory.mktemp("colmodernvbert")
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def test_transformers_model_agrees_with_its_own_scores(tiny_model: Path) -> None:
    import torch
    from transformers import ColModernVBertForRetrieval, ColModernVBertProcessor

    from vsplade.search.rerank import ColModernVbert

    rng = np.random.default_rng(0)
    images = [Image.fromarray(rng.integers(0, 256, (60, 40 + 10 * n, 3), dtype=np.uint8)) for n in range(3)]
    model = ColModernVbert(str(tiny_model), batch=2)
    asked = model.embed_query("turbine engine")
    ours = [max_sim(asked, page) for page in model.embed_pages(images)]
    processor = ColModernVBertProcessor.from_pretrained(tiny_model)
    theirs_model = ColModernVBertForRetrieval.from_pretrained(tiny_model).eval()
    with torch.inference_mode():
        query = theirs_model(**processor.process_queries(text=["turbine engine"])).embeddings
        pages = [theirs_model(**processor.process_images(images=[image])).embeddings[0] for image in images]
    theirs = processor.score_retrieval(list(query), pages)[0].tolist()
    assert ours == pytest.approx(theirs, abs=1e-4)
    assert len({round(score, 4) for score in ours}) == 3
    with pytest.raises(InputError, match="query is empty"):
        model.embed_query(" ")


def test_a_folder_without_a_model_is_explained(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from vsplade.search.rerank import ColModernVbert

    with pytest.raises(InputError, match="could not be loaded as a ColModernVBERT"):
        ColModernVbert(str(tmp_path))


def test_search_reranks(tiny_model: Path, tmp_path: Path) -> None:
    import json

    from click.testing import CliRunner

    from vsplade.cli import cli

    examples = Path(__file__).parents[2] / "examples"
    index = str(tmp_path / "index")
    base = ["--index", index, "--json"]
    made = CliRunner().invoke(cli, ["index", str(examples), *base, "--encoder", "text", "--workers", "1"])
    assert made.exit_code == 0, made.output
    plain = json.loads(CliRunner().invoke(cli, ["search", "the turbine", *base, "-k", "3"]).stdout)["hits"]
    flags = ["--rerank", str(tiny_model), "--rerank-depth", "3", "-k", "2"]
    result = CliRunner().invoke(cli, ["search", "the turbine", *base, *flags])
    assert result.exit_code == 0, result.output
    hits = json.loads(result.stdout)["hits"]
    assert len(hits) == 2
    assert {hit["id"] for hit in hits} <= {hit["id"] for hit in plain}
    assert hits[0]["score"] >= hits[1]["score"]
