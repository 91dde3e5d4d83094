"""Does two-stage search pay? One made-up corpus, searched in full and in two stages, in turns.

    python -m research.bench.two_stage_scale --pages 1000000 --pisa --out rows.json
    python -m research.bench.two_stage_scale --pages 4000000 --folder DIR --json      # 12 GB in DIR

``--pisa`` times PISA beside it (pip install pyterrier-pisa), over all terms and over the 50 heaviest of a
page, then rescored. PISA writes lines of its own to stdout, so give ``--out``. Every round asks all queries
of every way, one after the other, so that other work on the machine meets all of them alike. Times are
medians of the rounds. Recall is the share of the exact top k.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from research.bench.corpus import CorpusSpec, make_queries
from research.bench.engines import FIRST_STAGE_TERMS, Engine, VspladeIds
from research.bench.measured import say
from research.bench.peers import Pisa, PisaTwoStage
from research.command import main, option
from research.two_stage import TwoStage, TwoStageIndex
from vsplade.errors import InputError
from vsplade.types import SparseVector

FULL = "vsplade, full"
Row = dict[str, Any]


class InTwoStages(VspladeIds):
    """Another way to search the index of an engine that is built already."""

    def __init__(self, built: VspladeIds, staged: TwoStageIndex, times_k: int = 10) -> None:
        super().__init__()
        self._index, self._staged, self._times_k = built._index, staged, times_k

    def search(self, prepared: Any) -> Any:
        queries, k = prepared
        (ranking,) = self._staged.rank(queries, k, proposed=self._times_k * k)
        return self._index.page_ids(ranking)


def ours(spec: CorpusSpec, folder: Path) -> dict[str, Engine]:
    """One index, and three ways to propose pages of it."""
    built = VspladeIds(lambda pages: say(f"{pages:,} pages"))
    say(f"vsplade: built in {built.build(spec, folder):.0f} s")
    shared = TwoStageIndex(built._index, TwoStage(FIRST_STAGE_TERMS))
    say("terms are shared out")
    plain = TwoStageIndex(built._index, TwoStage(FIRST_STAGE_TERMS, plain=True))
    say("plain top terms")
    return {
        FULL: built,
        "vsplade, two-stage, 50 terms shared out": InTwoStages(built, shared),
        "vsplade, two-stage, 50 terms shared out, 2 k proposed": InTwoStages(built, shared, 2),
        "vsplade, two-stage, plain top 50": InTwoStages(built, plain),
    }


def theirs(spec: CorpusSpec, folder: Path) -> dict[str, Engine]:
    found: dict[str, Engine] = {}
    for name, kind in (("PISA, full", Pisa), ("PISA, two-stage, plain top 50", PisaTwoStage)):
        work = folder / kind.name
        work.mkdir()
        found[name] = kind(lambda pages: say(f"{pages:,} pages"))
        say(f"{name}: built in {found[name].build(spec, work):.0f} s")
    return found


def in_turns(
    ways: Mapping[str, Engine], queries: Sequence[SparseVector], ks: Sequence[int], rounds: int
) -> list[Row]:
    """A row for every way and k; the first way's answers are the exact ones. A round that is not timed comes
    before the others.
    """
    asked = {(name, k): [engine.prepare(query, k) for query in queries]
             for name, engine in ways.items() for k in ks}  # fmt: skip
    busy: dict[tuple[str, int], list[float]] = {place: [] for place in asked}
    wall: dict[tuple[str, int], list[float]] = {place: [] for place in asked}
    found: dict[tuple[str, int], list[set[int]]] = {}
    for number in range(rounds + 1):
        for (name, k), prepared in asked.items():
            before, start = time.process_time(), time.perf_counter()
            answers = [ways[name].search(query) for query in prepared]
            spent = time.process_time() - before, time.perf_counter() - start
            if number:
                busy[name, k].append(1000 * spent[0] / len(queries))
                wall[name, k].append(1000 * spent[1] / len(queries))
            else:
                found[name, k] = [set(ways[name].pages(answer)) for answer in answers]
        say(f"round {number} of {rounds}")
    right = next(iter(ways))
    return [
        {"search": name, "k": k, "processor_ms": round(median(busy[name, k]), 4),
         "least": round(min(busy[name, k]), 4), "most": round(max(busy[name, k]), 4),
         "wall_ms": round(median(wall[name, k]), 4), "recall": _recall(found[right, k], found[name, k])}
        for name, k in asked
    ]  # fmt: skip


def _recall(right: Sequence[set[int]], found: Sequence[set[int]]) -> float:
    shares = [len(wanted & pages) / max(1, len(wanted)) for wanted, pages in zip(right, found, strict=True)]
    return round(float(np.mean(shares)), 4)


@dataclass(frozen=True)
class TwoStageScaleOptions:
    pages: int = option("Pages of the made-up corpus.", 100_000)
    queries: int = option("Made-up queries.", 100)
    k: tuple[int, ...] = option("Results a query.", (10, 100))
    rounds: int = option("Times that every way is asked all queries.", 7)
    pisa: bool = option("Time PISA, too.", False)
    folder: Path | None = option("Build here, not in the temporary folder.", None)
    out: Path | None = option("Write the result here, too (JSON).", None)


def two_stage_scale(options: TwoStageScaleOptions) -> dict[str, Any]:
    """Full and two-stage search of one made-up corpus, by turns."""
    if options.pisa and Pisa.missing():
        raise InputError("PISA is not installed: pip install pyterrier-pisa.")
    spec = CorpusSpec(options.pages)
    with tempfile.TemporaryDirectory(dir=options.folder) as work:
        ways = ours(spec, Path(work) / "vsplade")
        if options.pisa:
            ways |= theirs(spec, Path(work))
        rows = in_turns(ways, make_queries(spec, options.queries), options.k, options.rounds)
    load = [round(value, 1) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None
    found = {"pages": options.pages, "queries": options.queries, "load": load, "rows": rows}
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return found


if __name__ == "__main__":
    main(two_stage_scale, TwoStageScaleOptions)
