"""``vsplade merge`` and ``vsplade plan``."""

from __future__ import annotations

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


@click.command()
@click.option("--pages", required=True, metavar="N", help="How many pages: 300k, 18.7M, 1B.")
@click.option(
    "--terms",
    type=Number(min=1),
    default=300.0,
    show_default=True,
    help="Terms a page, on average. `vsplade stats` tells an index's postings and pages.",
)
@click.option(
    "--qps",
    type=Number(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Queries a second, at busy times.",
)
@click.option("--cores", type=click.IntRange(min=1), default=16, show_default=True, help="Of a machine.")
@click.option(
    "--ram",
    type=Number(min=1),
    default=64.0,
    show_default=True,
    metavar="GIB",
    help="Memory of a machine.",
)
@click.option("--words-only", is_flag=True, help="An index without meaning.")
@click.option("--core-price", type=Number(min=0), metavar="PRICE", help="Of a core, for an hour.")
@click.option("--gpu-price", type=Number(min=0), metavar="PRICE", help="Of a GPU, for an hour.")
@json_option
def plan(
    pages: str,
    terms: float,
    qps: float,
    cores: int,
    ram: float,
    words_only: bool,
    core_price: float | None,
    gpu_price: float | None,
    as_json: bool,
) -> None:
    """Tell how large an index of so many pages is, how fast, and how many machines it needs."""
    from vsplade.scale import capacity

    told = capacity.plan(
        capacity.parse_count(pages),
        terms,
        qps,
        capacity.Machine(cores, ram),
        capacity.Prices(core_price, gpu_price),
        meaning=not words_only,
    )
    if as_json:
        print_json(told.to_json())
        return
    say(f"{count(told.pages, 'page')} with {terms:g} terms each, {qps:g} queries a second")
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
