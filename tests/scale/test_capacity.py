"""The capacity model against what was measured: docs/benchmarks.md has the runs."""

from __future__ import annotations

import pytest
from tests.test_cli import as_json, vsplade

from vsplade.errors import InputError
from vsplade.scale.capacity import MIB, Machine, Prices, parse_count, plan

MEASURED = {
    # pages: terms a page, MiB on disk, ms of processor time at k = 10
    100_000: (299.4, 276, 0.094),
    1_000_000: (299.39, 2761, 0.413),
    5_000_000: (299.46, 13817, 2.038),
    10_000_000: (299.465, 27630, 3.835),
}


@pytest.mark.parametrize("pages", MEASURED)
def test_size_and_latency_are_the_measured_ones_within_a_fifth(pages: int) -> None:
    terms, mib, ms = MEASURED[pages]
    told = plan(pages, terms, meaning=False)
    assert told.index_bytes / MIB == pytest.approx(mib, rel=0.03)
    assert told.search_s * 1000 == pytest.approx(ms, rel=0.2)


def test_memory_is_the_measured_one_within_a_fifth() -> None:
    sizes = (100_000, 1_000_000, 10_000_000)
    small, middle, large = (plan(pages, MEASURED[pages][0], meaning=False) for pages in sizes)
    assert small.ram_whole_bytes / MIB == pytest.approx(636, rel=0.2), "all of it was in memory"
    assert middle.ram_whole_bytes / MIB == pytest.approx(3164, rel=0.2)
    assert large.ram_bytes / MIB == pytest.approx(13145, rel=0.2), "on a busy machine"


def test_building_is_the_measured_one_within_a_fifth() -> None:
    assert plan(100_000, 299.4).build_core_s == pytest.approx(4.3, rel=0.2)
    assert plan(1_000_000, 299.39).build_core_s == pytest.approx(37.7, rel=0.2)
    assert plan(5_000_000, 299.46).build_core_s == pytest.approx(185.1, rel=0.2)
    assert plan(10_000_000, 299.465).build_core_s == pytest.approx(395.8, rel=0.2)
    assert plan(10_000_000).segments == 153


def test_machines_follow_memory_and_queries() -> None:
    one = plan(1_000_000, qps=10)
    assert (one.machines, one.limit) == (1, "none")
    wide = plan(10**9, qps=10)
    assert wide.shards > 10
    assert wide.limit == "memory"
    assert wide.shard_search_s < wide.search_s / wide.shards + 0.002
    busy = plan(1_000_000, qps=100_000, machine=Machine(cores=4))
    assert busy.shards == 1
    assert busy.limit == "queries a second"
    assert busy.replicas * 4 * 0.6 >= 100_000 * busy.search_s
    assert plan(10**9, machine=Machine(ram_gib=1024)).shards < wide.shards


def test_prices_make_costs() -> None:
    assert plan(1000).encoding["cpu_cost"] is None
    costs = plan(1000, prices=Prices(core=0.05, gpu=4.0)).encoding
    assert costs["cpu_cost"] == pytest.approx(1e6 * 0.245 / 3600 * 0.05)
    assert costs["gpu_cost"] == pytest.approx(1e6 / 320 / 3600 * (4.0 + 16 * 0.05))


@pytest.mark.parametrize(
    ("text", "pages"), [("18.7M", 18_700_000), ("300k", 300_000), ("1B", 10**9), ("1,000", 1000)]
)
def test_numbers_as_people_write_them(text: str, pages: int) -> None:
    assert parse_count(text) == pages


@pytest.mark.parametrize("text", ["", "M", "ten", "-1", "0", "nan", "inf", "1e400", "1T"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"write 18\.7M"):
        parse_count(text)


def test_by_the_command_line() -> None:
    told = as_json("plan", "--pages", "18.7M", "--terms", "300", "--qps", "500")
    assert told["pages"] == 18_700_000
    assert told["machines"] == told["shards"] * told["replicas"]
    shown = vsplade("plan", "--pages", "18.7M", "--core-price", "0.05", "--gpu-price", "4").stdout
    assert "18,700,000 pages" in shown
    assert "machines" in shown
    vsplade("plan", "--pages", "many", code=2)
