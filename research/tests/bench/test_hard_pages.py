"""The hard pages: every kind is drawn with its words on it, and measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import ImageFont

from research.bench.hard_pages import EVEN, KINDS, SIZE, Painter, measure
from vsplade.encode import load_encoder
from vsplade.encode.reader.reader import ReaderEncoder

LIST = [f"{one}{other}" for one in ("wood", "sand", "rain", "moon") for other in ("land", "side", "fall")]


@pytest.fixture
def painter(tmp_path: Path) -> Painter:
    font = ImageFont.load_default(20)
    assert isinstance(font, ImageFont.FreeTypeFont)
    for name in ("One.ttf", f"Other{EVEN}.ttf"):
        (tmp_path / name).write_bytes(font.font_bytes)
    return Painter(sorted(tmp_path.glob("*.ttf")), LIST * 10, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_ink_and_words(painter: Painter, kind: str) -> None:
    page, words = KINDS[kind](painter)
    assert page.mode == "L"
    assert page.width <= SIZE[0]
    assert set(words) <= set(LIST)
    assert np.asarray(page).std() > 0.3


def test_measures(painter: Painter) -> None:
    encoder = load_encoder("reader:meaning=false")
    assert isinstance(encoder, ReaderEncoder)
    painter._words = ["harbour", "lighthouse", "keeper", "winter", "village", "school", "station"] * 9
    found = measure(encoder, painter, "plain", 1)
    assert found["words"] == 24
    assert found["found"] > 0.9
    assert found["seconds"] > 0
