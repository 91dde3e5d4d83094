from __future__ import annotations

import gzip
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vsplade.encode.meaning.wordpiece import WordPiece

SYNONYMS = {"big": ["large", "great"], "house": ["building"]}
TEXT = "the big house stands on a hill above the river and nobody has lived there since the war ended"


SPECIAL = ["[PAD]", *(f"[unused{n}]" for n in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = [*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS)]
"""Like MiniLM's: special tokens up to 103, then letters, and letters that continue a word."""
PAD = len(VOCABULARY)


def plain_tokens(folder: Path, texts: list[str], most: int) -> tuple[np.ndarray, np.ndarray]:
    """As `tokens_of`, for a folder without MiniLM's own tokenizer."""
    pieces = WordPiece.load(folder / "vocab.txt")
    rows = [[pieces.start, *pieces.encode(text)[: most - 2], pieces.end] for text in texts]
    return np.array([token for row in rows for token in row], np.uint16), np.array(list(map(len, rows)))


@pytest.fixture(scope="module")
def bert() -> Any:
    torch = pytest.importorskip("torch")
    from research.meaning.model import Bert

    torch.manual_seed(0)
    model = Bert(len(VOCABULARY), padding=0, layers=2)
    for value in model.parameters():  # wide enough that layers differ from the identity
        torch.nn.init.normal_(value, std=0.08)
    for name, value in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            torch.nn.init.ones_(value)
    return model.eval()


@pytest.fixture
def minilm(bert: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the published model."""
    folder = tmp_path / "minilm"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    for module in ("export", "teachers", "learn"):
        monkeypatch.setattr(f"research.meaning.{module}.load_minilm", lambda _: deepcopy(bert))
    for module in ("texts", "teachers"):
        monkeypatch.setattr(f"research.meaning.{module}.tokens_of", plain_tokens)
    return folder


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
