"""Tiles and prompts against transformers' Idefics3 classes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from PIL import Image  # noqa: E402

from vsplade.encode.modernvbert.processor import PROMPT, Grid, PageProcessor, ProcessorSettings  # noqa: E402
from vsplade.errors import InputError  # noqa: E402

from . import tiny  # noqa: E402

SIZES = [
    (1654, 2339),
    (2339, 1654),
    (600, 600),
    (3000, 400),
    (37, 900),
    (512, 512),
    (2048, 2048),
    (5000, 4999),
    (1, 1),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_folder(tmp_path_factory.mktemp("released"), tiny.released_tensors())


def reference(longest_edge: int, tile: int) -> object:
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    return Idefics3ImageProcessorPil(
        size={"longest_edge": longest_edge},
        max_image_size={"longest_edge": tile},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        resample=1,
        return_row_col_info=True,
    )


@pytest.mark.parametrize("size", SIZES)
def test_grid_and_pixels_at_a_small_scale(folder: Path, size: tuple[int, int]) -> None:
    width, height = (max(1, edge // 8) for edge in size)
    page = Image.fromarray(np.random.default_rng(3).integers(0, 256, (height, width, 3), dtype=np.uint8))
    tiles, grid = PageProcessor(folder, ProcessorSettings(longest_edge=256, tile=64)).tiles(page)
    theirs = reference(256, 64)(images=[[page]], return_tensors="np")  # type: ignore[operator]
    assert (grid.rows, grid.columns) == (theirs["rows"][0][0], theirs["cols"][0][0])
    ours = PageProcessor(folder, ProcessorSettings(longest_edge=256, tile=64)).normalise(tiles)
    assert ours.shape == theirs["pixel_values"][0].shape
    assert np.abs(ours - theirs["pixel_values"][0]).max() < 1e-6


def test_an_a4_page_at_the_released_size(folder: Path) -> None:
    page = Image.fromarray(np.random.default_rng(4).integers(0, 256, (2339, 1654, 3), dtype=np.uint8))
    processor = PageProcessor(folder, ProcessorSettings())
    tiles, grid = processor.tiles(page)
    assert (grid, tiles.shape) == (Grid(4, 3), (13, 3, 512, 512))
    theirs = reference(2048, 512)(images=[[page]], return_tensors="np")  # type: ignore[operator]
    assert np.abs(processor.normalise(tiles) - theirs["pixel_values"][0]).max() < 1e-6


def test_grey_and_transparent_pages_are_made_colour(folder: Path) -> None:
    for mode in ("L", "RGBA", "1", "P"):
        tiles, _ = PageProcessor(folder).tiles(Image.new(mode, (40, 60)))
        assert tiles.shape[1:] == (3, tiny.TILE, tiny.TILE)


@pytest.mark.parametrize("shape", [(90, 60), (30, 30), (60, 90)])
def test_prompt_ids_equal_the_reference_processor(folder: Path, shape: tuple[int, int]) -> None:
    from transformers import Idefics3Processor, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="[PAD]")
    theirs = Idefics3Processor(reference(96, tiny.TILE), tokenizer, image_seq_len=tiny.TOKENS_A_TILE)  # type: ignore[arg-type]
    page = Image.new("RGB", shape, "white")
    processor = PageProcessor(folder)
    _, grid = processor.tiles(page)
    expected = theirs(text=[PROMPT.format("")], images=[[page]])["input_ids"][0]
    ours = list(processor.prompt_ids(grid))
    assert ours == list(expected)
    assert ours.count(tiny.IMAGE_TOKEN) == grid.tiles * tiny.TOKENS_A_TILE
    assert (ours[0], ours[-1]) == (tiny.SPECIAL[1], tiny.SPECIAL[2])


def test_one_tile_has_no_second_view(folder: Path) -> None:
    processor = PageProcessor(
        folder, ProcessorSettings(longest_edge=tiny.TILE, tile=tiny.TILE, tokens_a_tile=tiny.TOKENS_A_TILE)
    )
    tiles, grid = processor.tiles(Image.new("RGB", (10, 10)))
    assert (len(tiles), grid, grid.tiles) == (1, Grid(0, 0), 1)


def test_the_folder_s_chat_template_is_used(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path, tiny.released_tensors())
    template = (
        "{% for m in messages %}{{m['role'] | capitalize}}:{% for c in m['content'] %}{% if "
        "c['type'] == 'text' %}{{c['text']}}"
        "{% else %}<image>{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}{% if "
        "add_generation_prompt %}Assistant:{% endif %}"
    )
    (folder / "chat_template.jinja").write_text(template)
    assert PageProcessor(folder).prompt == PROMPT.format("")
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": "Seen: <image>!"}))
    assert PageProcessor(folder).prompt == "Seen: <image>!"
    for broken in ("{% for %}", "no picture", "<image><image>"):
        (folder / "chat_template.json").write_text(json.dumps({"chat_template": broken}))
        with pytest.raises(InputError, match="template"):
            PageProcessor(folder)


def test_damaged_folders(tmp_path: Path) -> None:
    folder = tiny.write_folder(tmp_path, tiny.released_tensors())
    (folder / "preprocessor_config.json").write_text('{"size": 5}')
    with pytest.raises(InputError, match="configuration"):
        PageProcessor(folder)
    (folder / "preprocessor_config.json").unlink()
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="not a tokenizer"):
        PageProcessor(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"no tokenizer\.json"):
        PageProcessor(folder)
