from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from vsplade.encode.meaning.wordpiece import WordPiece

SYNONYMS = {"big": ["large", "great"], "house": ["building"]}
TEXT = "the big house stands on a hill above the river and nobody has lived there since the war ended"


def plain_tokens(folder: Path, texts: list[str], size: int) -> np.ndarray:
    """As `teacher_tokens`, for a folder without MiniLM's own tokenizer."""
    pieces = WordPiece.load(folder / "vocab.txt")
    out = np.zeros((len(texts), size), np.uint16)
    for row, text in enumerate(texts):
        numbers = [pieces.start, *pieces.encode(text)[: size - 2], pieces.end]
        out[row, : len(numbers)] = numbers
    return out


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """What `collect` and `synonyms` leave, in small."""

    def write(name: str, rows: list[dict[str, object]]) -> None:
        with gzip.open(tmp_path / name, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)

    write("passages.jsonl.gz", [{"t": f"{TEXT} {n}", "src": "anarchism"} for n in range(20)])
    write("pairs.jsonl.gz", [{"q": f"word {n}", "p": f"a gloss of {n}", "src": "wordnet"} for n in range(8)])
    free = [{"q": f"free question {n}", "src": "squad"} for n in range(5)]
    kept_out = [{"q": f"secret question {n}", "src": "msmarco", "research_only": True} for n in range(5)]
    write("queries.jsonl.gz", [*free, *kept_out])
    with gzip.open(tmp_path / "synonyms.json.gz", "wt", encoding="utf-8") as file:
        json.dump(SYNONYMS, file)
    return tmp_path
