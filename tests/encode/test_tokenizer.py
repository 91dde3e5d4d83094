"""The tokenizer: against its rules written down once more, and by name for what is looked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsplade.encode.tokenizer import LONGEST_WORD, Tokenizer, letters_of, normalise, split_words
from vsplade.errors import InputError

LATIN = st.characters(min_codepoint=32, max_codepoint=0x24F)


def tokens(text: str) -> list[str]:
    tokenizer = Tokenizer.load()
    return [tokenizer.token(term) for term in tokenizer.encode(text)]


def plainly(word: str, known: set[str]) -> list[str]:
    """The rules in the words of the documentation, one after the other."""
    if word in known:
        return [word]
    if word.isdigit():
        first, last = {4: (2, 2), 5: (3, 2)}.get(len(word), (3, 3))
        return [word[:first] + "##", "##" + word[-last:]]
    found = []
    heads = [word[:n] + "##" for n in (4, 3, 2, 1) if n <= (len(word) + 1) // 2]
    tails = ["##" + word[len(word) - n :] for n in (4, 3, 2, 1) if n <= len(word) // 2]
    sizes = ((3, 1) if len(word) % 2 else (4, 2)) if len(word) >= 8 else ()
    middles = ["##" + word[(len(word) - n) // 2 : (len(word) + n) // 2] + "##" for n in sizes]
    for choices in (heads, middles, tails):
        found += [token for token in choices if token in known][:1]
    return found


@pytest.fixture(scope="module")
def known() -> set[str]:
    tokenizer = Tokenizer.load()
    return {tokenizer.token(term) for term in range(len(tokenizer))}


@given(word=st.from_regex(r"[a-z]{1,48}|[0-9]{1,48}", fullmatch=True))
def test_terms_follow_the_rules(known: set[str], word: str) -> None:
    assert tokens(word) == plainly(word, known)


@given(text=st.text(LATIN, max_size=80))
def test_any_text_is_split_as_its_words_are(known: set[str], text: str) -> None:
    words = split_words(normalise(text))
    assert tokens(text) == [token for word in words for token in plainly(word, known)]


@given(word=st.from_regex(r"[a-z]{1,48}|[0-9]{1,48}", fullmatch=True))
def test_spans_hold_the_letters_of_their_tokens(word: str) -> None:
    tokenizer = Tokenizer.load()
    for term, start, end in tokenizer.spans(word):
        token = tokenizer.token(term)
        assert word[start:end] == letters_of(token)
        assert token.startswith("##") == (start > 0)
        assert token.endswith("##") == (end < len(word))


@given(word=st.from_regex(r"[a-z]{2,22}", fullmatch=True))
def test_every_word_shows_how_it_begins_and_ends(word: str) -> None:
    spans = Tokenizer.load().spans(word)
    assert spans[0][1] == 0
    assert spans[-1][2] == len(word)


@given(text=st.text(max_size=60))
def test_case_does_not_matter_for_plain_letters(text: str) -> None:
    plain = "".join(char for char in text if char.isascii())
    assert tokens(plain.upper()) == tokens(plain.lower())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("H-6927", ["h", "69##", "##27"]),
        ("1998", ["1998"]),
        ("12,345", ["12", "345"]),
        ("café Über naïve", ["cafe", "uber", "naive"]),
        ("oﬃce ﬁle", ["office", "file"]),
        ("Straße", ["stra##", "##sse"]),
        ("don't", ["don", "t"]),
        ("$4.50 (net)", ["4", "50", "net"]),
        ("２０１９", ["2019"]),
        ("", []),
        ("— … ©", []),
        ("中文", []),
    ],
)
def test_by_name(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("toxicology", ["tox##", "##icol##", "##logy"]),
        ("deliverable", ["deli##", "##ver##", "##able"]),
        ("carney", ["car##", "##ney"]),
        ("qx", ["q##", "##x"]),
    ],
)
def test_rare_words_by_name(word: str, expected: list[str]) -> None:
    assert tokens(word) == expected


@pytest.mark.parametrize("letters", ["harb", "ha", "20", "2", "xq", "é", ""])
def test_words_are_found_by_their_beginning(letters: str) -> None:
    tokenizer = Tokenizer.load()
    tokens = [tokenizer.token(term) for term in range(len(tokenizer))]
    expected = [
        term for term, token in enumerate(tokens) if token.startswith(letters) and not token.startswith("##")
    ]
    assert tokenizer.beginning_with(letters) == (expected if letters else [])


def test_letters_and_digits_part() -> None:
    assert tokens("abc123")[-1] == "123"
    assert tokens("3rd") == ["3", "rd"]


def test_a_long_run_is_cut() -> None:
    assert tokens("xq" * 250) == tokens("xq" * (LONGEST_WORD // 2))
    assert tokens("7" * 500) == ["777##", "##777"]


def test_every_letter_and_digit_can_be_written() -> None:
    tokenizer = Tokenizer.load()
    for char in "abcdefghijklmnopqrstuvwxyz":
        assert all(tokenizer.term(token) is not None for token in (char, char + "##", "##" + char))
    for number in range(1000):
        assert tokenizer.term(f"{number:03d}") is not None
        assert tokenizer.term(f"##{number:03d}") is not None
        assert tokenizer.term(f"{number:03d}##") is not None


def test_a_token_listed_twice_is_refused() -> None:
    with pytest.raises(InputError, match="twice"):
        Tokenizer(["a", "b", "a"])


def test_the_fingerprint_tells_vocabularies_apart() -> None:
    assert Tokenizer(["a", "b"]).fingerprint != Tokenizer(["b", "a"]).fingerprint
    assert Tokenizer(["a", "b"]).fingerprint == Tokenizer(["a", "b"]).fingerprint


def test_what_is_outside_the_vocabulary_is_passed_over() -> None:
    tokenizer = Tokenizer(["ab", "a##", "##b"])
    assert tokenizer.encode("ab azzb zzb zzz") == [0, 1, 2, 2]
