"""More of what a page can look like: receipts, cards with names and codes, faint print, type on mid-tones."""

from __future__ import annotations

import random

from research.reader.scenes import (
    ANY,
    INK,
    LEFT,
    MACHINE,
    MIDDLE,
    NUMBERS,
    PAPER,
    RARE,
    RIGHT,
    RUN,
    SIZE,
    TILL,
    VOCABULARY,
    Scene,
    between,
    form,
    listing,
    page,
    table,
)


def tones(scene: Scene, x0: float, y0: float, x1: float, y1: float, paper: float, ink: float) -> None:
    scene.box(x0, y0, x1, y1, paper, PAPER)
    scene.box(x0, y0, x1, y1, ink, INK)


def receipt(scene: Scene) -> None:
    """Strips of a till's paper, side by side on a table or each as a picture of its own."""
    rng = scene.rng
    table_top = rng.random() < 0.35
    if table_top:
        scene.box(0, 0, SIZE, SIZE, rng.uniform(0.1, 0.9))
    x = rng.uniform(-120, 60)
    while x < SIZE - 60:
        em = between(rng, 6.5, 24)
        width = em * 0.6 * rng.uniform(22, 46)  # so many letters of a till's face in a line
        margin = em * rng.uniform(0.3, 2)
        paper, contrast = rng.uniform(0, 0.2), between(rng, 0.2, 0.8)
        if table_top or rng.random() < 0.5:
            tones(scene, x, 0, x + width + 2 * margin, SIZE, paper, paper + contrast)
        _strip(scene, x + margin, width, em)
        x += width + 2 * margin + rng.uniform(4, 60)


def _strip(scene: Scene, left: float, width: float, em: float) -> None:
    """The shop, then lines that end in a price, sums, codes, thanks."""
    rng = scene.rng
    leading, y = rng.uniform(1.0, 1.5), rng.uniform(-60, 30)
    face = MACHINE if rng.random() < 0.75 else 0
    if rng.random() < 0.6:
        y = _shop(scene, left, y, width, em, leading, face)
    while y < SIZE:
        part = rng.choice([_items, _items, _sums, _remarks])
        y = part(scene, left, y, width, em, leading, face) + em * rng.choice([0, 0.3, 1])
        if rng.random() < 0.5:
            y = _divider(scene, left, y, width, em)


def _divider(scene: Scene, left: float, y: float, width: float, em: float) -> float:
    """A rule, or a row of dashes as a till prints it."""
    rng = scene.rng
    step = em * rng.uniform(0.5, 0.65)
    if rng.random() < 0.3:
        scene.rule(left, y + em / 2, left + width, y + em / 2, between(rng, 0.6, 2))
    else:
        dash, thick = step * rng.uniform(0.4, 0.9), max(0.7, em * 0.08)
        for n in range(int(width / step)):
            scene.rule(left + n * step, y + em / 2, left + n * step + dash, y + em / 2, thick)
    return y + em


def _shop(scene: Scene, left: float, y: float, width: float, em: float, leading: float, face: int) -> float:
    rng = scene.rng
    align = rng.choice([MIDDLE, MIDDLE, LEFT])
    name = em * rng.choice([1, 1, 1.3, 1.6, 2])
    scene.text(left, y, width, name, name, align=align, group=rng.choice([1, face]), kind=RARE,
               upper=rng.random() < 0.7, words=rng.randint(1, 4))  # fmt: skip
    y += name * 1.3
    for _ in range(rng.randint(1, 5)):
        kind = rng.choice([TILL, RARE, NUMBERS, TILL])
        scene.text(left, y, width, em, em, align=align, group=face, kind=kind, upper=rng.random() < 0.6,
                   words=rng.randint(2, 5))  # fmt: skip
        y += em * leading
    return y


def _items(scene: Scene, left: float, y: float, width: float, em: float, leading: float, face: int) -> float:
    """What was bought: a name and a price, with a code and a number before or below it in some shops."""
    rng = scene.rng
    price, shouting, below = em * rng.uniform(4, 7), rng.random() < 0.7, rng.random() < 0.4
    before = em * rng.uniform(2, 6) if rng.random() < 0.35 else 0.0
    kind = rng.choice([RARE, RARE, ANY, VOCABULARY])
    for _ in range(rng.randint(2, 9)):
        if before:
            scene.text(left, y, before * 0.95, em, em, group=face, kind=NUMBERS, words=1)
        scene.text(left + before, y, width - price - before - em * 0.4, em, em, group=face, kind=kind,
                   upper=shouting, words=rng.randint(1, 4))  # fmt: skip
        scene.text(left + width - price, y, price, em, em, align=RIGHT, group=face, kind=NUMBERS, words=1)
        y += em * leading
        if below:
            scene.text(left + em * rng.choice([0, 1, 2]), y, width * 0.5, em, em, group=face, kind=NUMBERS,
                       words=rng.randint(1, 3))  # fmt: skip
            y += em * leading
    return y


