"""Hits on a terminal and as JSON: what ``vsplade search`` prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsplade.cli.common import linked, note, printable, say, short_path, style
from vsplade.cli.outputs import check_no_source, write_picture
from vsplade.errors import InputError, VspladeError

if TYPE_CHECKING:
    from vsplade.search.hits import Hit
    from vsplade.search.page_index import PageIndex
    from vsplade.store.damage import Damage
    from vsplade.types import QueryWord, TermMatch

BAR = 40
"""Characters of the longest bar of ``--explain``."""


def document(
    index: PageIndex,
    query: str,
    filters: Sequence[str],
    hits: Sequence[Hit],
    snippets: bool,
    damage: Damage | None,
) -> dict[str, object]:
    """What ``--json`` prints."""
    from vsplade.search.summary import words_json

    return {
        "query": query,
        "notes": index.notes(query),
        "words": words_json(index.look_up(query, filters)),
        "damaged": damage.to_json() if damage else None,
        "hits": [hit_json(hit, snippets) for hit in hits],
    }


@dataclass(frozen=True)
class Shown:
    """What a search was told, as far as its output depends on it."""

    filters: tuple[str, ...]
    min_score: float
    words_only: bool
    explain: bool
    snippets: bool


def print_hits(index: PageIndex, query: str, hits: Sequence[Hit], told: Shown) -> None:
    from vsplade.search.summary import what_is_missing

    for sentence in index.notes(query):
        note(printable(sentence))
    words = index.look_up(query, told.filters) if hits else []
    if missing := what_is_missing(index, query, words, told.words_only):
        say(printable(missing))
    terms, pieces = set(index.encode_query(query).terms.tolist()), index.query_words(query)
    for rank, hit in enumerate(hits, 1):
        say(describe(rank, hit, pieces, terms))
        if told.snippets and (line := snippet_line(hit)):
            say(f"     {line}")
        if told.explain:
            say(explanation(hit.explain()))
    if not hits:
        note(why_nothing(index, query, told))


def show_marked(hits: Sequence[Hit], picture: Path | None, in_viewer: bool) -> None:
    """The best hit's page with its words marked: in a file, and in the system's viewer where asked for."""
    if not hits:
        return
    if picture and picture_format(picture) is None:
        raise InputError(f"{picture}: a picture cannot be written under this ending; use .png or .jpg.")
    image = hits[0].image(marked=True)
    target = picture
    if target is not None:
        check_no_source(target, [path for hit in hits if isinstance(path := hit.metadata.get("path"), str)])
    else:
        import tempfile

        # Kept: the viewer reads it after this command has ended.
        handle, name = tempfile.mkstemp(prefix="vsplade-", suffix=".png")
        os.close(handle)
        target = Path(name)
    write_picture(image, target)
    note(f"Wrote {printable(str(target))}.")
    if in_viewer and (not _has_screen() or click.launch(str(target))):
        note("No viewer could be started; open the picture yourself.")


def _has_screen() -> bool:
    """Where there is none, what opens files on a desktop only complains, and after this command has ended."""
    return sys.platform in ("win32", "darwin") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def picture_format(target: Path) -> str | None:
    from PIL import Image

    kind = Image.registered_extensions().get(target.suffix.lower())
    return kind if kind in Image.SAVE else None


def snippet_line(hit: Hit) -> str:
    """The words around the best place, the query's in bold; empty where the file cannot be read now."""
    try:
        snippet = hit.view().snippet()
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


def why_nothing(index: PageIndex, query: str, told: Shown) -> str:
    """What to do about a search without results."""
    from vsplade.search import summary

    said = printable(summary.why_nothing(index, query, told.filters, told.min_score))
    if not index.pages:
        return f"{said} Add some: vsplade index PATH --index {printable(str(index.places[0]))}"
    return f"{said} What was indexed is told by: vsplade stats" if said.startswith("Nothing") else said


def hit_json(hit: Hit, with_snippet: bool = False) -> dict[str, object]:
    from vsplade.search.fused_search import FusedHit
    from vsplade.search.summary import matches_json, words_json

    return {
        **({"snippet": _snippet_or_none(hit)} if with_snippet else {}),
        **({"parts": list(hit.parts)} if isinstance(hit, FusedHit) else {}),
        "id": hit.id,
        "score": hit.score,
        "doc_id": hit.doc_id,
        "page_num": hit.page_num,
        "metadata": dict(hit.metadata),
        "matches": matches_json(hit.explain()),
        "words": words_json(hit.words),
    }


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
