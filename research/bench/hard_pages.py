"""What the reader can hardly see: drawn pages of each kind, and the share of their words that it finds.

    python -m research.bench.hard_pages --fonts /usr/share/fonts/opentype/urw-base35 --json

Words are drawn at random out of the vocabulary, so each is one term. ``found``: the share of the words of
that kind that the page's vector holds. ``sure``: the same with at least half of the weight that a word has
which was read once without doubt. ``false``: the share of as many words of the vocabulary, drawn at random,
that vectors hold though they do not stand on the page. ``seconds``: processor time a page. Debian has the
fonts in ``fonts-urw-base35``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont

from research.bench.measured import processor_seconds
from research.command import main, option
from vsplade.encode import load_encoder
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.tokenizer import Tokenizer
from vsplade.types import Page

SIZE = (1000, 1300)
WORDS = 24
SHORTEST = 4
EVEN = "Mono"
"""In the names of the files of typewriter faces."""


class Painter:
    """Words and typefaces at random, and a page to put them on."""

    def __init__(self, fonts: list[Path], words: list[str], seed: int) -> None:
        self._rng, self._fonts, self._words = random.Random(seed), fonts, words
        self.noise = np.random.default_rng(seed)

    def words(self, count: int = WORDS) -> list[str]:
        return self._rng.sample(self._words, count)

    def between(self, low: float, high: float) -> float:
        return self._rng.uniform(low, high)

    def font(self, size: float, even: bool = False) -> ImageFont.FreeTypeFont:
        return ImageFont.truetype(
            self._rng.choice([f for f in self._fonts if (EVEN in f.name) == even]), size
        )

    def lines(self, words: list[str], size: float, ink: int, paper: int, even: bool = False) -> Image.Image:
        """Words in lines of some 500 px, or of one word where they are large."""
        font, room = self.font(size, even), 500
        rows = [""]
        for word in words:
            longer = f"{rows[-1]} {word}".strip()
            if rows[-1] and font.getlength(longer) > room:
                rows.append(word)
            else:
                rows[-1] = longer
        text = "\n".join(rows)
        drawing = ImageDraw.Draw(Image.new("L", (1, 1)))
        box = drawing.multiline_textbbox((0, 0), text, font, spacing=size * 0.35)
        block = Image.new("L", (int(box[2]) + 8, int(box[3]) + 8), paper)
        ImageDraw.Draw(block).multiline_text((2, 2), text, ink, font, spacing=size * 0.35)
        return block

    def sheet(self, block: Image.Image, paper: int, at: tuple[int, int] = (120, 120)) -> Image.Image:
        page = Image.new("L", SIZE, paper)
        page.paste(block, at)
        return page


Drawn = tuple[Image.Image, list[str]]


def plain(draw: Painter) -> Drawn:
    words = draw.words()
    return draw.sheet(draw.lines(words, 18, 0, 255), 255), words


def light_display(draw: Painter) -> Drawn:
    words, paper = draw.words(5), round(draw.between(120, 175))
    ink = paper + round(draw.between(20, 45))
    return draw.sheet(draw.lines(words, draw.between(70, 110), ink, paper), paper), words


def on_end(draw: Painter) -> Drawn:
    """A chart: labels across along its foot, the title of its axis on end."""
    page, _ = plain(draw)
    axis = draw.words(4)
    label = draw.lines(axis[:2], 20, 30, 255).transpose(Image.Transpose.ROTATE_90)
    other = draw.lines(axis[2:], 20, 30, 255).transpose(Image.Transpose.ROTATE_90)
    page.paste(label, (40, 500))
    page.paste(other, (40, 900))
    return page, axis


def tiny(draw: Painter) -> Drawn:
    page, _ = plain(draw)
    page.paste(draw.lines(draw.words(60), 18, 0, 255), (120, 400))
    words = draw.words()
    page.paste(draw.lines(words, draw.between(8, 9.5), 0, 255), (120, 1150))
    return page, words


def low_contrast(draw: Painter) -> Drawn:
    words, paper = draw.words(), round(draw.between(170, 240))
    return draw.sheet(draw.lines(words, 18, paper - round(draw.between(14, 28)), paper), paper), words


def perspective(draw: Painter) -> Drawn:
    """A photograph of a page: the far edge shorter, turned a little, one side in the shade."""
    page, words = plain(draw)
    width, height = SIZE
    lean, turn = draw.between(0.15, 0.45) * width, draw.between(-0.15, 0.15) * height
    corners = [(-lean, turn), (-lean * 0.1, height), (width + lean * 0.1, height - turn), (width + lean, 0)]
    photo = page.transform(SIZE, Image.Transform.QUAD, [n for corner in corners for n in corner],
                           Image.Resampling.BICUBIC, fillcolor=90)  # fmt: skip
    shade = np.linspace(1.0, draw.between(0.5, 0.8), width)[None]
    return _grain(Image.fromarray((np.asarray(photo) * shade).astype(np.uint8)), draw, 5), words


def thermal(draw: Painter) -> Drawn:
    """A till's faint print: narrow letters that fade in streaks."""
    words = draw.words()
    ink = round(draw.between(170, 205))
    block = draw.lines(words, 16, ink, 240, even=True)
    block = block.resize((round(block.width * 0.75), block.height), Image.Resampling.LANCZOS)
    faded = 255 - np.asarray(block, np.float32)
    streaks = np.clip(draw.noise.normal(0.85, 0.25, block.width), 0.3, 1.0)
    dots = np.where(draw.noise.random(faded.shape) < 0.08, 0.4, 1.0)
    print_out = Image.fromarray((255 - (15 + (faded - 15) * streaks * dots)).clip(0, 255).astype(np.uint8))
    page = draw.sheet(print_out.filter(ImageFilter.GaussianBlur(0.6)), 240)
    return _grain(page.crop((0, 0, 700, 1000)), draw, 4), words


