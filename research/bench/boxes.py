"""Do the reader's boxes lie on the words? ``python -m research.bench.boxes FILE.pdf... --json``

Pages of PDFs with a text layer are read from pixels alone. The box that the reader gives a term is compared
with the places of that term in the text layer: as wide as its letters there, as high as the line that the
font asks for (pdfium's loose character boxes). Only terms that stand on the page can be compared;
``terms.py`` counts the others. Several ``--encoder`` read the same pages.
"""

from __future__ import annotations

import ctypes
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2
import pypdfium2.raw as raw
from numpy.typing import NDArray

from research.bench.measured import text_layer_pages
from research.command import main, option
from vsplade.encode import load_encoder
from vsplade.encode.tokenizer import Tokenizer, normalise, split_words
from vsplade.errors import InputError
from vsplade.types import Box, Page, PlacingEncoder

Letter = tuple[str, Box]
HYPHENS = "\u0002\ufffe\u00ad\u2010\u2011"


def letters(page: pypdfium2.PdfPage) -> Iterator[Letter | None]:
    """The page's letters as the tokenizer sees them, in reading order; None between words."""
    text, corners = page.get_textpage(), raw.FS_RECTF()
    left, bottom, right, top = page.get_bbox()
    for n in range(raw.FPDFText_CountChars(text)):
        char = chr(raw.FPDFText_GetUnicode(text, n) or 32)
        if char.isspace() or not raw.FPDFText_GetLooseCharBox(text, n, ctypes.byref(corners)):
            yield None
            continue
        whole = unicodedata.normalize("NFKC", "-" if char in HYPHENS else char)
        step = (corners.right - corners.left) / max(1, len(whole))
        for i, part in enumerate(whole):
            start = corners.left + i * step - left
            box = Box(
                start / (right - left),
                (top - corners.top) / (top - bottom),
                (start + step) / (right - left),
                (top - corners.bottom) / (top - bottom),
            )
            seen = normalise(part)
            yield (seen if len(seen) == 1 else " "), box


def printed_words(page: pypdfium2.PdfPage) -> Iterator[list[Letter]]:
    word: list[Letter] = []
    for letter in [*letters(page), None]:
        if word and (letter is None or _apart(word[-1][1], letter[1])):
            yield word
            word = []
        if letter is not None:
            word.append(letter)


def _apart(one: Box, two: Box) -> bool:
    """Another line, or a wide jump, where the text layer forgot the space."""
    height = one.bottom - one.top
    return abs(two.bottom - one.bottom) > 0.5 * height or two.left - one.right > height


def true_boxes(page: pypdfium2.PdfPage, tokenizer: Tokenizer) -> dict[int, list[Box]]:
    """Every place of every term, in fractions of the page; nothing for text that stands on end."""
    found: dict[int, list[Box]] = defaultdict(list)
    for word in printed_words(page):
        seen, position = "".join(letter for letter, _ in word), 0
        for run in split_words(seen):
            at = seen.index(run, position)
            position = at + len(run)
            for term, start, end in tokenizer.spans(run):
                boxes = [box for _, box in word[at + start : at + end]]
                if boxes and boxes[0].left < boxes[-1].right and boxes[0].top < boxes[0].bottom:
                    top, bottom = min(box.top for box in boxes), max(box.bottom for box in boxes)
                    found[term].append(Box(boxes[0].left, top, boxes[-1].right, bottom))
    return found


def compare(box: Box, places: list[Box]) -> tuple[float, float, float, float]:
    """With the nearest of the places: IoU, whether the middle lies inside, width and height beside its."""
    x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
    here = min(places, key=lambda p: ((p.left + p.right) / 2 - x) ** 2 + ((p.top + p.bottom) / 2 - y) ** 2)
    across = max(0.0, min(box.right, here.right) - max(box.left, here.left))
    down = max(0.0, min(box.bottom, here.bottom) - max(box.top, here.top))
    areas = [(b.right - b.left) * (b.bottom - b.top) for b in (box, here)]
    inside = any(p.left <= x <= p.right and p.top <= y <= p.bottom for p in places)
    return (
        across * down / (sum(areas) - across * down),
        float(inside),
        (box.right - box.left) / (here.right - here.left),
        (box.bottom - box.top) / (here.bottom - here.top),
    )


def choose(files: list[Path], edge: int, words: int, count: int) -> list[tuple[Page, dict[int, list[Box]]]]:
    """A sample of the pages, with the places of their terms."""
    chosen = []
    for page in text_layer_pages(files, edge, words, count):
        document = pypdfium2.PdfDocument(page.path)
        if not document[page.number - 1].get_rotation():
            chosen.append((page, true_boxes(document[page.number - 1], Tokenizer.load())))
        document.close()
    return chosen


def summary(rows: NDArray[Any]) -> dict[str, float | int]:
    iou, inside, width, height = rows.T
    return {
        "boxes": len(rows),
        "median_iou": round(float(np.median(iou)), 4),
        "iou_above_half": round(float((iou > 0.5).mean()), 4),
        "middle_inside": round(float(inside.mean()), 4),
        "median_width_to_true": round(float(np.median(width)), 3),
        "median_height_to_true": round(float(np.median(height)), 3),
    }


def measure(
    encoder: PlacingEncoder, pages: list[tuple[Page, dict[int, list[Box]]]], top: int
) -> dict[str, Any]:
    every: list[tuple[float, ...]] = []
    heaviest: list[tuple[float, ...]] = []
    for page, places in pages:
        vector, boxes = encoder.encode_with_places(page)
        best = set(vector.top(top).terms.tolist())
        for term, box in zip(vector.terms.tolist(), boxes, strict=True):
            if term in places:
                row = compare(box, places[term])
                every.append(row)
                if term in best:
                    heaviest.append(row)
    return {"all_terms": summary(np.array(every)), f"top{top}": summary(np.array(heaviest))}


@dataclass(frozen=True)
class BoxesOptions:
    files: tuple[Path, ...] = option("PDFs with a text layer.", argument=True)
    encoder: tuple[str, ...] = option("May be given several times.", ("reader",))
    pages: int = option("A random sample of so many pages.", 60)
    words: int = option("Skip pages with fewer words than this.", 50)
    top: int = option("The heaviest terms, counted apart.", 20)


def boxes(options: BoxesOptions) -> dict[str, Any]:
    """Do the reader's boxes lie on the words? Judged by the text layers of PDFs."""
    report = {}
    for name in options.encoder:
        encoder = load_encoder(name)
        if not isinstance(encoder, PlacingEncoder):
            raise InputError(f"The encoder {name!r} does not tell places.")
        pages = choose(list(options.files), encoder.longest_edge, options.words, options.pages)
        if not pages:
            raise InputError("No page has a text layer with so many words.")
        report[name] = {"pages": len(pages), **measure(encoder, pages, options.top)}
    return report


if __name__ == "__main__":
    main(boxes, BoxesOptions)
