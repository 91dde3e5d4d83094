"""Runs: what a system returned for each query, in TREC's format and in memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path

from vsplade.errors import InputError

Run = dict[str, dict[str, float]]
"""Query id -> page id -> score. Higher is better; order within a query carries no meaning."""


def read_run(
    path: str | Path, queries: Collection[str] | None = None, pages: Collection[str] | None = None
) -> Run:
    """Read ``query Q0 page rank score tag`` lines.

    With ``queries`` and ``pages`` given, a line that names another query or page is an error: such a run
    belongs to another corpus, and its score would mean nothing. Ranks are not trusted: scores decide, as
    in trec_eval.
    """
    path = Path(path)
    known_queries = None if queries is None else set(queries)
    known_pages = None if pages is None else set(pages)
    run: Run = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text, so not a TREC run.") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        query, page, score = _parse(line, f"{path}, line {number}")
        if known_queries is not None and query not in known_queries:
            raise InputError(f"{path}, line {number}: query {query!r} is not in this data set.")
        if known_pages is not None and page not in known_pages:
            raise InputError(
                f"{path}, line {number}: page {page!r} is not in the corpus ({len(known_pages)} pages). "
                "Was the run made on another corpus?"
            )
        pages_of_query = run.setdefault(query, {})
        if page in pages_of_query:
            raise InputError(f"{path}, line {number}: page {page!r} is listed twice for query {query!r}.")
        pages_of_query[page] = score
    if not run:
        raise InputError(f"{path} holds no results.")
    return run


def write_run(path: str | Path, run: Mapping[str, Mapping[str, float]], tag: str = "vsplade") -> None:
    """Write TREC's six columns, best first; ids with white space would break the columns and are refused."""
    rows: list[str] = []
    for query, pages in run.items():
        for rank, (page, score) in enumerate(ranked(pages), 1):
            for identifier in (query, page, tag):
                if not identifier or any(character.isspace() for character in identifier):
                    raise InputError(
                        f"{identifier!r} cannot be written to a TREC run: it is empty or has spaces in it."
                    )
            # repr keeps every digit, so that reading the file back gives the same scores and order.
            rows.append(f"{query} Q0 {page} {rank} {float(score)!r} {tag}\n")
    Path(path).write_text("".join(rows), encoding="utf-8")


def ranked(pages: Mapping[str, float]) -> list[tuple[str, float]]:
    """Best first; equal scores by page id, so that the order never depends on the dictionary's."""
    return sorted(pages.items(), key=lambda item: (-item[1], item[0]))


def _parse(line: str, where: str) -> tuple[str, str, float]:
    columns = line.split()
    if len(columns) != 6:
        raise InputError(f"{where}: expected 6 columns (query Q0 page rank score tag), found {len(columns)}.")
    try:
        score = float(columns[4])
    except ValueError as error:
        raise InputError(f"{where}: the score {columns[4]!r} is not a number.") from error
    if not math.isfinite(score):
        raise InputError(f"{where}: the score {columns[4]!r} is not a finite number.")
    return columns[0], columns[2], score
