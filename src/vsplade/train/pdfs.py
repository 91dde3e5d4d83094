"""The text-layer gate: PDFs with a text layer train the model without a captioning model.

A page's own text takes the caption's place, and lines of it stand in for queries. Pictures and pairs are
written once, into a folder that ``FolderPairs`` reads.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import closing
from pathlib import Path

import numpy as np

from vsplade.errors import InputError

_WORD = re.compile(r"\w+")
QUERIES_A_PAGE = 2
FEWEST_WORDS = 30
"""Pages with less text are left out: a scan's page number is no caption."""
QUERY_WORDS = (4, 12)
"""At least and at most."""


def prepare_pdfs(source: Path, out: Path, longest_edge: int) -> dict[str, int]:
    """Render every page with enough text and write ``pairs.jsonl``; a second run finds its work done."""
    from vsplade.pages import FileProblem, discover, name_files, render, usable

    finished = out / "pairs.jsonl"
    if finished.is_file():
        return {
            "pairs": sum(1 for _ in finished.open(encoding="utf-8")),
            "pages": 0,
            "skipped": 0,
            "failed": 0,
        }
    found = discover([str(source)])
    if not found.files:
        raise InputError(f"There are no files to train on in {source}.")
    out.mkdir(parents=True, exist_ok=True)
    counts = {"pairs": 0, "pages": 0, "skipped": 0, "failed": len(found.problems)}

    def failed(problem: FileProblem) -> None:
        counts["failed"] += 1

    partial = out / "pairs.jsonl.partial"
    with partial.open("w", encoding="utf-8") as file, closing(
        render(name_files(found.files), longest_edge)
    ) as results:  # fmt: skip
        for result in usable(results, failed):
            page = result.page
            queries = pick_queries(page.text or "", page.id)
            if not queries:
                counts["skipped"] += 1
                continue
            name = f"{counts['pages']:06d}.png"
            page.image.save(out / name)
            counts["pages"] += 1
            for query in queries:
                row = {"image": name, "query": query, "caption": " ".join((page.text or "").split())}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                counts["pairs"] += 1
    if not counts["pairs"]:
        raise InputError(
            f"No page in {source} has a text layer of {FEWEST_WORDS} words or more, so there is nothing to "
            "learn from. Scans need captions: see the captions step."
        )
    os.replace(partial, finished)
    return counts


def pick_queries(text: str, page: str) -> list[str]:
    """Runs of words from different lines of a page, the same ones every time."""
    if len(_WORD.findall(text)) < FEWEST_WORDS:
        return []
    lines = [line.split() for line in text.splitlines() if len(_WORD.findall(line)) >= QUERY_WORDS[0]]
    random = np.random.default_rng([0, *page.encode()])
    picked = []
    for number in random.permutation(len(lines))[:QUERIES_A_PAGE]:
        words = lines[number]
        length = min(len(words), int(random.integers(QUERY_WORDS[0], QUERY_WORDS[1] + 1)))
        start = int(random.integers(len(words) - length + 1))
        picked.append(" ".join(words[start : start + length]))
    return picked
