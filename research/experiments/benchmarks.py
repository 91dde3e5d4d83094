"""The six public benchmarks of the paper by name: ``vidore-v2:biomedical`` and its like.

English settings, as the paper has them: French page collections (ViDoRe v1's tabfquad and shiftproject, v3's
finance_fr, energy and physics) are left out, and of sets with translated questions the English ones are kept.
The paper does not list its subsets of v3 by name; these are the ones whose pages are English.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vsplade.errors import InputError


def _read() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for row in Path(__file__).with_name("benchmarks.tsv").read_text("utf-8").splitlines()[1:]:
        group, subset, repository = row.split("\t")
        found.setdefault(group, {})[subset] = repository
    return found


BENCHMARKS: Mapping[str, Mapping[str, str]] = _read()
"""Benchmark -> subset -> the hub's data set."""


def is_benchmark(name: str) -> bool:
    """Whether this is meant as a benchmark's name and not as a folder."""
    return name.partition(":")[0] in BENCHMARKS


def repository(name: str) -> str:
    """The hub's data set behind a name; ``irpapers`` needs no subset."""
    group, _, subset = name.partition(":")
    if group not in BENCHMARKS:
        raise InputError(f"There is no benchmark {group!r}; choose one of: {', '.join(BENCHMARKS)}.")
    subsets = BENCHMARKS[group]
    if not subset and len(subsets) == 1:
        subset = next(iter(subsets))
    if subset not in subsets:
        said = f"has no subset {subset!r}" if subset else "has several subsets"
        raise InputError(f"{group} {said}; choose one of: {', '.join(f'{group}:{s}' for s in subsets)}.")
    return subsets[subset]
