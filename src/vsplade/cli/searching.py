"""``vsplade search``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence, Set
from dataclasses import dataclass
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
    from vsplade.search.index import Index
    from vsplade.types import Hit, QueryWord, TermMatch, WordMatch

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
    hidden=True,
    help="Let the TERMS terms that matter most of each page propose results (the paper: 50), rescore them. "
    "Not exact, and no faster than the exact search: for the paper's table.",
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
    "--min-score",
    type=click.FloatRange(min=0.0),
    default=0.0,
    metavar="SCORE",
    help="Leave out hits with a lower score.",
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
@click.option(
    "--words-only",
    is_flag=True,
    help="Find pages by their words alone, and not by what they are about.",
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
    min_score: float,
    words_only: bool,
    open_best: bool,
    picture: Path | None,
    snippets: bool | None,
    explain: bool,
    encoder: str | None,
    as_json: bool,
) -> None:
    """Find the pages that answer QUERY, best first.

    "a phrase" and +word must stand on a page, -word must not; word* is any word with this beginning. Write
    -- before a query that begins with -.
    """
    from vsplade.encode import load_encoder
    from vsplade.search.index import Index

    index = Index.open(index_dir, encoder=load_encoder(encoder) if encoder else None)
    joined = Joined(fuse, fuse_with, weights, fusion)
    asked = Asked(query, filters, max(k, rerank_depth) if rerank else k, min_score, words_only)
    hits = find(index, asked, joined, two_stage)
    if rerank:
        hits = reranked(asked.query, hits, rerank, rerank_depth)[:k]
    if joined or rerank:
        hits = [hit for hit in hits if hit.score >= min_score]
    if picture or open_best:
        show_marked(hits, picture, open_best)
    if as_json:
        print_json(document(index, asked, hits, bool(snippets)))
    else:
        print_hits(index, asked, hits, explain, sys.stdout.isatty() if snippets is None else snippets)


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for."""

    query: str
    filters: tuple[str, ...]
    k: int
    min_score: float
    words_only: bool = False


@dataclass(frozen=True, slots=True)
class Joined:
    """Which rankings are joined, and how."""

    text_layers: bool
    others: tuple[Path, ...]
    weights: str | None
    method: str

    def __bool__(self) -> bool:
        return bool(self.text_layers or self.others)


def find(index: Index, asked: Asked, joined: Joined, two_stage: int | None) -> Sequence[Hit]:
    """The hits, by one search: exact, joined, or in two stages."""
    from vsplade.search.two_stage import TwoStage

    if joined:
        if two_stage:
            raise InputError("--two-stage and fusion cannot be combined: leave one of them out.")
        return fused_hits(index, asked, joined)
    if joined.weights is not None:
        raise InputError("--weights says how rankings are joined: give --fuse or --fuse-with too.")
    return index.search(
        asked.query,
        k=asked.k,
        filter=asked.filters,
        min_score=asked.min_score,
        two_stage=TwoStage(two_stage) if two_stage else None,
        words_only=asked.words_only,
    )


def document(index: Index, asked: Asked, hits: Sequence[Hit], snippets: bool) -> dict[str, object]:
    """What ``--json`` prints."""
    return {
        "query": asked.query,
        "notes": index.notes(asked.query),
        "words": [word_json(word) for word in index.look_up(asked.query, asked.filters)],
        "hits": [hit_json(hit, snippets) for hit in hits],
    }


def print_hits(index: Index, asked: Asked, hits: Sequence[Hit], explain: bool, snippets: bool) -> None:
    for sentence in index.notes(asked.query):
        note(printable(sentence))
    if hits and (missing := what_is_missing(index.look_up(asked.query, asked.filters))):
        say(missing)
    terms, pieces = set(index.encode_query(asked.query).terms.tolist()), index.query_words(asked.query)
    for rank, hit in enumerate(hits, 1):
        say(describe(rank, hit, pieces, terms))
        if snippets and (line := snippet_line(hit)):
            say(f"     {line}")
        if explain:
            say(explanation(hit.explain()))
    if not hits:
        note(why_nothing(index, asked.query, asked.filters))


def what_is_missing(words: Sequence[WordMatch]) -> str:
    """The words of the query that no page holds as a whole; empty where each is on some page."""
    from vsplade.types import FOUND

    missing = [f"'{printable(word.word)}'" for word in words if word.status != FOUND]
    if not missing:
        return ""
    if len(missing) == len(words):
        return (
            f"Nothing found: no page holds {' or '.join(missing)}. "
            "These are about something near, or hold similar words or parts of them:"
        )
    return f"No page holds {' or '.join(missing)}. Pages with the other words:"


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
    note(f"Wrote {printable(str(target))}.")
    if in_viewer and click.launch(str(target)):
        note("No viewer could be started; open the picture yourself.")


def picture_format(target: Path) -> str | None:
    from PIL import Image

    kind = Image.registered_extensions().get(target.suffix.lower())
    return kind if kind in Image.SAVE else None


