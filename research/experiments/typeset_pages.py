"""Texts set as one-page PDFs: the same words once as text and once as pixels, for the grounding experiment.

    python -m research.experiments.typeset_pages FOLDER rlhn-680K/*.parquet --count 1000

Sources are RLHN's parquet files (right passages) or ``{_id, text}`` lines. FOLDER becomes a data set:
``pdfs/``, ``texts.jsonl`` with what was really set on each page, and a query and a judgement for each page. A
text that is longer than a page is cut at the page's end.
"""

from __future__ import annotations

import ctypes
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.command import main, option
from research.experiments.hub import write_questions
from research.experiments.tables import read_rows
from vsplade.errors import InputError

WIDTH, HEIGHT, MARGIN = 595.0, 842.0, 64.0
"""Of an A4 page, in points."""
SIZE, LEADING = 11.0, 15.0
FONT = "Times-Roman"


class _Typesetter:
    """Words to positions, with PDFium's own measure of them."""

    def __init__(self) -> None:
        import pypdfium2.raw as pdfium

        self._pdfium: Any = pdfium
        self._widths: dict[str, float] = {}
        self._scratch = pdfium.FPDF_CreateNewDocument()

    def lines(self, text: str) -> Iterator[str]:
        """As many lines as fit on the page."""
        room = int((HEIGHT - 2 * MARGIN) // LEADING)
        line, width = "", 0.0
        for word in text.split():
            wide = self._width(word)
            if line and width + SIZE * 0.25 + wide > WIDTH - 2 * MARGIN:
                yield line
                room -= 1
                if not room:
                    return
                line, width = "", 0.0
            line, width = (f"{line} {word}", width + SIZE * 0.25 + wide) if line else (word, wide)
        if line:
            yield line

    def write(self, path: Path, lines: list[str]) -> None:
        pdfium = self._pdfium
        document = pdfium.FPDF_CreateNewDocument()
        page = pdfium.FPDFPage_New(document, 0, WIDTH, HEIGHT)
        for number, line in enumerate(lines):
            text = self._text(document, line)
            pdfium.FPDFPageObj_Transform(text, 1, 0, 0, 1, MARGIN, HEIGHT - MARGIN - LEADING * (number + 1))
            pdfium.FPDFPage_InsertObject(page, text)
        pdfium.FPDFPage_GenerateContent(page)
        parts: list[bytes] = []

        def keep(_: Any, data: Any, size: int) -> int:
            parts.append(ctypes.string_at(data, size))
            return 1

        writer = pdfium.FPDF_FILEWRITE(version=1)
        writer.WriteBlock = type(writer.WriteBlock)(keep)
        saved = pdfium.FPDF_SaveAsCopy(document, ctypes.byref(writer), 0)
        pdfium.FPDF_ClosePage(page)
        pdfium.FPDF_CloseDocument(document)
        if not saved:
            raise InputError(f"PDFium could not write {path}.")
        path.write_bytes(b"".join(parts))

    def _text(self, document: Any, words: str) -> Any:
        found = self._pdfium.FPDFPageObj_NewTextObj(document, FONT.encode(), SIZE)
        encoded = ctypes.create_string_buffer(words.encode("utf-16-le") + b"\0\0")
        self._pdfium.FPDFText_SetText(found, ctypes.cast(encoded, self._pdfium.FPDF_WIDESTRING))
        return found

    def _width(self, word: str) -> float:
        if word not in self._widths:
            found = self._text(self._scratch, word)
            edges = [ctypes.c_float() for _ in range(4)]
            self._pdfium.FPDFPageObj_GetBounds(found, *map(ctypes.byref, edges))
            self._pdfium.FPDFPageObj_Destroy(found)
            self._widths[word] = edges[2].value
        return self._widths[word]


def settable(text: str) -> str:
    """Without characters that the font's encoding does not have."""
    return " ".join(text.encode("cp1252", "ignore").decode("cp1252").split())


def source_texts(files: Iterable[Path]) -> Iterator[str]:
    """Right passages of RLHN's rows, or the field ``text``."""
    for path in files:
        for row in read_rows(path):
            passages = row.get("positive_passages")
            if passages is None:
                yield row.text("text")
            else:
                yield from (str(passage.get("text") or "") for passage in passages[:1])


def write_pages(folder: Path, texts: Iterable[str], count: int, fewest_words: int = 50, seed: int = 0) -> int:
    """A random sample of texts as a data set; returns how many there are."""
    chosen = [text for text in map(settable, texts) if len(text.split()) >= fewest_words]
    if not chosen:
        raise InputError(f"No text has {fewest_words} words or more, so there is nothing to set.")
    random.Random(seed).shuffle(chosen)
    (folder / "pdfs").mkdir(parents=True, exist_ok=True)
    typesetter = _Typesetter()
    pages: list[str] = []
    queries: dict[str, str] = {}
    for number, text in enumerate(chosen[:count]):
        name, lines = f"text{number:05d}", list(typesetter.lines(text))
        typesetter.write(folder / "pdfs" / f"{name}.pdf", lines)
        pages.append(json.dumps({"_id": f"{name}_1", "text": " ".join(lines)}, ensure_ascii=False))
        queries[f"q{number}"] = " ".join(lines[0].split()[:8])
    (folder / "texts.jsonl").write_text("\n".join(pages) + "\n", "utf-8")
    write_questions(folder, queries, ((f"q{n}", f"text{n:05d}_1", 1) for n in range(len(pages))))
    return len(pages)


@dataclass(frozen=True)
class TypesetPagesOptions:
    folder: Path = option("The folder of the new data set.", argument=True)
    files: tuple[Path, ...] = option("Texts: parquet, jsonl or jsonl.gz.", argument=True)
    count: int = option("A random sample of so many texts.", 1000)
    seed: int = option("Of the sample.", 0)


def typeset(options: TypesetPagesOptions) -> str:
    """Set texts as one-page PDFs: the same words once as text and once as pixels."""
    made = write_pages(options.folder, source_texts(options.files), options.count, seed=options.seed)
    return f"{options.folder}: {made} pages"


if __name__ == "__main__":
    main(typeset, TypesetPagesOptions)
