"""Small material for training on a processor: one face, a few words, layouts; nothing outside the package.

Imports of torch stand inside the fixtures: without torch the test modules skip themselves, with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import ImageFont

if TYPE_CHECKING:
    from research.reader.glyphs import Atlas
    from research.reader.synthesis import Synthesis
    from research.reader.typeset import Typesetter
    from research.reader.words import WordBank
    from vsplade.encode.gpu.network import NetworkConfig

SENTENCE = "The annual report shows revenue growth of the company in every region and market"
PROSE = SENTENCE.split()
CODES = ["H-6927", "1,234.50", "(2019)", "$4,500", "12-Mar-97", "ABC12", "42%", "3rd"]
RARE = ["Zygomorphic", "café", "Überraschung", "don't", "rock-and-roll", "xylographers", "naïve"]


@pytest.fixture(scope="session")
def face(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The face that Pillow brings along, as a file."""
    font = ImageFont.load_default(20)
    if not isinstance(font, ImageFont.FreeTypeFont):
        pytest.skip("this Pillow was built without FreeType")
    path = tmp_path_factory.mktemp("fonts") / "builtin.ttf"
    path.write_bytes(font.font_bytes)
    return path


@pytest.fixture(scope="session")
def atlas(face: Path) -> Atlas:
    from research.reader.glyphs import build_atlas

    return build_atlas([face], 1)[0]


@pytest.fixture(scope="session")
def bank() -> WordBank:
    from research.reader.words import build
    from vsplade.encode.tokenizer import Tokenizer

    whole = [word.capitalize() for word in PROSE]
    sources = {
        "prose": [PROSE * 60],
        "vocabulary": [whole * 20],
        "rare": [RARE * 20],
        "numbers": [CODES * 60],
        "till": [["TOTAL", "12.50"] * 100],
    }
    return build(sources, Tokenizer.load())


@pytest.fixture
def typesetter(bank: WordBank, atlas: Atlas) -> Typesetter:
    import torch

    from research.reader.typeset import Typesetter

    return Typesetter(bank, atlas, torch.ones(atlas.fonts), torch.device("cpu"))


@pytest.fixture
def synthesis(typesetter: Typesetter) -> Synthesis:
    from research.reader.kinds import make_scene
    from research.reader.synthesis import Synthesis

    return Synthesis(typesetter, [make_scene(seed) for seed in range(12)])


@pytest.fixture
def tiny() -> NetworkConfig:
    from vsplade.encode.gpu.network import NetworkConfig

    return NetworkConfig(
        fine=12,
        middle=24,
        coarse=32,
        fine_blocks=1,
        middle_blocks=1,
        coarse_blocks=1,
        hidden=32,
        rank=16,
    )


@pytest.fixture
def exact() -> Iterator[None]:
    """Bit for bit the same sums every time."""
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)
