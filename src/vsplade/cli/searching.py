"""``vsplade search``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsplade.cli.common import (
    encoder_option,
    filter_option,
    index_option,
    json_option,
    linked,
    note,
    print_json,
    printable,
    say,
    short_path,
    style,
)
from vsplade.errors import InputError, VspladeError

if TYPE_CHECKING:
    from vsplade.index import Index
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
    help="Let the TERMS terms that matter most of each page propose results (the paper: 50), rescore them. "
    "Not exact: the share of the exact results that was found is shown.",
)
@click.option(
    "--fuse",
    is_flag=True,
    help="Join what the reader saw with BM25 on the text layers, in an index that was built with "
    "--encoder reader+text. Pages without a text layer are ranked by the reader alone.",
)
@click.option(
    "--fuse-with",
    type=click.Path(path_type=Path, file_okay=False),
    multiple=True,
    metavar="DIR",
    help="Join with the results of another index of the same pages. May be given several times.",
)
@click.option(
    "--weights",
    metavar="W,W",
    help="Weights of the joined rankings, in their order (this index, its text layers, other indexes); they "
    "sum to 1. Default: 0.8,0.2 for --fuse alone, else equal.",
)
@click.option(
    "--fusion",
    type=click.Choice(["rsf", "rrf"]),
    default="rsf",
    show_default=True,
    help="Relative score fusion (the paper's), or reciprocal rank fusion.",
)
@click.option(
    "--rerank",
    metavar="MODEL",
    help="Order the best hits anew with a ColModernVBERT model, a folder or a name on the hub. Reads those "
    "pages again; slow, and a neural network at query time.",
)
@click.option(
    "--rerank-depth",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many hits --rerank looks at.",
)
@click.option(
    "--open", "open_best", is_flag=True, help="Show the best hit's page, its words marked, in a viewer."
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT.png",
    help="Write the best hit's page, its words marked, to this file.",
)
@click.option(
    "--snippets/--no-snippets",
    default=None,
    help="Show the words around the best place of each hit. Default: on a terminal. Opens the hits' files.",
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
    fuse: bool,
    fuse_with: tuple[Path, ...],
    weights: str | None,
    fusion: str,
    rerank: str | None,
    rerank_depth: int,
    open_best: bool,
    picture: Path | None,
    snippets: bool | None,
    explain: bool,
    encoder: str | None,
    as_json: bool,
) -> None:
    """Find the pages that answer QUERY, best first."""
    from vsplade.encode import load_encoder
    from vsplade.index import Index, TwoStage

    index = Index.open(index_dir, encoder=load_encoder(encoder) if encoder else None)
    stages = TwoStage(two_stage) if two_stage else None
    recall = None
    shown, k = k, max(k, rerank_depth) if rerank else k
    hits: Sequence[Hit]
    if fuse or fuse_with:
        if stages:
            raise InputError("--two-stage and fusion cannot be combined: leave one of them out.")
        hits = fused_hits(index, query, k, filters, fuse, fuse_with, weights, fusion)
    elif weights is not None:
        raise InputError("--weights says how rankings are joined: give --fuse or --fuse-with too.")
    else:
        hits = index.search(query, k=k, filter=filters, two_stage=stages)
    if stages:
        exact = {hit.id for hit in index.search(query, k=k, filter=filters)}
        recall = len(exact & {hit.id for hit in hits}) / len(exact) if exact else 1.0
        note(f"Two-stage search found {recall:.0%} of the exact results.")
    if rerank:
        hits = reranked(query, hits, rerank, rerank_depth)[:shown]
    if picture or open_best:
        show_marked(hits, picture, open_best)
    if as_json:
        found = {"query": query, "hits": [hit_json(hit, bool(snippets)) for hit in hits]}
        print_json(found if recall is None else {**found, "recall": recall})
        return
    asked = set(index.encode_query(query).terms.tolist())
    with_snippets = sys.stdout.isatty() if snippets is None else snippets
    for rank, hit in enumerate(hits, 1):
        say(describe(rank, hit, query, asked, index.encoder.vocabulary))
        if with_snippets and (line := snippet_line(hit)):
            say(f"     {line}")
        if explain:
            say(explanation(hit.explain()))
    if not hits:
        note(why_nothing(index, query, filters))


def show_marked(hits: Sequence[Hit], picture: Path | None, in_viewer: bool) -> None:
    """The best hit's page with its words marked: in a file, and in the system's viewer where asked for."""
    if not hits:
        return
    if picture and picture_format(picture) is None:
        raise InputError(f"{picture}: a picture cannot be written under this ending; use .png or .jpg.")
    image = hits[0].image(marked=True)
    target = picture
    if target is None:
        import tempfile

        # Kept: the viewer reads it after this command has ended.
        handle, name = tempfile.mkstemp(prefix="vsplade-", suffix=".png")
        os.close(handle)
        target = Path(name)
    image.save(target)
    note(f"Wrote {target}.")
    if in_viewer and click.launch(str(target)):
        note("No viewer could be started; open the picture yourself.")


def picture_format(target: Path) -> str | None:
    from PIL import Image

    kind = Image.registered_extensions().get(target.suffix.lower())
    return kind if kind in Image.SAVE else None


def snippet_line(hit: Hit) -> str:
    """The words around the best place, the query's in bold; empty where the file cannot be read now."""
    from vsplade.results.sight import look_at

    try:
        snippet = look_at(hit).snippet()
    except VspladeError:
        return ""
    parts, place = [], 0
    for start, end in snippet.marks:
        parts += [
            printable(snippet.text[place:start]),
            style(snippet.text[start:end], bold=True),
        ]
        place = end
    return "".join([*parts, printable(snippet.text[place:])])


