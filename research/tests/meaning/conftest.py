from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

SYNONYMS = {"big": ["large", "great"], "house": ["building"]}
TEXT = "the big house stands on a hill above the river and nobody has lived there since the war ended"


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
