"""What an encoder says its terms weigh in queries is what its queries weigh: an index relies on it."""

from __future__ import annotations

import numpy as np
import pytest

from vsplade.encode import READER_MODEL, load_encoder
from vsplade.types import TableEncoder

needs_reader = pytest.mark.skipif(not READER_MODEL.is_file(), reason="the reader's model is not installed")


@needs_reader
@pytest.mark.parametrize("name", ["reader", "reader+text"])
def test_the_table_is_what_queries_weigh(name: str) -> None:
    encoder = load_encoder(name)
    assert isinstance(encoder, TableEncoder)
    assert encoder.query_weights.shape == (len(encoder.vocabulary),)
    query = encoder.encode_query("lighthouse invoice 1987")
    heaviest = query.top(1)
    assert encoder.query_weights[heaviest.terms].tolist() == heaviest.weights.tolist()
    assert (query.weights <= encoder.query_weights[query.terms]).all()  # related words weigh less


@needs_reader
def test_plain_queries_ask_for_no_text() -> None:
    pair, reader = load_encoder("reader+text"), load_encoder("reader")
    assert isinstance(pair, TableEncoder)
    assert isinstance(reader, TableEncoder)
    split = len(reader.vocabulary)
    assert np.array_equal(pair.query_weights[:split], reader.query_weights)
    assert not pair.query_weights[split:].any()


def test_an_encoder_without_a_table_says_so() -> None:
    assert not isinstance(load_encoder("text"), TableEncoder)
