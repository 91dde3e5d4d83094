"""What an encoder calls a word: its terms of a text, its stop words, its own vectors of texts.

Experiments ask here, so that they are about the encoder that they are given. One that cannot do what an
experiment needs is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from research.experiments.stopwords import LUCENE
from vsplade.encode.modernvbert.query import QuerySide
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.reader.reader_queries import ReaderVocabulary
from vsplade.encode.text import TextVocabulary
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.types import Encoder, SparseVector, TextReadingEncoder


def text_terms(encoder: Encoder) -> Callable[[str], list[int]]:
    """Texts to terms of the encoder's vocabulary, in order, without pairs and hashed words."""
    vocabulary = encoder.vocabulary
    if isinstance(vocabulary, QuerySide):
        return vocabulary.terms
    if isinstance(vocabulary, Tokenizer | ReaderVocabulary | TextVocabulary):
        return vocabulary.encode
    raise InputError(
        f"Texts cannot be looked up in the vocabulary of the encoder {encoder.name!r}: this experiment needs "
        "an encoder with a tokenizer of its own (the reader, 'text', or a model of the paper's kind)."
    )


def word_terms(encoder: Encoder) -> int:
    """Terms below this number are words; pairs and hashed words stand behind them."""
    text_terms(encoder)
    vocabulary = encoder.vocabulary
    return len(vocabulary) if isinstance(vocabulary, QuerySide) else len(Tokenizer.load())


def only_words(vector: SparseVector, encoder: Encoder) -> SparseVector:
    """Without pairs of words and hashed words."""
    words = vector.terms < word_terms(encoder)
    return SparseVector(vector.terms[words], vector.weights[words])


def stop_terms(encoder: Encoder) -> frozenset[int]:
    """Terms of Lucene's 33 stop words: all ways to write them, at a text's beginning and inside it. Where a
    vocabulary knows no capitals, they are 33 terms.
    """
    terms = text_terms(encoder)
    written = (form for word in LUCENE for form in (word, word.capitalize(), word.upper()))
    pieces = (terms(space + form) for form in written for space in ("", " "))
    return frozenset(piece[0] for piece in pieces if len(piece) == 1)


def encode_text(encoder: Encoder, text: str) -> SparseVector:
    """A text as the encoder itself weighs it: read without error by the reader, by the network elsewhere."""
    if isinstance(encoder, ReaderEncoder):
        return encoder.weigh_text(text)
    if not isinstance(encoder, TextReadingEncoder):
        raise InputError(
            f"The encoder {encoder.name!r} reads pictures and not texts: this experiment compares both. Use "
            "the reader or a model of the paper's kind."
        )
    return encoder.encode_text(text)


def encode_texts(encoder: Encoder, texts: Mapping[str, str]) -> PageVectors:
    return PageVectors.collect((page, encode_text(encoder, text)) for page, text in texts.items())


def masked_by(vector: SparseVector, text: str, encoder: Encoder) -> SparseVector:
    """Only the terms that stand in a text: the caption's mask in the paper."""
    there = np.isin(vector.terms, np.array(text_terms(encoder)(text), np.uint32))
    return SparseVector(vector.terms[there], vector.weights[there])
