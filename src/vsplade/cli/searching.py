"""``vsplade search``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsplade.cli.common import (
    encoder_option,
    filter_option,
    index_option,
    json_option,
    note,
    print_json,
    short_path,
)

if TYPE_CHECKING:
    from vsplade.types import Hit, TermMatch, Vocabulary

BAR = 40
"""Characters of the longest bar of ``--explain``."""


@click.command()
@click.argument("query")
@index_option
@click.option("-k", "k", type=click.IntRange(min=1), default=10, show_default=True, help="Results to show.")
@filter_option
@click.option(
    "--two-stage",
    type=click.IntRange(min=1),
    metavar="TERMS",
    help="Let the TERMS heaviest terms of each page propose results (the paper: 50), then rescore them. "
    "Not exact: the share of the exact results that was found is shown.",
)
@click.option("--explain", is_flag=True, help="Show every matched term and what it added to the score.")
@encoder_option
@json_option
def search(
    query: str,
    index_dir: Path,
    k: int,
    filters: tuple[str, ...],
    two_stage: int | None,
    explain: bool,
    encoder: str | None,
    as_json: bool,
) -> None:
    """Find the pages that answer QUERY, best first."""
    from vsplade.encode import load_encoder
    from vsplade.index import Index, TwoStage

    index = Index.open(index_dir, encoder=load_encoder(encoder) if encoder else None)
    stages = TwoStage(two_stage) if two_stage else None
    hits = index.search(query, k=k, filter=filters, two_stage=stages)
    recall = None
    if stages:
        exact = {hit.id for hit in index.search(query, k=k, filter=filters)}
        recall = len(exact & {hit.id for hit in hits}) / len(exact) if exact else 1.0
        note(f"Two-stage search found {recall:.0%} of the exact results.")
    if as_json:
        found = {"query": query, "hits": [hit_json(hit) for hit in hits]}
        print_json(found if recall is None else {**found, "recall": recall})
        return
    for rank, hit in enumerate(hits, 1):
        click.echo(describe(rank, hit, query, index.encoder.vocabulary))
        if explain:
            click.echo(explanation(hit.explain()))
    if not hits:
        note("No page matches. Try fewer or other words, or see what was indexed: vsplade stats.")


def hit_json(hit: Hit) -> dict[str, object]:
    return {
        "id": hit.id,
        "score": hit.score,
        "doc_id": hit.doc_id,
        "page_num": hit.page_num,
        "metadata": dict(hit.metadata),
        "matches": [
            {
                "token": match.token,
                "term": match.term,
                "query_weight": match.query_weight,
                "page_weight": match.page_weight,
                "product": match.product,
            }
            for match in hit.explain()
        ],
    }


def describe(rank: int, hit: Hit, query: str, vocabulary: Vocabulary) -> str:
    """A result on two lines: where it is, and which of the query's words it holds."""
    place = short_path(str(hit.metadata.get("path", hit.doc_id)))
    head = f"{rank:>3}. {click.style(place, bold=True)}, page {hit.page_num}"
    words = highlight(query, hit.explain(), vocabulary)
    return f"{head}  {click.style(f'{hit.score:.3f}', fg='cyan')}\n     {words}"


def highlight(query: str, matches: Sequence[TermMatch], vocabulary: Vocabulary) -> str:
    """The query's words: those on the page in bold with what they added, the others dimmed in brackets.

    Words are what people typed; a word of several pieces shows the sum of its pieces.
    """
    from vsplade.encode.tokenizer import Tokenizer

    left = {match.term: match for match in matches}
    shown = []
    for word in query.split():
        # A vocabulary that is not ours splits words in its own way: then only the terms can be shown.
        pieces = set(vocabulary.encode(word)) if isinstance(vocabulary, Tokenizer) else set()
        found = [left.pop(term).product for term in pieces if term in left]
        if found:
            shown.append(f"{click.style(word, bold=True, fg='green')} {sum(found):.2f}")
        elif pieces:
            shown.append(click.style(f"[{word}]", dim=True))
    related = [f"{match.token} {match.product:.2f}" for match in left.values()]
    return "  ".join([*shown, *(["also:"] if shown and related else []), *related])


def explanation(matches: Sequence[TermMatch]) -> str:
    """One line a term, with a bar; the products add up to the score."""
    longest = max((match.product for match in matches), default=0.0)
    lines = []
    for match in matches:
        bar = "█" * max(1, round(BAR * match.product / longest))
        arithmetic = f"{match.query_weight:.3f} × {match.page_weight:.3f} = {match.product:.3f}"
        lines.append(f"     {match.token:<20} {arithmetic}  {bar}")
    return "\n".join(lines)


COMMANDS = (search,)