def _sums(scene: Scene, left: float, y: float, width: float, em: float, leading: float, face: int) -> float:
    rng = scene.rng
    for _ in range(rng.randint(2, 6)):
        size = em * (rng.uniform(1.2, 2) if rng.random() < 0.15 else 1)
        scene.text(left, y, width * 0.6, size, size, group=face, kind=TILL, words=rng.randint(1, 2))
        scene.text(left + width * 0.62, y, width * 0.38, size, size, align=RIGHT, group=face, kind=NUMBERS,
                   words=1)  # fmt: skip
        y += size * leading
    return y


def _remarks(
    scene: Scene, left: float, y: float, width: float, em: float, leading: float, face: int
) -> float:
    rng = scene.rng
    align = rng.choice([LEFT, LEFT, MIDDLE])
    for _ in range(rng.randint(1, 6)):
        kind = rng.choice([TILL, TILL, NUMBERS, ANY])
        scene.text(left, y, width, em, em, align=align, group=face, kind=kind, upper=rng.random() < 0.3,
                   words=rng.randint(2, 6))  # fmt: skip
        y += em * leading
    return y


def card(scene: Scene) -> None:
    """Blocks of names, addresses, telephone numbers and codes: letterheads, tickets, labels on parcels."""
    rng = scene.rng
    y = rng.uniform(-30, 40)
    while y < SIZE:
        x = rng.uniform(-30, 60)
        em = between(rng, 6.5, 30)
        lines, leading = rng.randint(2, 6), rng.uniform(1.1, 1.6)
        while x < SIZE:
            width = em * rng.uniform(8, 20)
            face, align = rng.choice([0, 1, 2, MACHINE]), rng.choice([LEFT, LEFT, MIDDLE, RIGHT])
            if rng.random() < 0.2:
                scene.frame(x - em, y - em * 0.5, x + width + em * 0.5, y + em * leading * (lines + 0.4), 1)
            for n in range(lines):
                scene.text(x, y + n * em * leading, width, em, em, align=align, group=face,
                           kind=rng.choice([RARE, RARE, NUMBERS, NUMBERS, TILL]), upper=rng.random() < 0.35,
                           words=rng.randint(1, 4))  # fmt: skip
            x += width + em * rng.uniform(2, 5)
        y += em * leading * lines + em * rng.uniform(1, 3)


def faint(scene: Scene) -> None:
    """A page, form, table or list in narrow or typewriter faces, in ink that hardly shows."""
    rng = scene.rng
    rng.choice([page, form, table, listing])(scene)
    group = RUN.index("group")
    scene.runs = [(*run[:group], float(MACHINE), *run[group + 1 :]) for run in scene.runs]
    paper = rng.uniform(0, 0.5)
    contrast = between(rng, 0.2, 0.5)
    scene.boxes.insert(0, (0, 0, SIZE, SIZE, paper, PAPER))
    scene.boxes.insert(1, (0, 0, SIZE, SIZE, paper + contrast, INK))


def display(scene: Scene) -> None:
    """Large type, light or dark, on a ground of middle tone; small type on the same ground."""
    rng = scene.rng
    y = 0.0
    while y < SIZE:
        height = rng.choice([SIZE, rng.uniform(80, 300)])
        ground = rng.uniform(0.2, 0.8)
        _lettering(scene, rng, y, height, ground)
        y += height


def _lettering(scene: Scene, rng: random.Random, top: float, height: float, ground: float) -> None:
    """One band: a quarter to a half of the tones between the letters and their ground."""
    contrast = rng.uniform(0.2, 0.5)
    light = ground - contrast >= 0 and (ground + contrast > 1 or rng.random() < 0.75)
    ink = ground - contrast if light else min(1.0, ground + contrast)
    tones(scene, 0, top, SIZE, top + height, ground, max(0.0, ink))
    y, align, face = top + rng.uniform(4, 30), rng.choice([LEFT, MIDDLE]), rng.choice([0, 1, MACHINE])
    while y < top + height:
        em = between(rng, 18, 90) if rng.random() < 0.6 else between(rng, 8, 20)
        if y + em > top + height:
            break
        lines = min(rng.randint(1, 3), int((top + height - y) / em / 1.2))
        scene.text(rng.uniform(0, 40), y, SIZE - 50, em * 1.2 * max(1, lines), em, align=align, group=face,
                   kind=rng.choice([ANY, VOCABULARY, RARE]), upper=rng.random() < 0.4,
                   words=rng.randint(1, 6))  # fmt: skip
        y += em * 1.3 * max(1, lines) + rng.uniform(0, 20)
