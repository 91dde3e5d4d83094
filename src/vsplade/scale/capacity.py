"""How large, how fast and how dear an index of so many pages is.

Every constant is one that our benchmarks have measured; docs/scale-out.md names the run of each, and a test
holds the model against the measured points. What was not measured is not told: prices are the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import ceil
from typing import Any

from vsplade.errors import InputError

MIB, GIB = 1 << 20, 1 << 30

SEARCH_BYTES = 3.385
"""Of a posting, in the part of an index that a search reads: 10 million pages."""
EXACT_BYTES = 6.0
"""Of a posting: its term (2) and its float32 weight (4), for exact scores. A vocabulary above 65,536 terms
takes 8."""
PAGE_BYTES = 87
"""Of a page, beside its postings: id, hash, places and short metadata."""
MEANING_BYTES = 302
"""Of a page's windows of meaning."""
SEGMENT_PAGES = 65_536

PROCESS_BYTES, PROCESS_PAGE_BYTES = 330 * MIB, 70
"""What a searching process holds of its own."""
WARM = 1.25
"""Memory that an index takes in use, over the part that a search reads: vectors that are rescored, too."""

QUERY_SHARE = 0.746 / 299.4
"""Of all postings, those of a query's terms (8 to 15 terms)."""
FIXED_S = 55e-6
BYTES_PER_S = 5.8e9
"""Of a search at k = 10: what does not grow with the pages, and the bytes of postings that one core adds up a
second."""
MEANING_S = 1.6e-3
"""Of a search by meaning, too: a million pages, and not more for more."""
POSTINGS_PER_S = 7.9e6
"""That one core builds an index of."""
JOIN_BYTES_PER_S = 0.53e9
"""That one core reads, writes and verifies when indexes are joined."""

CPU_PAGE_S = 0.245
"""Of one core, from file to vector with meaning: the mean of slides (0.185) and scans (0.306)."""
GPU_PAGES_PER_S = 320
GPU_CORES = 16
"""Of one H200 with 16 cores that render, from files to vectors: PDFs, words alone. Scans: 586."""

BUSY = 0.6
"""How much of its cores a machine should use on average, so that queries do not queue."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine that searches."""

    cores: int = 16
    ram_gib: float = 64.0

    @property
    def usable_ram(self) -> float:
        """A tenth is left to the system."""
        return 0.9 * self.ram_gib * GIB


@dataclass(frozen=True, slots=True)
class Prices:
    """Of an hour, in any currency; None: no costs are told."""

    core: float | None = None
    gpu: float | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """What an index needs. Bytes, seconds, machines."""

    pages: int
    terms: float
    qps: float
    machine: Machine
    postings: int
    index_bytes: int
    search_bytes: int
    segments: int
    ram_bytes: int
    """So that searches are answered from memory."""
    ram_whole_bytes: int
    """With all of the index in memory."""
    search_s: float
    """Processor time of a query over all pages, on one core."""
    build_core_s: float
    join_core_s: float
    """To join the shards into one index."""
    shards: int
    replicas: int
    shard_search_s: float
    """Processor time of a query in one shard: the latency, where each shard has a machine."""
    limit: str
    """What decides how many machines there are; ``none`` where one is enough."""
    encoding: Mapping[str, float | None] = field(default_factory=dict)
    """Per million pages: core hours on CPUs; GPU hours, and the hours of the cores that feed the GPU."""

    @property
    def machines(self) -> int:
        return self.shards * self.replicas

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "machines": self.machines}


def plan(
    pages: int,
    terms: float = 300.0,
    qps: float = 1.0,
    machine: Machine | None = None,
    prices: Prices | None = None,
    meaning: bool = True,
) -> Capacity:
    """``qps`` are queries a second at busy times; ``terms`` those of a page, on average."""
    machine = machine or Machine()
    if pages < 1 or terms <= 0 or qps <= 0 or machine.cores < 1 or machine.ram_gib <= 0.5:
        raise InputError("Pages, terms, queries, cores and memory must be above zero (memory: 0.5 GiB).")
    postings = round(pages * terms)
    search = postings * SEARCH_BYTES
    index = search + postings * EXACT_BYTES + pages * (PAGE_BYTES + MEANING_BYTES * meaning)
    own = pages * PROCESS_PAGE_BYTES
    shards = max(1, ceil((WARM * search + own) / (machine.usable_ram - PROCESS_BYTES)))
    of_shard = search_seconds(postings / shards, meaning)
    by_time = qps * of_shard / (BUSY * machine.cores)
    replicas = max(1, ceil(by_time))
    return Capacity(
        pages=pages,
        terms=terms,
        qps=qps,
        machine=machine,
        postings=postings,
        index_bytes=round(index),
        search_bytes=round(search),
        segments=ceil(pages / SEGMENT_PAGES),
        ram_bytes=round(PROCESS_BYTES + own + WARM * search),
        ram_whole_bytes=round(PROCESS_BYTES + own + index),
        search_s=search_seconds(postings, meaning),
        build_core_s=postings / POSTINGS_PER_S,
        join_core_s=index / JOIN_BYTES_PER_S,
        shards=shards,
        replicas=replicas,
        shard_search_s=of_shard,
        limit=_limit(shards, replicas),
        encoding=encoding_costs(prices or Prices()),
    )


def search_seconds(postings: float, meaning: bool) -> float:
    """By bandwidth: the bytes of the query's postings, at the rate at which one core adds them up."""
    return FIXED_S + MEANING_S * meaning + postings * QUERY_SHARE * SEARCH_BYTES / BYTES_PER_S


def encoding_costs(prices: Prices) -> dict[str, float | None]:
    million = 1e6
    core_hours = million * CPU_PAGE_S / 3600
    gpu_hours = million / GPU_PAGES_PER_S / 3600
    fed = GPU_CORES * gpu_hours
    on_cpu = None if prices.core is None else core_hours * prices.core
    on_gpu = None if prices.gpu is None else gpu_hours * prices.gpu + fed * (prices.core or 0.0)
    return {
        "cpu_core_hours": core_hours,
        "gpu_hours": gpu_hours,
        "gpu_core_hours": fed,
        "cpu_cost": on_cpu,
        "gpu_cost": on_gpu,
    }


def _limit(shards: int, replicas: int) -> str:
    if shards == replicas == 1:
        return "none"
    return "memory" if shards >= replicas else "queries a second"


_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9}


def parse_count(text: str) -> int:
    """``18.7M``, ``300k``, ``1B``, ``1_000_000``."""
    given = text.strip().lower().replace(",", "").replace("_", "")
    unit = _UNITS.get(given[-1:], 1.0)
    try:
        number = float(given[:-1] if given[-1:] in _UNITS else given) * unit
        if not 1 <= number <= 1e15:
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise InputError(f"Cannot read {text!r} as a number of pages: write 18.7M, 300k or 1B.") from error
    return round(number)
