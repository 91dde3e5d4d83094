"""A glyph atlas: every character of every font at a few sizes, trimmed, in one flat array on the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from research.reader.words import CHARSET

LEVELS = (9, 13, 19, 28, 42, 64, 100)
"""Sizes in px that glyphs are drawn at; other sizes are sampled from the next one above."""


@dataclass(frozen=True)
class Atlas:
    ink: Tensor  # flat uint8
    offset: Tensor  # (fonts, levels, characters) int64 into ``ink``
    size: Tensor  # (fonts, levels, characters, 2) height, width
    bearing: Tensor  # (fonts, levels, characters, 2) top above the baseline, left of the pen, in px
    advance: Tensor  # (fonts, characters) in em

    def to(self, device: torch.device) -> Atlas:
        return Atlas(*(getattr(self, f).to(device) for f in ("ink", "offset", "size", "bearing", "advance")))

    @property
    def fonts(self) -> int:
        return len(self.advance)


_Face = tuple[list[NDArray[np.uint8]], NDArray[np.int32], NDArray[np.float32]]


def draw_face(path: str) -> _Face | None:
    """Bitmaps in (level, character) order with their (height, width, top, left), and advances; None for a
    face that lacks letters or digits (symbol fonts, other scripts).
    """
    try:
        big = ImageFont.truetype(path, 200)
        missing = bytes(big.getmask("\U0010ffff"))
        shapes = {char: bytes(big.getmask(char)) for char in CHARSET if char != " "}
    except OSError:
        return None
    basic = [c for c in CHARSET if c.isascii() and c.isalnum()]
    if any(not shapes[c] or shapes[c] == missing for c in basic) or shapes["a"] == shapes["b"]:
        return None
    absent = {c for c, shape in shapes.items() if not shape or shape == missing}
    bitmaps: list[NDArray[np.uint8]] = []
    metrics: list[tuple[int, int, int, int]] = []
    for level in LEVELS:
        font = ImageFont.truetype(path, level)
        for char in CHARSET:
            left, top, right, bottom = font.getbbox(char, anchor="ls") if char != " " else (0, 0, 0, 0)
            across, down = right - left, bottom - top
            if char in absent or not 0 < across <= 3 * level or not 0 < down <= 3 * level:
                bitmaps.append(np.zeros((0, 0), np.uint8))
                metrics.append((0, 0, 0, 0))
                continue
            picture = Image.new("L", (int(across) + 2, int(down) + 2))
            ImageDraw.Draw(picture).text((1 - left, 1 - top), char, fill=255, font=font, anchor="ls")
            bitmaps.append(np.asarray(picture))
            metrics.append((picture.height, picture.width, int(1 - top), int(left - 1)))
    advance = np.array([0.0 if c in absent else big.getlength(c) / 200 for c in CHARSET], np.float32)
    return bitmaps, np.array(metrics, np.int32), advance


def build_atlas(paths: Sequence[Path], workers: int) -> tuple[Atlas, list[Path]]:
    """The atlas, and the files whose faces are in it."""
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        drawn = list(pool.map(draw_face, [str(p) for p in paths], chunksize=4))
    faces = [face for face in drawn if face is not None]
    kept = [path for path, face in zip(paths, drawn, strict=True) if face is not None]
    shape = (len(faces), len(LEVELS), len(CHARSET))
    metrics = np.stack([face[1] for face in faces]).reshape(*shape, 4)
    lengths = metrics[..., 0].astype(np.int64) * metrics[..., 1]
    offset = np.cumsum(lengths.reshape(-1)) - lengths.reshape(-1)
    ink = np.concatenate([bitmap.reshape(-1) for face in faces for bitmap in face[0]])
    atlas = Atlas(
        torch.from_numpy(ink),
        torch.from_numpy(offset.reshape(shape)),
        torch.from_numpy(metrics[..., :2].copy()),
        torch.from_numpy(metrics[..., 2:].astype(np.float32)),
        torch.from_numpy(np.stack([face[2] for face in faces])),
    )
    return atlas, kept
