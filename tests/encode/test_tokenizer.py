"""The tokenizer: against the WordPiece of the ``tokenizers`` library, and by name for what is looked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsplade.encode.tokenizer import LONGEST_WORD, Tokenizer, normalise, split_words
from vsplade.errors import InputError

LATIN = st.characters(min_codepoint=32, max_codepoint=0x24F)


def tokens(text: str) -> list[str]:
    tokenizer = Tokenizer.load()
    return [tokenizer.token(term) for term in tokenizer.encode(text)]


@pytest.fixture(scope="module")
def oracle() -> object:
    library = pytest.importorskip("tokenizers")
    tokenizer = Tokenizer.load()
    vocabulary = {tokenizer.token(term): term for term in range(len(tokenizer))}
    unknown = len(vocabulary)
    model = library.models.WordPiece(
        {**vocabulary, "[UNK]": unknown}, unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD
    )
    return library.Tokenizer(model)


@given(word=st.from_regex(r"[a-z]{1,48}|[0-9]{1,48}", fullmatch=True))
def test_pieces_are_those_of_another_wordpiece(oracle: object, word: str) -> None:
    assert Tokenizer.load().encode(word) == oracle.encode(word).ids  # type: ignore[attr-defined]


@given(text=st.text(LATIN, max_size=80))
def test_any_text_is_split_as_its_words_are(oracle: object, text: str) -> None:
    words = list(split_words(normalise(text)))
    expected = [term for word in words for term in oracle.encode(word).ids]  # type: ignore[attr-defined]
    assert Tokenizer.load().encode(text) == expected


@given(text=st.text(max_size=60))
def test_pieces_put_together_are_the_letters_of_the_text(text: str) -> None:
    letters = "".join(word for word in split_words(normalise(text)))
    assert "".join(token.removeprefix("##") for token in tokens(text)) == letters


@given(text=st.text(max_size=60))
def test_case_does_not_matter_for_plain_letters(text: str) -> None:
    plain = "".join(char for char in text if char.isascii())
    assert tokens(plain.upper()) == tokens(plain.lower())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("H-6927", ["h", "692", "##7"]),
        ("1998", ["1998"]),
        ("12,345", ["12", "345"]),
        ("café Über naïve", ["cafe", "uber", "naive"]),
        ("oﬃce ﬁle", ["office", "file"]),
        ("Straße", ["strasse"]),
        ("don't", ["don", "t"]),
        ("$4.50 (net)", ["4", "50", "net"]),
        ("２０１９", ["2019"]),
        ("", []),
        ("— … ©", []),
        ("中文", []),
    ],
)
def test_by_name(text: str, expected: list[str]) -> None:
    joined = [token.removeprefix("##") for token in tokens(text)]
    assert "".join(joined) == "".join(token.removeprefix("##") for token in expected)
    if all(Tokenizer.load().term(token) is not None for token in expected):
        assert tokens(text) == expected


def test_letters_and_digits_part() -> None:
    assert tokens("abc123")[-1] == "123"
    assert tokens("3rd") == ["3", "rd"]


def test_a_long_run_is_cut() -> None:
    text = "a" * 500
    assert "".join(token.removeprefix("##") for token in tokens(text)) == "a" * LONGEST_WORD


def test_every_letter_and_digit_can_be_written() -> None:
    tokenizer = Tokenizer.load()
    for char in "abcdefghijklmnopqrstuvwxyz0123456789":
        assert tokenizer.term(char) is not None
        assert tokenizer.term("##" + char) is not None
    assert all(tokenizer.term(f"{n:03d}") is not None for n in range(1000))


def test_a_token_listed_twice_is_refused() -> None:
    with pytest.raises(InputError, match="twice"):
        Tokenizer(["a", "b", "a"])


def test_the_fingerprint_tells_vocabularies_apart() -> None:
    assert Tokenizer(["a", "b"]).fingerprint != Tokenizer(["b", "a"]).fingerprint
    assert Tokenizer(["a", "b"]).fingerprint == Tokenizer(["a", "b"]).fingerprint


def test_characters_outside_the_vocabulary_are_passed_over() -> None:
    tokenizer = Tokenizer(["a", "##b", "ab"])
    assert tokenizer.encode("abzab") == [2, 1]
    assert tokenizer.encode("zzz") == []
