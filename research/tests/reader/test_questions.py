"""Questions that are made up: of the page's own words, and of frames that leave nothing unfilled."""

from __future__ import annotations

import random
import re

from research.experiments.stopwords import LUCENE
from research.reader.questions import ask, fill, frames, topics

TEXT = "The harbour was dredged in autumn. Lighthouse keepers counted grain barges from northern quays."


def test_every_frame_can_be_filled() -> None:
    rng = random.Random(0)
    for frame in frames()[0]:
        for _ in range(20):
            filled = fill(frame, rng)
            assert not re.search(r"[{}|]|[A-Z]{4,}", filled), (frame, filled)
            assert re.search(r"\bX\b", filled), (frame, filled)


def test_topics_are_neighbouring_words_of_one_sentence() -> None:
    rng = random.Random(1)
    plain = re.sub(r"[^a-z. ]", "", TEXT.lower())
    for _ in range(50):
        for topic in topics(TEXT, rng, 2):
            assert topic in plain
            assert topic.split()[0] not in LUCENE
            assert topic.split()[-1] not in LUCENE


def test_a_question_holds_words_of_the_page_and_of_the_frame() -> None:
    rng = random.Random(2)
    words = set(re.findall("[a-z]+", TEXT.lower()))
    asked = [set(ask(TEXT, rng).split()) for _ in range(200)]
    assert all(question & words for question in asked)
    assert sum(bool(question - words) for question in asked) > 150
    assert {"what", "which", "how"} <= set().union(*asked)


def test_the_same_seed_asks_the_same_and_empty_pages_are_not_asked_about() -> None:
    assert ask(TEXT, random.Random(3)) == ask(TEXT, random.Random(3))
    assert ask("", random.Random(0)) == ""
    assert ask("17 23", random.Random(0)) == ""