def dot_matrix(draw: Painter) -> Drawn:
    """Letters of single dots, as needles print them."""
    words, large = draw.words(), 4
    block = draw.lines(words, 20, 0, 255, even=True)
    block = block.resize((block.width * large, block.height * large), Image.Resampling.BICUBIC)
    step = np.arange(max(block.size)) % (2.6 * large) < 1.5 * large
    grid = Image.fromarray(
        np.where(step[: block.height, None] & step[None, : block.width], 0, 255).astype(np.uint8)
    )
    dotted = ImageChops.lighter(block, grid)
    dotted = dotted.resize((dotted.width // large, dotted.height // large), Image.Resampling.BOX)
    return draw.sheet(dotted.point(lambda level: 90 + level * 165 // 255), 255), words


def _grain(page: Image.Image, draw: Painter, strength: float) -> Image.Image:
    noisy = np.asarray(page, np.float32) + draw.noise.normal(0, strength, (page.height, page.width))
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


KINDS: dict[str, Callable[[Painter], Drawn]] = {
    kind.__name__: kind
    for kind in (plain, light_display, on_end, tiny, low_contrast, perspective, thermal, dot_matrix)
}


def measure(encoder: ReaderEncoder, painter: Painter, kind: str, pages: int) -> dict[str, Any]:
    tokenizer = Tokenizer.load()
    drawn = [KINDS[kind](painter) for _ in range(pages)]
    other = [painter.words(len(words)) for _, words in drawn]
    before = processor_seconds()
    vectors = list(encoder.encode_pages(Page(str(n), image, "") for n, (image, _) in enumerate(drawn)))
    seconds = processor_seconds() - before
    hits, sure, false = 0, 0, 0
    for vector, (_, words), strangers in zip(vectors, drawn, other, strict=True):
        held = dict(zip(vector.terms.tolist(), vector.weights.tolist(), strict=True))
        terms = [tokenizer.term(word) for word in words]
        once = encoder.weigh_text(" ".join(words))
        full = dict(zip(once.terms.tolist(), once.weights.tolist(), strict=True))
        hits += sum(term in held for term in terms)
        sure += sum(held.get(term, 0.0) >= full[term] / 2 for term in terms if term is not None)
        false += sum(tokenizer.term(word) in held for word in strangers if word not in words)
    count = sum(len(words) for _, words in drawn)
    rates = {"found": hits / count, "sure": sure / count, "false": false / count, "seconds": seconds / pages}
    return {"words": count, **{name: round(value, 3) for name, value in rates.items()}}


@dataclass(frozen=True)
class HardPagesOptions:
    fonts: Path = option("A folder with fonts.")
    encoder: str = option("What reads the pages.", "reader:meaning=false")
    pages: int = option("Of each kind.", 10)
    kind: tuple[str, ...] = option("Only this kind; default: all.", (), choices=tuple(KINDS))


def hard_pages(options: HardPagesOptions) -> dict[str, Any]:
    """The share of the words that the reader finds on drawn pages of each kind."""
    fonts = sorted(path for path in options.fonts.rglob("*.[ot]t[cf]") if "Dingbats" not in path.name)
    fonts = [path for path in fonts if not any(odd in path.name for odd in ("Symbol", "D050000L", "Z003"))]
    tokenizer = Tokenizer.load()
    tokens = (tokenizer.token(term) for term in range(len(tokenizer)))
    words = [token for token in tokens if token.isalpha() and token.isascii() and len(token) >= SHORTEST]
    encoder = load_encoder(options.encoder)
    assert isinstance(encoder, ReaderEncoder)
    return {
        kind: measure(encoder, Painter(fonts, words, number), kind, options.pages)
        for number, kind in enumerate(KINDS)
        if kind in (options.kind or KINDS)
    }


if __name__ == "__main__":
    main(hard_pages, HardPagesOptions)
