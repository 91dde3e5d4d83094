"""A viewer's process: one page at a time, as pixels, with the words of its text layer and where they stand.

Run as ``python -m vsplade.pages.viewer_process``. As in ``render_worker``, everything that can crash or hang
on a hostile file happens here, and ``protocol`` frames are all that comes out.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from vsplade.errors import PageError
from vsplade.pages.djvu import DjvuFile
from vsplade.pages.limits import Limits
from vsplade.pages.pdf import PdfFile
from vsplade.pages.protocol import write_frame
from vsplade.pages.render_worker import Job, LastFile, OpenFile, reason, serve_jobs

MAX_WORDS = 20_000
"""Words of one text layer; what comes behind them is left out."""


class ViewWorker:
    """Answers jobs, one page each."""

    def __init__(self, output: int, limits: Limits) -> None:
        self._output, self._last = output, LastFile(limits)

    def run(self, job: Job) -> None:
        try:
            header, data = self._view(job)
        except Exception as error:  # whatever a decoder throws at one page must not end the process
            header, data = {"kind": "failed", "reason": reason(error)}, b""
        write_frame(self._output, header, data)

    def _view(self, job: Job) -> tuple[dict[str, Any], bytes | memoryview]:
        file = self._last.open(job["path"])
        number = job["number"]
        if not 1 <= number <= file.pages:
            raise PageError(f"has {file.pages} pages and no page {number}")
        content = file.page(number, job["edge"])
        header: dict[str, Any] = {
            "kind": "page",
            "pages": file.pages,
            "width": content.width,
            "height": content.height,
            "text": content.text,
            "words": words_of(file, number) if job["words"] else [],
        }
        if content.pixels is None:
            return header, b""
        return header | {"mode": content.pixels.mode, "size": content.pixels.size}, content.pixels.data


def words_of(file: OpenFile, number: int) -> list[list[str | float]]:
    """Those of the text layer, each with its place."""
    if isinstance(file, DjvuFile):
        return list(islice(file.words(number), MAX_WORDS))
    return layer_words(file, number) if isinstance(file, PdfFile) else []


def layer_words(file: PdfFile, number: int) -> list[list[str | float]]:
    """[text, left, top, right, bottom] of each word, in fractions of the page as it is shown."""
    page = file.document[number - 1]
    try:
        layer = page.get_textpage()
        try:
            return _group(layer, _to_fractions(page))
        finally:
            layer.close()
    finally:
        page.close()


def _to_fractions(page: Any) -> Any:
    """From a PDF's own coordinates to fractions of the upright page, whatever its rotation and crop box."""
    left, bottom, right, top = page.get_bbox()
    width, height = max(right - left, 1e-6), max(top - bottom, 1e-6)
    turn = page.get_rotation() % 360

    def convert(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        x1, x2 = (box[0] - left) / width, (box[2] - left) / width
        y1, y2 = (box[1] - bottom) / height, (box[3] - bottom) / height
        if turn == 90:
            return y1, x1, y2, x2
        if turn == 180:
            return 1 - x2, y1, 1 - x1, y2
        if turn == 270:
            return 1 - y2, 1 - x2, 1 - y1, 1 - x1
        return x1, 1 - y2, x2, 1 - y1

    return convert


def _group(layer: Any, convert: Any) -> list[list[str | float]]:
    """Characters to words: they end at white space, and where the line ends."""
    text = layer.get_text_range()
    words: list[list[str | float]] = []
    letters, box = "", None
    # The text may hold characters that PDFium added (line ends); their index is one of the text layer all
    # the same, as long as no character is outside the basic plane.
    count = min(layer.count_chars(), len(text))
    for place in range(count):
        letter = text[place]
        if letter.isspace() or letter in "\0\ufffe":
            if letters and box:
                words.append([letters, *_rounded(convert(box))])
            letters, box = "", None
            if len(words) >= MAX_WORDS:
                return words
            continue
        here = layer.get_charbox(place)
        letters += letter
        box = here if box is None else (
            min(box[0], here[0]), min(box[1], here[1]), max(box[2], here[2]), max(box[3], here[3])
        )  # fmt: skip
    if letters and box:
        words.append([letters, *_rounded(convert(box))])
    return words


def _rounded(box: tuple[float, ...]) -> list[float]:
    return [round(min(1.0, max(0.0, side)), 5) for side in box]


if __name__ == "__main__":
    serve_jobs(lambda output, setup, limits: ViewWorker(output, limits))
