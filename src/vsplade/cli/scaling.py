"""``vsplade merge`` and ``vsplade plan``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from vsplade.cli.common import (
    INDEX,
    Number,
    count,
    folder_of,
    json_option,
    note,
    print_json,
    printable,
    progress_bar,
    say,
    size,
)
from vsplade.cli.options import option, takes

if TYPE_CHECKING:
    from vsplade.backends.address import Where
    from vsplade.scale.capacity import Capacity


@click.command()
@click.argument("indexes", nargs=-1, required=True, metavar="INDEX INDEX...", type=INDEX)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    type=INDEX,
    help="The folder of the new index.",
)
@json_option
def merge(indexes: tuple[Where, ...], output: Where, as_json: bool) -> None:
    """Join indexes that were built apart into a new one. They stay as they are.

    All must be of one encoder, and no page's id may be in two of them. Every byte is verified on the way.
    """
    from vsplade.store.join_indexes import join_indexes

    folders = [folder_of(index, "joining") for index in indexes]
    with progress_bar(None, "pages") as update:
        pages, segments = join_indexes(folders, folder_of(output, "joining"), update)
    if as_json:
        print_json({"index": str(output), "joined": len(indexes), "pages": pages, "segments": segments})
    else:
        say(f"Joined {len(indexes)} indexes into {printable(str(output))}: {count(pages, 'page')}.")


@dataclass(frozen=True)
class PlanOptions:
    pages: str = option("How many pages: 300k, 18.7M, 1B.", metavar="N")
    terms: float = option(
        "Terms a page, on average. `vsplade stats` tells an index's postings and pages.",
        300.0,
        kind=Number(min=1),
    )
    qps: float = option("Queries a second, at busy times.", 1.0, kind=Number(min=0, min_open=True))
    cores: int = option("Of a machine.", 16, kind=click.IntRange(min=1))
    ram: float = option("Memory of a machine.", 64.0, kind=Number(min=1), metavar="GIB")
    words_only: bool = option("An index without meaning.", False)
    core_price: float | None = option("Of a core, for an hour.", None, kind=Number(min=0), metavar="PRICE")
    gpu_price: float | None = option("Of a GPU, for an hour.", None, kind=Number(min=0), metavar="PRICE")


@click.command()
@takes(PlanOptions)
@json_option
def plan(asked: PlanOptions, as_json: bool) -> None:
    """Tell how large an index of so many pages is, how fast, and how many machines it needs."""
    from vsplade.scale import capacity

    machine = capacity.Machine(asked.cores, asked.ram)
    prices = capacity.Prices(asked.core_price, asked.gpu_price)
    pages, meaning = capacity.parse_count(asked.pages), not asked.words_only
    told = capacity.plan(pages, asked.terms, asked.qps, machine, prices, meaning)
    if as_json:
        print_json(told.to_json())
        return
    say(f"{count(told.pages, 'page')} with {told.terms:g} terms each, {told.qps:g} queries a second")
    for name, value in _rows(told):
        say(f"  {name:<34} {value}")
    note(
        "Measured up to 10 million pages; beyond that it is arithmetic. docs/scale-out.md has the constants."
    )


def _rows(told: Capacity) -> list[tuple[str, str]]:
    costs = told.encoding
    copies = count(told.replicas, "copy", "copies")
    why = "" if told.limit == "none" else f", because of {told.limit}"

    def money(key: str) -> str:
        return "" if costs[key] is None else f", {costs[key]:,.2f} in money"

    return [
        ("index on disk", size(told.index_bytes)),
        ("of it read by searches", size(told.search_bytes)),
        ("segments", f"{told.segments:,}"),
        ("memory in use", size(told.ram_bytes)),
        ("building the index", f"{told.build_core_s / 3600:,.2f} core hours"),
        ("joining shards into one index", f"{told.join_core_s / 3600:,.2f} core hours"),
        ("search, all pages on one core", f"{told.search_s * 1000:,.2f} ms (k = 10)"),
        ("machines", f"{told.machines:,}: {count(told.shards, 'shard')}, {copies} of each"),
        ("of", f"{told.machine.cores} cores and {told.machine.ram_gib:g} GiB{why}"),
        ("search in one shard", f"{told.shard_search_s * 1000:,.2f} ms"),
        ("encoding a million pages, CPU", f"{costs['cpu_core_hours']:,.1f} core hours{money('cpu_cost')}"),
        (
            "encoding a million pages, H200",
            f"{costs['gpu_hours']:,.2f} GPU hours and {costs['gpu_core_hours']:,.1f} core hours"
            + money("gpu_cost"),
        ),
    ]


COMMANDS: tuple[click.Command, ...] = (merge, plan)
