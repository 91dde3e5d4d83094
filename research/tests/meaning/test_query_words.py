"""Words with rows of their own: which ones, and that queries are looked up as the package does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from research.meaning.query_words import LAST_SPECIAL, chosen_words, query_rows
from research.tests.meaning.conftest import SPECIAL
from vsplade.encode.meaning.wordpiece import WordPiece, words

PIECES = WordPiece([*SPECIAL, *(f"w{n}" for n in range(38)), "belly", "##ache", "##s", "!"])
OWN = ["bellyache", "w3s"]


@given(
    st.lists(
        st.lists(st.sampled_from(["w3", "w3s", "belly", "bellyache", "bellyaches", "!", "zz"])), min_size=1
    )
)
def test_queries_are_looked_up_as_the_package_does(queries: list[list[str]]) -> None:
    tokens = [[PIECES.start, *PIECES.encode(" ".join(query)), PIECES.end] for query in queries]
    flat = np.array([token for row in tokens for token in row], np.uint16)
    rows = query_rows(flat, np.array(list(map(len, tokens))), PIECES, OWN)
    own = {word: row for row, word in enumerate(OWN, len(PIECES))}
    padding = len(PIECES) + len(OWN)
    for query, found in zip(queries, rows.tolist(), strict=True):
        wanted = [
            row
            for word in words(" ".join(query))
            for row in ((own[word],) if word in own else PIECES.word(word))
            if row > LAST_SPECIAL
        ][: rows.shape[1]]
        assert found == wanted + [padding] * (len(found) - len(wanted))


def test_frequent_words_that_are_cut_are_chosen(work: Path) -> None:
    letters = [f"##{chr(n)}" for n in range(97, 123)] + [chr(n) for n in range(97, 123)]
    found = chosen_words(work, WordPiece(["[UNK]", "[CLS]", "[SEP]", "about", *letters]), 50)
    assert found == sorted(found)
    assert len(found) == 50
    assert "that" in found
    assert not {"about", "the"} & set(found)  # one is a token, the other too short
