"""How well pages are read as text: the reader beside Tesseract and RapidOCR, on the same pictures.

    python -m research.bench.text_out FOLDER --pages 40 --engine vsplade --engine tesseract --engine rapidocr

FOLDER holds PDFs, whose text layer is the reference, or is a data set with ``true_text.jsonl.gz`` (typed by
people) or ``vlm_text.jsonl.gz`` (written by a vision model, a rough reference). Every engine gets the same
image files; pages of PDFs are drawn at 150 dots an inch. Texts are compared in lower case, without accents
and marks, since the reader knows neither. Prints JSON, by engine:

- ``word_recall``, ``word_precision``: of the words of all pages, each counted as often as it stands there
- ``rare_recall``: the same of words that are no term of their own, in letters and in digits
- ``cer``: letters to change, put in or leave out, over the letters of the references; order counts
- ``seconds``: processor time a page
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from research.bench.measured import draw_pdf_page, processor_seconds
from research.bench.ocr import rapidocr, tesseract
from research.command import main, option
from vsplade.encode.tokenizer import Tokenizer, normalise, split_words
from vsplade.errors import InputError
from vsplade.evaluate.dataset import load_dataset, read_page_texts

REFERENCES = ("true_text.jsonl.gz", "vlm_text.jsonl.gz")
FEWEST = 50
"""Pages with fewer words in their text layer are not drawn: their text may be a picture."""


def words_of(text: str) -> list[str]:
    """As all texts are compared. ``4,077.10`` is three words: marks are no part of any."""
    return list(split_words(normalise(text)))


def distance(one: str, other: str) -> int:
    """Levenshtein's, a row at a time."""
    if not one or not other:
        return len(one) + len(other)
    letters = np.frombuffer(other.encode("utf-32-le"), np.uint32)
    places = np.arange(len(other) + 1)
    row = places.copy()
    for number, letter in enumerate(np.frombuffer(one.encode("utf-32-le"), np.uint32), 1):
        changed = row[:-1] + (letters != letter)
        best = np.concatenate([[number], np.minimum(row[1:] + 1, changed)])
        row = np.minimum.accumulate(best - places) + places  # letters put in, from left to right
    return int(row[-1])


def compare(pairs: Iterable[tuple[str, str]], is_rare: Callable[[str], bool]) -> dict[str, float]:
    """(reference, what was read) of every page to the measures."""
    held = read = right = 0
    rare = {True: [0, 0], False: [0, 0]}  # digits or not: held, right
    errors = length = 0
    for reference, text in pairs:
        true, seen = words_of(reference), words_of(text)
        both = Counter(true) & Counter(seen)
        held, read, right = held + len(true), read + len(seen), right + both.total()
        for word, count in Counter(true).items():
            if is_rare(word):
                rare[word.isdigit()][0] += count
                rare[word.isdigit()][1] += both[word]
        errors += distance(" ".join(true), " ".join(seen))
        length += len(" ".join(true))
    return {
        "word_recall": right / max(1, held),
        "word_precision": right / max(1, read),
        "rare_recall_letters": rare[False][1] / max(1, rare[False][0]),
        "rare_recall_digits": rare[True][1] / max(1, rare[True][0]),
        "cer": errors / max(1, length),
        "words": held,
    }


def pages_of(folder: Path, count: int, drawn: Path, seed: int) -> dict[Path, str]:
    """Image files and their references."""
    rng = random.Random(seed)
    pdfs = sorted(folder.glob("*.pdf"))
    if pdfs:
        return dict(_draw(pdfs, count, drawn, rng))
    dataset = load_dataset(folder)
    given = next((folder / name for name in REFERENCES if (folder / name).is_file()), None)
    if given is None or dataset.image_ids is None:
        raise InputError(f"{folder} holds no PDFs, and no images/ with one of {', '.join(REFERENCES)}.")
    texts = read_page_texts(given)
    files = [file for file in dataset.files if texts.get(file.stem, "").strip()]
    chosen = rng.sample(files, min(count, len(files)))
    return {_as_png(file, drawn): texts[file.stem] for file in chosen}


def _as_png(file: Path, drawn: Path) -> Path:
    """Not every build of Tesseract reads WebP."""
    from PIL import Image

    target = drawn / f"{file.stem}.png"
    Image.open(file).save(target)
    return target


def _draw(pdfs: list[Path], count: int, drawn: Path, rng: random.Random) -> Iterable[tuple[Path, str]]:
    import pypdfium2

    places = [(pdf, number) for pdf in pdfs for number in range(len(pypdfium2.PdfDocument(pdf)))]
    rng.shuffle(places)
    found = 0
    for pdf, number in places:
        text = pypdfium2.PdfDocument(pdf)[number].get_textpage().get_text_range().replace("\ufffe", "-")
        if len(words_of(text)) < FEWEST:
            continue
        yield draw_pdf_page(pdf, number, drawn), text
        found += 1
        if found == count:
            return


def vsplade_text() -> Callable[[Path], str]:
    """Without the process that opens files, which takes longer to start than a page to read."""
    from PIL import Image

    from vsplade.reading.read_files import read_picture

    return lambda page: "\n\n".join(block.text for block in read_picture(Image.open(page).convert("L"))[0])


ENGINES: dict[str, Callable[[], Callable[[Path], str]]] = {
    "vsplade": vsplade_text,
    "tesseract": tesseract,
    "rapidocr": rapidocr,
}


@dataclass(frozen=True)
class TextOutOptions:
    folder: Path = option("PDFs, or a data set with texts.", argument=True)
    engine: tuple[str, ...] = option("Which; default: all.", (), choices=tuple(ENGINES))
    pages: int = option("A random sample of so many pages.", 40)
    seed: int = option("Of the sample.", 0)


def text_out(options: TextOutOptions) -> dict[str, Any]:
    """How well pages are read as text: the reader beside Tesseract and RapidOCR."""
    tokenizer = Tokenizer.load()
    report: dict[str, Any] = {"folder": options.folder.name}
    with tempfile.TemporaryDirectory() as drawn:
        pages = pages_of(options.folder, options.pages, Path(drawn), options.seed)
        report["pages"] = len(pages)
        for name in options.engine or ENGINES:
            read = ENGINES[name]()
            read(next(iter(pages)))  # loading is not part of the time
            before = processor_seconds()
            texts = [(reference, read(page)) for page, reference in pages.items()]
            seconds = (processor_seconds() - before) / len(pages)
            measured = compare(texts, lambda word: tokenizer.term(word) is None)
            report[name] = {**measured, "seconds": seconds}
    return report


if __name__ == "__main__":
    main(text_out, TextOutOptions)
