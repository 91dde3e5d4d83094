"""How often each kind of page is drawn, and one scene of any of them."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from research.reader.receipts import card, display, faint, receipt
from research.reader.scenes import BOX, RUN, Scene, chart, diagram, form, listing, page, slide, table

KINDS: list[tuple[Callable[[Scene], None], float]] = [
    (page, 0.20),
    (table, 0.10),
    (slide, 0.11),
    (chart, 0.08),
    (form, 0.07),
    (listing, 0.05),
    (diagram, 0.07),
    (receipt, 0.14),
    (card, 0.07),
    (faint, 0.05),
    (display, 0.06),
]


def make_scene(seed: int, plain: bool = False) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(runs, boxes) of one scene, columns as in RUN and BOX; ``plain``: running text, nothing else."""
    rng = random.Random(seed)
    scene = Scene(rng)
    draw = rng.choices([kind for kind, _ in KINDS], [share for _, share in KINDS])[0]
    (page if plain else draw)(scene)
    if plain:
        scene.boxes.clear()
    runs = np.array(scene.runs, np.float32).reshape(-1, len(RUN))
    return runs, np.array(scene.boxes, np.float32).reshape(-1, len(BOX))
