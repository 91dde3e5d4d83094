"""Wear of print: what copies, faxes, tills, old scanners and JPEG make of lines of words."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

BOX, SMOOTH = Image.Resampling.BOX, Image.Resampling.BILINEAR


def worn(page: Image.Image, size: tuple[int, int], rng: random.Random, harm: float) -> Image.Image:
    """At its size, after print, age, a scanner and JPEG; ``harm`` is how much of it type can bear."""
    chance = rng.random()
    if chance < 0.2:
        page = _copied(page, rng, harm if page.size != size else 0.6 * harm)
    elif chance < 0.26:
        page = _faxed(page, size, rng, harm)
    elif chance < 0.31:
        page = _heated(page, rng, harm)
    elif rng.random() < 0.2 and page.width > size[0]:
        page = page.filter(rng.choice([ImageFilter.MinFilter(3), ImageFilter.MaxFilter(3)]))
    if page.size != size:
        page = page.resize(size, rng.choice([BOX, SMOOTH, Image.Resampling.LANCZOS]))
    if rng.random() < 0.25:  # scanned coarsely, shown larger
        share = 1 - harm * rng.uniform(0.05, 0.45)
        page = page.resize((round(size[0] * share), round(size[1] * share)), SMOOTH)
        page = page.resize(size, Image.Resampling.BICUBIC)
    if rng.random() < 0.35:
        page = page.filter(ImageFilter.GaussianBlur(harm * rng.uniform(0.2, 0.9)))
    ink = _worn_ink(1 - np.asarray(page, np.float32) * np.float32(1 / 255), rng, harm)
    paper = rng.uniform(170, 255) if rng.random() < 0.6 else 255.0
    dark = rng.uniform(0, paper - 50 if rng.random() < 0.3 else 70)
    level = paper + (dark - paper) * np.clip(ink, 0, 1)
    if rng.random() < 0.15:
        level = level * _ground(ink.shape, rng, harm)
    grey = np.clip(level, 0, 255).astype(np.uint8)
    page = Image.fromarray(255 - grey if rng.random() < 0.12 else grey)
    if rng.random() < 0.45:
        buffer = io.BytesIO()
        page.save(buffer, "JPEG", quality=rng.randint(20 + round(30 * (1 - harm)), 90))
        page = Image.open(buffer).convert("L")
    return page


def _noise(rng: random.Random, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.random.default_rng(rng.getrandbits(32)).standard_normal(shape, np.float32)


def _copied(page: Image.Image, rng: random.Random, harm: float) -> Image.Image:
    """Black and white, as copiers and old scanners make of it: thick or thin, rough at its edges, specked."""
    fine = page.filter(ImageFilter.GaussianBlur(rng.uniform(0.4, 1.3) * (0.5 + harm / 2)))
    level = np.asarray(fine, np.float32)
    if rng.random() < 0.5:
        rough = _noise(rng, level.shape)
    else:
        coarse = Image.fromarray(_noise(rng, (level.shape[0] // 2, level.shape[1] // 2)))
        rough = np.asarray(coarse.resize(page.size, SMOOTH)) * np.float32(1.3)
    level = level + rough * (rng.uniform(0, 45) * harm)
    black = level < rng.uniform(128 - 75 * harm, 128 + 85 * harm)
    if rng.random() < 0.3:
        black ^= np.abs(rough) > rng.uniform(3.0, 4.5)
    return Image.fromarray(np.where(black, 0, 255).astype(np.uint8))


def _faxed(page: Image.Image, size: tuple[int, int], rng: random.Random, harm: float) -> Image.Image:
    """Black and white, coarser down than across."""
    across, down = rng.uniform(1.0, 1.3), 1 - harm * rng.uniform(0.1, 0.5)
    coarse = page.resize((round(size[0] * across), max(8, round(size[1] * down))), BOX)
    black = np.asarray(coarse, np.float32) < rng.uniform(110, 190)
    return Image.fromarray(np.where(black, 0, 255).astype(np.uint8)).resize(size, SMOOTH)


def _heated(page: Image.Image, rng: random.Random, harm: float) -> Image.Image:
    """As thermal printers print: dead dots leave white lines down the paper, bands are fainter."""
    ink = 1 - np.asarray(page, np.float32) / 255
    height, width = ink.shape
    columns = np.ones(width, np.float32)
    for _ in range(rng.randint(0, 6)):
        at = rng.randrange(width)
        columns[at : at + rng.randint(1, 1 + width // 500)] = 1 - harm * rng.uniform(0.3, 1)
    rows = 1 - harm * rng.uniform(0, 0.6) * (0.5 + 0.5 * np.sin(np.arange(height) * rng.uniform(0.02, 0.6)))
    ink = ink * columns * rows[:, None].astype(np.float32)
    return Image.fromarray((255 - np.clip(ink, 0, 1) * 255).astype(np.uint8))


def dotted(page: Image.Image, zoom: int, em: float, rng: random.Random) -> Image.Image:
    """In the dots of a printer's needles, at the same size."""
    pitch = max(2, round(em * zoom / rng.uniform(8.5, 13)))
    coarse = page.resize((page.width // pitch, page.height // pitch), BOX)
    struck = np.asarray(coarse) < rng.uniform(165, 230)
    y, x = np.mgrid[:pitch, :pitch] - (pitch - 1) / 2
    radius = rng.uniform(0.45, 0.75) * pitch
    dot = np.clip(radius - np.hypot(x, y) + 0.5, 0, 1)
    ink = np.kron(struck.astype(np.float32), dot.astype(np.float32))
    grey = np.full((page.height, page.width), 255, np.uint8)
    grey[: ink.shape[0], : ink.shape[1]] = 255 - ink * 255
    return Image.fromarray(grey)


def _ground(shape: tuple[int, ...], rng: random.Random, harm: float) -> NDArray[np.float32]:
    """Paper that grows darker to a side, or is mottled."""
    height, width = shape
    cells = np.random.default_rng(rng.getrandbits(32)).random(
        (rng.randint(1, 6), rng.randint(2, 24)), np.float32
    )
    clouds = np.asarray(Image.fromarray(cells).resize((width, height), SMOOTH))
    return 1 - clouds * np.float32(harm * rng.uniform(0.05, 0.4))


def _worn_ink(ink: NDArray[Any], rng: random.Random, harm: float) -> NDArray[Any]:
    """Uneven, in dots, with noise, in black and white, with specks; each now and then."""
    noise, (height, width) = np.random.default_rng(rng.getrandbits(32)), ink.shape
    worn = ink
    if rng.random() < 0.2:
        cells = [max(2, side // rng.randint(3, 40)) for side in (height, width)]
        clouds = Image.fromarray(noise.random(cells, np.float32)).resize((width, height))
        worn = worn * (1 - np.asarray(clouds) * np.float32(harm * rng.uniform(0.2, 0.9)))
    if rng.random() < 0.04 and harm > 0.7:
        wave = [0.5 + 0.5 * np.cos(np.arange(side) * 2.5) for side in (height, width)]
        worn = worn * (1 - harm * rng.uniform(0.2, 0.8) * (1 - np.sqrt(wave[0][:, None] * wave[1])))
    if rng.random() < 0.4:
        worn = worn + noise.standard_normal(ink.shape, np.float32) * np.float32(harm * rng.uniform(0, 0.1))
    if rng.random() < 0.2:
        worn = 1 / (1 + np.exp(-(worn - rng.uniform(0.3, 0.6)) * rng.uniform(6, 10 + 30 * harm)))
    if rng.random() < 0.1:
        specks = noise.random(ink.shape, np.float32) < harm * rng.uniform(0, 0.008)
        worn = np.where(specks, rng.random() < 0.6, worn)
    return worn
