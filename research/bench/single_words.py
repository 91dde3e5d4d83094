"""Single words, numbers and codes that stand on exactly one page: does a search for one put that page first?

    python -m research.bench.single_words DATASET --vectors vectors.npz      # what the reader saw
    python -m research.bench.single_words DATASET --text                     # the same on the text layer

DATASET is a folder as ``vsplade eval`` reads it, with a transcription of its pages beside it
(``vlm_text.jsonl.gz``); ``vsplade eval DATASET --keep-vectors vectors.npz`` makes the vectors. Targets are
drawn from the transcription with a seed: 80 words (spelled in lower case, so hardly any names), 80 numbers
and 56 codes of letters and digits, each on one page only however it is written (``1,275`` is ``1275``).
Every second target is half A, on which settings were chosen; half B judges. Prints JSON: rank 1 of all and
of each half; the share of targets that is told as found on its own page (no more can be expected where
pixels were misread), and how many other pages are said to hold a target.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from research.command import main, option
from vsplade.encode import load_encoder
from vsplade.encode.text import TextEncoder
from vsplade.encode.tokenizer import normalise
from vsplade.encode.units import ungrouped, units
from vsplade.errors import InputError
from vsplade.evaluate.dataset import read_page_texts
from vsplade.evaluate.evaluator import bm25_encoder
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter
from vsplade.types import FOUND, Encoder, SparseVector, WordEncoder

KINDS = {"words": 80, "numbers": 80, "codes": 56}
_TYPED = re.compile(r"[A-Za-z0-9]+(?:[-./,:][A-Za-z0-9]+)*")
_NO_TEXT = re.compile(r"https?://\S+|www\.\S+|\S+@\S+")


def kind(typed: str) -> str | None:
    """Of a target; None where it is none."""
    digits, letters = sum(c.isdigit() for c in typed), sum(c.isalpha() for c in typed)
    if digits and letters:
        return "codes" if digits + letters >= 4 and re.fullmatch(r"[A-Za-z0-9./-]+", typed) else None
    if digits:
        return "numbers" if digits >= 3 and re.fullmatch(r"[0-9.,/:-]+", typed) else None
    return "words" if re.fullmatch(r"[a-z]{4,}", typed) else None


def targets(texts: dict[str, str], seed: int) -> dict[str, list[tuple[str, str]]]:
    """Of each kind (what is typed, the one page that holds it)."""
    holders: dict[str, set[str]] = defaultdict(set)
    written: dict[str, str] = {}
    for page, text in texts.items():
        text = _NO_TEXT.sub(" ", text)
        for unit in units(ungrouped(normalise(text))):
            for first in range(len(unit)):
                for last in range(first + 1, len(unit) + 1):
                    holders[" ".join(unit[first:last])].add(page)
        for typed in _TYPED.findall(text):
            found = list(units(ungrouped(normalise(typed))))
            if len(found) == 1:
                written.setdefault(" ".join(found[0]), typed)
    chosen = {}
    for name, count in KINDS.items():
        fit = sorted(t for key, t in written.items() if kind(t) == name and len(holders[key]) == 1)
        drawn = random.Random(seed).sample(fit, min(count, len(fit)))
        keys = [" ".join(next(iter(units(ungrouped(normalise(typed)))))) for typed in drawn]
        chosen[name] = [(typed, next(iter(holders[key]))) for typed, key in zip(drawn, keys, strict=True)]
    return chosen


def measure(
    encoder: Encoder, vectors: dict[str, SparseVector], chosen: dict[str, list[tuple[str, str]]]
) -> dict[str, Any]:
    assert isinstance(encoder, WordEncoder)
    pages = {page: vector.weight_bits() for page, vector in vectors.items()}
    result: dict[str, Any] = {"pages": len(pages)}
    result["terms_per_page"] = float(np.mean([len(vector) for vector in vectors.values()]))
    with tempfile.TemporaryDirectory() as folder:
        with IndexWriter(folder, encoder) as writer:
            for page, vector in vectors.items():
                writer.add(page, vector, {})
            writer.commit()
        index = Index.open(folder, encoder)
        for name, some in chosen.items():
            first = [[hit.id for hit in index.search(typed, k=1)] == [page] for typed, page in some]
            words = [encoder.query_words(typed)[0] for typed, _ in some]
            held = [{page for page, bits in pages.items() if word.on(bits) == FOUND} for word in words]
            own = [page in found for (_, page), found in zip(some, held, strict=True)]
            others = [len(found - {page}) for (_, page), found in zip(some, held, strict=True)]
            result[name] = {
                "targets": len(some),
                "rank1": float(np.mean(first)),
                "rank1_a": float(np.mean(first[0::2])),
                "rank1_b": float(np.mean(first[1::2])),
                "told_found": float(np.mean(own)),
                "told_on_other_pages": float(np.mean(others)),
            }
    return result


@dataclass(frozen=True)
class SingleWordsOptions:
    dataset: Path = option("A data set with vlm_text.jsonl.gz beside its pages.", argument=True)
    vectors: Path | None = option("Of the pages' pictures, as vsplade eval keeps them.", None)
    text: bool = option("Search the transcription with the text encoder.", False)
    encoder: str = option("That made the vectors.", "reader")
    seed: int = option("Of the choice of targets.", 7)


def single_words(options: SingleWordsOptions) -> dict[str, Any]:
    """Does a search for a word that stands on exactly one page put that page first?"""
    texts = dict(read_page_texts(options.dataset / "vlm_text.jsonl.gz"))
    if options.text:
        encoder: Encoder = bm25_encoder(texts)
        assert isinstance(encoder, TextEncoder)
        vectors = {page: encoder.encode_text(text) for page, text in texts.items()}
    elif options.vectors:
        encoder = load_encoder(options.encoder)
        vectors = dict(PageVectors.load(options.vectors).items())
    else:
        raise InputError("Give --vectors FILE or --text.")
    return measure(encoder, vectors, targets(texts, options.seed))


if __name__ == "__main__":
    main(single_words, SingleWordsOptions)