def snippet_line(hit: Hit) -> str:
    """The words around the best place, the query's in bold; empty where the file cannot be read now."""
    from vsplade.search.page_view import look_at

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


def fused_hits(index: Index, asked: Asked, joined: Joined) -> Sequence[Hit]:
    """The index, its text layers where asked for, and other indexes, as one ranking."""
    from vsplade.search.fused_search import READER_AND_TEXT, fused_search, text_layer, whole
    from vsplade.search.index import Index

    sources = [whole(index)]
    if joined.text_layers:
        sources.append(text_layer(index))
    sources += [whole(Index.open(folder)) for folder in joined.others]
    known = joined.weights is None and not joined.others
    shares = READER_AND_TEXT if known else parse_weights(joined.weights)
    return fused_search(sources, asked.query, asked.k, shares, joined.method, asked.filters)


def reranked(query: str, hits: Sequence[Hit], model: str, depth: int) -> Sequence[Hit]:
    """The first ``depth`` hits by late interaction; what is below them is left out."""
    from vsplade.evaluate.late_interaction import LONGEST_EDGE, ColModernVbert
    from vsplade.search.rerank import render_hits, rerank_hits
    from vsplade.search.syntax import parse

    loaded = ColModernVbert(model)
    text = parse(query).text
    return rerank_hits(text, hits[:depth], loaded, lambda chosen: render_hits(chosen, LONGEST_EDGE))


def parse_weights(text: str | None) -> tuple[float, ...] | None:
    """``0.7,0.3``; how many there are and what they sum to is checked where they are used."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"Cannot read --weights {text!r}: write numbers, as in 0.7,0.3.") from error


def hit_json(hit: Hit, with_snippet: bool = False) -> dict[str, object]:
    from vsplade.search.fused_search import FusedHit

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
                "in_part": match.in_part,
                **({"meant_by": {word: list(by) for word, by in match.meant_by}} if match.meant_by else {}),
            }
            for match in hit.explain()
        ],
        "words": [word_json(word) for word in hit.words],
    }


def word_json(word: WordMatch) -> dict[str, str]:
    return {"word": word.word, "status": word.status}


def _snippet_or_none(hit: Hit) -> str | None:
    try:
        return hit.snippet()
    except VspladeError:
        return None


def describe(rank: int, hit: Hit, words: Sequence[QueryWord], asked: Set[int]) -> str:
    """A result on two lines: where it is, and which of the query's words it holds."""
    path = str(hit.metadata.get("path", hit.doc_id))
    place = linked(style(short_path(path), bold=True), path)
    head = f"{rank:>3}. {place}, page {hit.page_num}"
    shown = highlight(words, [word.status for word in hit.words], asked, hit.explain())
    return f"{head}  {style(f'{hit.score:.3f}', fg='cyan')}\n     {shown}"


def highlight(
    words: Sequence[QueryWord], statuses: Sequence[str], asked: Set[int], matches: Sequence[TermMatch]
) -> str:
    """The query's words: those on the page in bold with what they added, those of which it holds only parts
    marked so, the others dimmed in brackets.

    Words are what people typed; a word of several pieces shows the sum of its pieces, where it comes first.
    A word that is not ``asked`` for (``the``, beside others) is dimmed only: the page may well hold it. Of an
    encoder that knows no words, only the terms can be shown.
    """
    from vsplade.types import FOUND, IN_PART

    left = {match.term: match for match in matches}
    shown = []
    for word, status in zip(words, statuses, strict=False):
        typed = printable(word.typed)
        added = [left.pop(term).product for term in word.terms if term in left]
        amount = f" {sum(added):.2f}" if added else ""
        if status == FOUND:
            shown.append(style(typed, bold=True, fg="green") + amount)
        elif not word.terms & asked:
            shown.append(style(typed, dim=True))
        elif status == IN_PART:
            shown.append(style(f"{typed} (in part)", fg="yellow") + amount)
        else:
            shown.append(style(f"[{typed}]", dim=True))
    related = [
        f"{printable(match.token)}{' (in part)' if match.in_part else ''} {match.product:.2f}"
        for match in left.values()
    ]
    return "  ".join([*shown, *(["also:"] if shown and related else []), *related])


def what_was_meant(match: TermMatch) -> list[str]:
    """``bellyache, meant by: abdominal, pain``, for each word that the page does not hold."""
    return [f"{printable(word)}, meant by: {printable(', '.join(by))}" for word, by in match.meant_by]


def explanation(matches: Sequence[TermMatch]) -> str:
    """One line a term, with a bar; the products add up to the score."""
    longest = max((match.product for match in matches), default=0.0)
    lines = []
    for match in matches:
        bar = "█" * max(1, round(BAR * match.product / longest))
        arithmetic = f"{match.query_weight:.3f} × {match.page_weight:.3f} = {match.product:.3f}"
        part = "  (in part)" if match.in_part else ""
        lines.append(f"     {printable(match.token):<20} {arithmetic}  {bar}{part}")
        lines += [f"       {meant}" for meant in what_was_meant(match)]
    return "\n".join(lines)


COMMANDS = (search,)
