"""What was read on a page: blocks of lines of words, each with its place and certainty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from vsplade.types import Box


@dataclass(frozen=True, slots=True)
class ReadWord:
    """One word: lower case and without marks where it was read from pixels."""

    text: str
    box: Box
    """In fractions of the page as its file shows it."""
    certainty: float
    """That it was read rightly, between 0 and 1; 1 for a word of the text layer."""
    tokens: tuple[str, ...] = ()
    """The terms of a word that was read from pixels: its letters are put together from them."""


@dataclass(frozen=True, slots=True)
class ReadLine:
    words: tuple[ReadWord, ...]

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def box(self) -> Box:
        return around([word.box for word in self.words])


@dataclass(frozen=True, slots=True)
class ReadBlock:
    """A paragraph, a heading, a column or a table: lines that belong together."""

    lines: tuple[ReadLine, ...]

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)

    @property
    def box(self) -> Box:
        return around([line.box for line in self.lines])


@dataclass(frozen=True, slots=True)
class PageReading:
    """A page as text."""

    path: str
    number: int
    """From 1."""
    pages: int
    """Of the file."""
    width: float
    """Points in a PDF, pixels in a picture."""
    height: float
    blocks: tuple[ReadBlock, ...] = field(repr=False)
    """In reading order."""
    quarters: int = 0
    """Quarter turns, anticlockwise, that bring the page upright."""
    from_text_layer: bool = False

    @property
    def text(self) -> str:
        """Lines in reading order, with an empty line between two blocks."""
        return "\n\n".join(block.text for block in self.blocks)

    def lines(self) -> Iterator[ReadLine]:
        return (line for block in self.blocks for line in block.lines)

    def words(self) -> Iterator[ReadWord]:
        return (word for line in self.lines() for word in line.words)

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "page": self.number,
            "pages": self.pages,
            "width": self.width,
            "height": self.height,
            "quarter_turns": self.quarters,
            "from_text_layer": self.from_text_layer,
            "text": self.text,
            "blocks": [_block_json(block) for block in self.blocks],
        }


def _block_json(block: ReadBlock) -> dict[str, Any]:
    lines = [
        {
            "box": _sides(line.box),
            "words": [
                {"text": word.text, "box": _sides(word.box), "certainty": round(word.certainty, 4)}
                for word in line.words
            ],
        }
        for line in block.lines
    ]
    return {"box": _sides(block.box), "lines": lines}


def _sides(box: Box) -> list[float]:
    return [round(side, 5) for side in (box.left, box.top, box.right, box.bottom)]


def around(boxes: Sequence[Box]) -> Box:
    return reduce(lambda one, other: one.around(other), boxes)
