"""Phrases that get a row of their own: those that belong together."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

from research.meaning.phrases import chosen_phrases, pairs_of, runs


def test_only_words_side_by_side_are_a_phrase() -> None:
    found = [pair for run in runs("The heart attack, of real estate (Estate) x") for pair in pairs_of(run)]
    assert found == ["heart attack", "real estate"]


def test_words_that_belong_together_come_first(work: Path) -> None:
    rng = random.Random(0)
    common = [f"word{chr(97 + n)}" for n in range(26)]
    texts = []
    for _ in range(400):
        drawn = rng.choices(common, k=20)
        drawn[rng.randrange(20)] = rng.choice(["heart attack", "solar panel", common[0]])
        texts.append(" ".join(drawn))
    with gzip.open(work / "passages.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"t": text, "src": "anarchism"}) + "\n" for text in texts)
    assert chosen_phrases(work, 2) == ["heart attack", "solar panel"]


def test_a_headword_needs_to_be_seen_less_often(work: Path) -> None:
    texts = ["a broad bean and a narrow gauge"] * 6
    with gzip.open(work / "passages.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"t": text, "src": "anarchism"}) + "\n" for text in texts)
    with gzip.open(work / "pairs.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps({"q": "Broad bean", "p": "a plant", "src": "wordnet"}) + "\n")
    found = chosen_phrases(work, 100)
    assert "broad bean" in found
    assert "narrow gauge" not in found
