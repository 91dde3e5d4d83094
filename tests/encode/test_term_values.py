"""What an encoder says its terms are worth: an index relies on it."""

from __future__ import annotations

import numpy as np
import pytest

from vsplade.encode import READER_MODEL, load_encoder
from vsplade.encode.tokenizer import Tokenizer
from vsplade.types import TableEncoder

needs_reader = pytest.mark.skipif(not READER_MODEL.is_file(), reason="the reader's model is not installed")


@needs_reader
@pytest.mark.parametrize("name", ["reader", "reader+text"])
def test_words_that_matter_are_worth_more(name: str) -> None:
    encoder = load_encoder(name)
    assert isinstance(encoder, TableEncoder)
    assert encoder.term_values.shape == (len(encoder.vocabulary),)
    (the,), (lighthouse,) = (Tokenizer.load().encode(word) for word in ("the", "lighthouse"))
    assert encoder.term_values[lighthouse] > encoder.term_values[the] > 0


@needs_reader
def test_plain_queries_ask_for_no_text() -> None:
    pair, reader = load_encoder("reader+text"), load_encoder("reader")
    assert isinstance(pair, TableEncoder)
    assert isinstance(reader, TableEncoder)
    split = len(reader.vocabulary)
    assert np.array_equal(pair.term_values[:split], reader.term_values)
    assert not pair.term_values[split:].any()


def test_an_encoder_without_a_table_says_so() -> None:
    assert not isinstance(load_encoder("text"), TableEncoder)
