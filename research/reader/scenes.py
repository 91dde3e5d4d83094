"""What a page can look like: windows on pages, slides, tables, charts, forms and posters, as plain numbers.

`receipts.py` has more of them, and `kinds.py` how often each comes up.

A scene is a list of text runs (a box to fill with words) and painted boxes, for one square window of ``SIZE``
px. No words and no fonts yet: those are drawn anew every time a scene is used, so a few ten thousand scenes
give endless pages. Variety here is the strongest lever on how well real pages are read: add a kind of page
rather than more of one kind.
"""

from __future__ import annotations

import math
import random
from itertools import pairwise

SIZE = 512
RUN = ("x", "y", "width", "height", "em", "leading", "align", "group", "kind", "upper", "words")
BOX = ("x0", "y0", "x1", "y1", "value", "plane")
PAPER, INK, COVER = 0.0, 1.0, 2.0
ANY, PROSE, VOCABULARY, RARE, NUMBERS, TILL = -1.0, 0.0, 1.0, 2.0, 3.0, 4.0
LEFT, MIDDLE, RIGHT = 0.0, 1.0, 2.0
MACHINE = 3
"""The group of a run that is set in a monospaced or narrow face; the others have any face."""


class Scene:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.runs: list[tuple[float, ...]] = []
        self.boxes: list[tuple[float, ...]] = []

    def text(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        em: float,
        *,
        leading: float = 1.2,
        align: float = LEFT,
        group: int = 0,
        kind: float = ANY,
        upper: bool = False,
        words: int = 0,
    ) -> None:
        if x < SIZE and y < SIZE and x + width > 0 and y + height > 0:
            self.runs.append((x, y, width, max(height, em), em, leading, align, group, kind, upper, words))

    def box(self, x0: float, y0: float, x1: float, y1: float, value: float, plane: float = PAPER) -> None:
        if x0 < SIZE and y0 < SIZE and x1 > 0 and y1 > 0:
            self.boxes.append((x0, y0, x1, y1, value, plane))

    def rule(self, x0: float, y0: float, x1: float, y1: float, thickness: float) -> None:
        self.box(x0, y0, max(x1, x0 + thickness), max(y1, y0 + thickness), 1.0, COVER)

    def frame(self, x0: float, y0: float, x1: float, y1: float, thickness: float) -> None:
        self.rule(x0, y0, x1, y0, thickness)
        self.rule(x0, y1, x1, y1, thickness)
        self.rule(x0, y0, x0, y1, thickness)
        self.rule(x1, y0, x1, y1, thickness)

    def panel(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """A tinted box; on a dark one the text is light."""
        tone = self.rng.random()
        self.box(x0, y0, x1, y1, tone)
        self.box(x0, y0, x1, y1, max(0.0, tone - self.rng.uniform(0.4, 0.9)) if tone > 0.5 else 1.0, INK)


def between(rng: random.Random, low: float, high: float) -> float:
    """Log-uniform: as many small sizes as large ones."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def body_size(rng: random.Random) -> float:
    return between(rng, 6.0, 20) if rng.random() < 0.75 else between(rng, 16, 64)


def page(scene: Scene) -> None:
    rng = scene.rng
    em, leading = body_size(rng), rng.uniform(1.05, 1.7)
    width = em * rng.uniform(11, 45)
    gap = em * rng.uniform(1.2, 4)
    x = -rng.uniform(0, 0.7) * width if rng.random() < 0.6 else rng.uniform(0, 80)
    align = rng.choice([LEFT, LEFT, LEFT, LEFT, MIDDLE])
    if rng.random() < 0.08:
        scene.panel(0, 0, SIZE, SIZE)
    while x < SIZE:
        y = -rng.uniform(0, 8) * em * leading
        if rng.random() < 0.3:
            y = rng.uniform(0, 200)
        while y < SIZE:
            if rng.random() < 0.25:
                head = em * between(rng, 1.0, 2.2)
                scene.text(
                    x, y, width, head, head, group=1, upper=rng.random() < 0.3, words=rng.randint(1, 7)
                )
                y += head * 1.3 + em * rng.uniform(0, 1)
            lines = rng.randint(1, 14)
            height = em * leading * lines
            scene.text(
                x, y, width, height, em, leading=leading, align=align, kind=rng.choice([ANY, PROSE, PROSE])
            )
            y += height + em * leading * rng.choice([0, 0.5, 1, 1, 2])
            if rng.random() < 0.06:
                scene.rule(x, y, x + width, y, between(rng, 0.6, 3))
                y += em
        x += width + gap
        if rng.random() < 0.2:
            scene.rule(x - gap / 2, 0, x - gap / 2, SIZE, between(rng, 0.5, 2))


def table(scene: Scene) -> None:
    rng = scene.rng
    em = between(rng, 6.0, 24)
    row = em * rng.uniform(1.15, 2.6)
    edges = [rng.uniform(-60, 60)]
    while edges[-1] < SIZE:
        edges.append(edges[-1] + em * rng.uniform(2.5, 14))
    top = rng.uniform(-40, 120)
    rows = rng.randint(3, 40)
    across, down = rng.random() < 0.5, rng.random() < 0.4
    thick = between(rng, 0.5, 2.5)
    zebra = rng.uniform(0.05, 0.25) if rng.random() < 0.25 else 0.0
    shouting = rng.random() < 0.2
    kinds = [rng.choice([NUMBERS, NUMBERS, ANY, VOCABULARY, PROSE, RARE]) for _ in edges]
    aligns = [
        RIGHT if kind == NUMBERS and rng.random() < 0.6 else rng.choice([LEFT, MIDDLE]) for kind in kinds
    ]
    y = top
    if rng.random() < 0.5:
        scene.text(edges[0], top - em * 3, SIZE, em * 1.4, em * rng.uniform(1, 1.5), group=1, kind=PROSE)
    if rng.random() < 0.3:
        scene.panel(edges[0], top, edges[-1], top + row)
    for n in range(rows):
        if y > SIZE:
            break
        if zebra and n % 2:
            scene.box(edges[0], y, edges[-1], y + row, zebra)
        for column, (left, right) in enumerate(pairwise(edges)):
            if rng.random() < 0.08:
                continue
            room = right - left - em * 0.5
            scene.text(
                left + em * 0.25,
                y + (row - em) / 2,
                room,
                em,
                em,
                align=aligns[column] if n else MIDDLE,
                group=1 if n == 0 else 0,
                kind=PROSE if n == 0 else kinds[column],
                upper=shouting,
                words=max(1, int(room / em / 3.2)) if kinds[column] != NUMBERS else 1,
            )
        if across:
            scene.rule(edges[0], y, edges[-1], y, thick)
        y += row
    if down:
        for edge in edges:
            scene.rule(edge, top, edge, y, thick)


def slide(scene: Scene) -> None:
    rng = scene.rng
    if rng.random() < 0.5:
        scene.panel(0, 0, SIZE, SIZE)
    x = rng.uniform(-40, 60)
    y = rng.uniform(-20, 60)
    title = between(rng, 18, 75)
    if rng.random() < 0.3:
        scene.panel(0, y - title * 0.3, SIZE, y + title * 1.5)
    lines = rng.choice([1, 1, 2])
    align = rng.choice([LEFT, LEFT, MIDDLE])
    scene.text(
        x,
        y,
        SIZE - x,
        title * 1.2 * lines,
        title,
        group=1,
        align=align,
        upper=rng.random() < 0.25,
        words=rng.randint(2, 8),
    )
    y += title * 1.3 * lines + rng.uniform(5, 40)
    em = between(rng, 10, 40)
    while y < SIZE:
        size = em * rng.choice([1, 1, 1, 0.8, 0.7])
        indent = rng.choice([0, 0, size, 2 * size])
        lines = rng.choice([1, 1, 2, 3])
        if rng.random() < 0.4:
            scene.box(x + indent, y + size * 0.35, x + indent + size * 0.3, y + size * 0.65, 1.0, COVER)
        width = rng.uniform(0.5, 1.0) * SIZE
        scene.text(
            x + indent + size * 0.7,
            y,
            width,
            size * 1.25 * lines,
            size,
            leading=1.25,
            words=rng.randint(1, 9 * lines),
        )
        y += size * 1.25 * lines + size * rng.uniform(0.1, 1.2)


def chart(scene: Scene) -> None:
    rng = scene.rng
    em = between(rng, 6.5, 22)
    if rng.random() < 0.25:
        scene.panel(0, 0, SIZE, SIZE)
    left, bottom = rng.uniform(30, 120), rng.uniform(300, 470)
    right, top = rng.uniform(350, 520), rng.uniform(40, 160)
    thick = between(rng, 0.6, 3)
    scene.text(
        rng.uniform(0, 60),
        top - em * 3.4,
        SIZE,
        em * 3,
        em * rng.uniform(1, 1.6),
        group=1,
        words=rng.randint(2, 12),
    )
    ticks = rng.randint(3, 9)
    for n in range(ticks):
        y = bottom - (bottom - top) * n / (ticks - 1)
        scene.text(left - em * 5, y - em / 2, em * 4.7, em, em, align=RIGHT, kind=NUMBERS, words=1)
        if rng.random() < 0.6:
            scene.rule(left, y, right, y, thick * 0.6)
    bars = rng.randint(2, 10)
    pitch = (right - left) / bars
    tones = [rng.uniform(0.15, 1) for _ in range(3)]
    for n in range(bars):
        x = left + pitch * (n + 0.15)
        height = rng.random() * (bottom - top)
        if rng.random() < 0.8:
            scene.box(x, bottom - height, x + pitch * rng.uniform(0.3, 0.8), bottom, rng.choice(tones))
        if rng.random() < 0.6 and bottom - height - em > top:
            scene.text(
                x - pitch * 0.2,
                bottom - height - em * 1.2,
                pitch,
                em,
                em,
                align=MIDDLE,
                kind=NUMBERS,
                words=1,
            )
        scene.text(
            x - pitch * 0.1,
            bottom + em * 0.4,
            pitch * 0.98,
            em * 2.2,
            em,
            align=MIDDLE,
            words=rng.randint(1, 2),
        )
    scene.rule(left, bottom, right, bottom, thick)
    scene.rule(left, top, left, bottom, thick)
    for n in range(rng.randint(0, 5)):
        y = bottom + em * (3.2 + 1.5 * n)
        scene.box(left, y, left + em, y + em, rng.choice(tones))
        scene.text(left + em * 1.5, y, SIZE, em, em, words=rng.randint(1, 6))


def form(scene: Scene) -> None:
    rng = scene.rng
    em = between(rng, 6.5, 22)
    step = em * rng.uniform(1.3, 2.8)
    y = rng.uniform(-20, 40)
    label = em * rng.uniform(5, 12)
    x = rng.uniform(-20, 60)
    shouting = rng.random() < 0.4
    if rng.random() < 0.5:
        head = em * between(rng, 1, 2.2)
        scene.text(0, y, SIZE, head, head, align=MIDDLE, group=1, upper=shouting, words=rng.randint(1, 7))
        y += head * 2
    framed = rng.random() < 0.3
    while y < SIZE:
        at = x
        while at < SIZE:
            scene.text(at, y, label, em, em, group=1, upper=shouting, words=rng.randint(1, 3))
            value = em * rng.uniform(5, 18)
            scene.text(
                at + label + em,
                y,
                value,
                em,
                em * rng.uniform(0.9, 1.1),
                kind=rng.choice([ANY, NUMBERS, RARE]),
                group=2,
                words=3,
            )
            if rng.random() < 0.4:
                scene.rule(
                    at + label + em, y + em * 1.05, at + label + value, y + em * 1.05, between(rng, 0.5, 1.6)
                )
            at += label + value + em * 3
        if framed:
            scene.rule(x - em, y + step - em * 0.3, SIZE, y + step - em * 0.3, 1)
        y += step
        if rng.random() < 0.1:
            y += step


def listing(scene: Scene) -> None:
    rng = scene.rng
    em = between(rng, 6.0, 18)
    leading = rng.uniform(1.05, 1.5)
    width = em * rng.uniform(6, 22)
    x = -rng.uniform(0, 0.5) * width
    shouting = rng.random() < 0.25
    while x < SIZE:
        y = rng.uniform(-2, 1) * em
        kind = rng.choice([ANY, PROSE, NUMBERS, RARE, VOCABULARY])
        while y < SIZE:
            words = 1 if kind == NUMBERS else rng.randint(1, 5)
            scene.text(
                x, y, width, em, em, kind=kind, words=words, upper=shouting, group=int(rng.random() < 0.1)
            )
            y += em * leading * (1 if rng.random() < 0.93 else 2)
        x += width + em * rng.uniform(0.6, 3)


def diagram(scene: Scene) -> None:
    """Boxes with a few centred words, of all sizes: flow charts, posters, labels on pictures."""
    rng = scene.rng
    columns, rows = rng.randint(1, 4), rng.randint(1, 6)
    if rng.random() < 0.3:
        scene.panel(0, 0, SIZE, SIZE)
    for column in range(columns):
        for row in range(rows):
            if rng.random() < 0.2:
                continue
            w, h = SIZE / columns, SIZE / rows
            x, y = column * w + rng.uniform(0, 0.1) * w, row * h + rng.uniform(0, 0.1) * h
            w, h = w * rng.uniform(0.6, 0.9), h * rng.uniform(0.6, 0.9)
            style = rng.random()
            if style < 0.35:
                scene.panel(x, y, x + w, y + h)
            elif style < 0.6:
                scene.frame(x, y, x + w, y + h, between(rng, 0.7, 4))
            em = min(between(rng, 7, 110), h * 0.8)
            lines = max(1, min(int(h / em / 1.3), rng.randint(1, 5)))
            kind = rng.choice([ANY, ANY, VOCABULARY, RARE, NUMBERS])
            scene.text(
                x + 4, y + (h - lines * em * 1.25) / 2, w - 8, lines * em * 1.25, em,
                leading=1.25, align=MIDDLE, group=rng.randint(0, 2), kind=kind, upper=rng.random() < 0.3,
            )  # fmt: skip
