"""Token cases: for a few queries, the heaviest terms of query, page and caption side by side, with a picture.

Chosen are queries with a term that the caption weighs much and the page little: what a gate by captions is
there to bring up. ``P*`` is what the page gives that term, ``C*`` what the caption does.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from research.experiments.lexicon import encode_text, masked_by, only_words, stop_terms
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.types import Encoder, SparseVector, shown

TOP = 5
THUMBNAIL = 360
"""Longest edge of a page's picture, in pixels."""


def token_cases(
    dataset: Dataset, encoder: Encoder, pages: PageVectors, texts: Mapping[str, str], count: int = 4
) -> list[dict[str, object]]:
    """The clearest ones first; of a page only one."""
    by_id, stop = dict(pages.items()), stop_terms(encoder)
    found: list[tuple[float, str, str, int]] = []
    captions: dict[str, SparseVector] = {}
    for query in dataset.judged:
        page = min((page for page, grade in dataset.qrels[query].items() if grade > 0), default=None)
        if page is None:
            continue
        if page not in captions:
            captions[page] = masked_by(
                encode_text(encoder, texts.get(page, "")), texts.get(page, ""), encoder
            )
        asked = only_words(encoder.encode_query(dataset.queries[query]), encoder)
        hidden = _hidden_term(asked, by_id[page], captions[page], stop)
        if hidden is not None:
            found.append((-hidden[1], query, page, hidden[0]))
    cases: dict[str, dict[str, object]] = {}
    for _, query, page, term in sorted(found):
        if len(cases) < count and page not in cases:
            asked = only_words(encoder.encode_query(dataset.queries[query]), encoder)
            cases[page] = {
                "query": dataset.queries[query],
                "page": page,
                "Q": _heaviest(asked, encoder),
                "P": _heaviest(only_words(by_id[page], encoder), encoder),
                "P*": [[shown(encoder.vocabulary, term), round(_weight(by_id[page], term), 3)]],
                "C": _heaviest(captions[page], encoder),
                "C*": [[shown(encoder.vocabulary, term), round(_weight(captions[page], term), 3)]],
                "picture": thumbnail(dataset, page),
            }
    return list(cases.values())


def _hidden_term(
    asked: SparseVector, page: SparseVector, caption: SparseVector, stop: frozenset[int]
) -> tuple[int, float] | None:
    """The query's term that the caption knows best and the page least, and how clear a case it is."""
    best: tuple[int, float] | None = None
    strongest = float(page.weights.max()) if len(page) else 1.0
    for term, weight in zip(asked.terms.tolist(), asked.weights.tolist(), strict=True):
        given = _weight(caption, term)
        clear = weight * given * (1 - _weight(page, term) / strongest)
        if term not in stop and given > 0 and (best is None or clear > best[1]):
            best = term, clear
    return best


def _weight(vector: SparseVector, term: int) -> float:
    place = int(np.searchsorted(vector.terms, term))
    return float(vector.weights[place]) if place < len(vector) and vector.terms[place] == term else 0.0


def _heaviest(vector: SparseVector, encoder: Encoder) -> list[list[object]]:
    order = np.lexsort((vector.terms, -vector.weights))[:TOP]
    return [
        [shown(encoder.vocabulary, int(vector.terms[n])), round(float(vector.weights[n]), 3)] for n in order
    ]


def thumbnail(dataset: Dataset, page: str) -> str | None:
    """A small JPEG as a data URI; None where the page's file is not at hand."""
    picture = _picture(dataset.files, page)
    if picture is None:
        return None
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    stream = io.BytesIO()
    picture.convert("L").save(stream, "JPEG", quality=60)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode()


def _picture(files: tuple[Path, ...], page: str) -> Image.Image | None:
    stem, _, number = page.rpartition("_")
    for file in files:
        if file.suffix.lower() != ".pdf" and file.stem == page:
            return Image.open(file)
        if file.suffix.lower() == ".pdf" and file.stem == stem:
            import pypdfium2

            document = pypdfium2.PdfDocument(file)
            drawn: Image.Image = document[int(number) - 1].render(scale=1).to_pil()
            return drawn
    return None