def why_nothing(index: Index, query: str, filters: tuple[str, ...]) -> str:
    """What to do about a search without results."""
    if not index.pages:
        folder = printable(str(index.folder))
        return f"The index holds no pages yet. Add some: vsplade index PATH --index {folder}"
    if filters and next(index.ids(filters), None) is None:
        keys = printable(", ".join(index.metadata_keys()))
        return f"No page passes --filter, whatever the words. Pages can be filtered by: {keys}."
    if not len(index.encode_query(query)):
        if any(character.isalnum() for character in query):
            return f"The encoder {index.encoder.name!r} knows none of these words. Write others."
        return "The query has no word that can be searched for. Write one or more words."
    return "No page matches. Try fewer or other words, or see what was indexed: vsplade stats."


def fused_hits(
    index: Index,
    query: str,
    k: int,
    filters: tuple[str, ...],
    fuse: bool,
    others: Sequence[Path],
    weights: str | None,
    method: str,
) -> Sequence[Hit]:
    """The index, its text layers where asked for, and other indexes, as one ranking."""
    from vsplade.index import Index
    from vsplade.results.fused import READER_AND_TEXT, fused_search, text_layer, whole

    sources = [whole(index)]
    if fuse:
        sources.append(text_layer(index))
    sources += [whole(Index.open(folder)) for folder in others]
    shares = READER_AND_TEXT if weights is None and not others else parse_weights(weights)
    return fused_search(sources, query, k, shares, method, filters)


def reranked(query: str, hits: Sequence[Hit], model: str, depth: int) -> Sequence[Hit]:
    """The first ``depth`` hits by late interaction; what is below them is left out."""
    from vsplade.evaluate.late_interaction import LONGEST_EDGE, ColModernVbert
    from vsplade.results.rerank import render_hits, rerank_hits

    loaded = ColModernVbert(model)
    return rerank_hits(query, hits[:depth], loaded, lambda chosen: render_hits(chosen, LONGEST_EDGE))


def parse_weights(text: str | None) -> tuple[float, ...] | None:
    """``0.7,0.3``; how many there are and what they sum to is checked where they are used."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"Cannot read --weights {text!r}: write numbers, as in 0.7,0.3.") from error


def hit_json(hit: Hit, with_snippet: bool = False) -> dict[str, object]:
    from vsplade.results.fused import FusedHit

    return {
        **({"snippet": _snippet_or_none(hit)} if with_snippet else {}),
        **({"parts": list(hit.parts)} if isinstance(hit, FusedHit) else {}),
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


def _snippet_or_none(hit: Hit) -> str | None:
    try:
        return hit.snippet()
    except VspladeError:
        return None


def describe(rank: int, hit: Hit, query: str, asked: Set[int], vocabulary: Vocabulary) -> str:
    """A result on two lines: where it is, and which of the query's words it holds."""
    path = str(hit.metadata.get("path", hit.doc_id))
    place = linked(style(short_path(path), bold=True), path)
    head = f"{rank:>3}. {place}, page {hit.page_num}"
    words = highlight(query, asked, hit.explain(), vocabulary)
    return f"{head}  {style(f'{hit.score:.3f}', fg='cyan')}\n     {words}"


def highlight(query: str, asked: Set[int], matches: Sequence[TermMatch], vocabulary: Vocabulary) -> str:
    """The query's words: those on the page in bold with what they added, the others dimmed in brackets.

    Words are what people typed; a word of several pieces shows the sum of its pieces, where it comes first.
    A word that is not ``asked`` for (``the``, beside others) is dimmed only: the page may well hold it.
    """
    from vsplade.encode.paired import PairedVocabulary
    from vsplade.encode.reader import ReaderVocabulary
    from vsplade.encode.tokenizer import Tokenizer

    # Of an index with text layers, the words are those of its first half.
    words = vocabulary.first if isinstance(vocabulary, PairedVocabulary) else vocabulary
    left = {match.term: match for match in matches if match.term < len(words)}
    on_page = set(left)
    in_text = {match.term - len(words) for match in matches if match.term >= len(words)}
    shown = []
    for typed in query.split():
        word = printable(typed)
        # A vocabulary that is not ours splits words in its own way: then only the terms can be shown.
        pieces = set(words.encode(typed)) if isinstance(words, Tokenizer | ReaderVocabulary) else set()
        found = [left.pop(term).product for term in pieces if term in left]
        if found:
            shown.append(f"{style(word, bold=True, fg='green')} {sum(found):.2f}")
        elif pieces & in_text:
            shown.append(f"{style(word, bold=True, fg='green')} (text layer)")
        elif pieces & on_page:
            shown.append(style(word, bold=True, fg="green"))
        elif pieces and not pieces & asked:
            shown.append(style(word, dim=True))
        elif pieces:
            shown.append(style(f"[{word}]", dim=True))
    related = [f"{printable(match.token)} {match.product:.2f}" for match in left.values()]
    return "  ".join([*shown, *(["also:"] if shown and related else []), *related])


def explanation(matches: Sequence[TermMatch]) -> str:
    """One line a term, with a bar; the products add up to the score."""
    longest = max((match.product for match in matches), default=0.0)
    lines = []
    for match in matches:
        bar = "█" * max(1, round(BAR * match.product / longest))
        arithmetic = f"{match.query_weight:.3f} × {match.page_weight:.3f} = {match.product:.3f}"
        lines.append(f"     {printable(match.token):<20} {arithmetic}  {bar}")
    return "\n".join(lines)


COMMANDS = (search,)
