"""``vsplade inspect``: what an encoder sees on a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsplade.cli.common import (
    SOME_FAILED,
    encoder_option,
    json_option,
    note,
    note_failures,
    password_options,
    print_json,
    printable,
    say,
    short_path,
    style,
)
from vsplade.cli.outputs import check_no_source, write_picture
from vsplade.errors import InputError

if TYPE_CHECKING:
    from vsplade.types import Box, Encoder, Page, SparseVector

BAR = 30
EXPANSIONS = 12
"""Words that are shown of those that a page means without holding them."""
PICTURE_EDGE = 1600
"""Pixels of the longest edge of a picture with boxes: enough to read small print on a screen."""
BOX_COLOUR = (214, 40, 40)
LINE = 2
"""Pixels of a box's line, which is drawn around the box: inside it would cover the first letter."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--page", "number", type=click.IntRange(min=1), help="Only this page, counted from 1.")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Terms a page.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT.png",
    help="Draw the page, with a box around each of these terms. Of a file with several pages, choose one "
    "by --page.",
)
@encoder_option
@password_options
@json_option
def inspect(
    file: Path, number: int | None, top: int, picture: Path | None, encoder: str | None, as_json: bool
) -> int:
    """Show the terms of each page of FILE, best first.

    With their weights; the order is what a term is worth in a search.
    """
    from vsplade.encode import load_encoder
    from vsplade.pages import FileProblem, discover, name_files, render, usable

    chosen = load_encoder(encoder)
    found = discover([file])
    if found.problems:
        raise InputError(f"{file} {found.problems[0].reason}.")
    if picture:
        _check_picture(chosen, found.files, picture)
    shown, problems = [], list[FileProblem]()
    before = frozenset(range(1, number or 1))
    files = [replace(source, skip=before) for source in name_files(found.files)]
    for result in usable(render(files, chosen.longest_edge), problems.append):
        if number is None or result.page.number == number:
            shown.append(_show(result.page, chosen, top, as_json))
            if picture:
                _draw(result.page, chosen, top, picture, several=result.pages > 1 and number is None)
            if number is not None and len(files) == 1:
                break
    note_failures(problems)
    if not shown and not problems:
        raise InputError(f"{file} has no page {number}.")
    if as_json:
        print_json({"file": str(file), "encoder": chosen.name, "pages": shown, "failed": len(problems)})
    return SOME_FAILED if problems else 0


def _show(page: Page, encoder: Encoder, top: int, quiet: bool) -> dict[str, object]:
    """Encode one page, print it unless the caller collects JSON, and return it as JSON."""
    from vsplade.types import MeaningEncoder, shown

    (vector,) = encoder.encode_pages([page])
    about = encoder.expansions(vector, EXPANSIONS) if isinstance(encoder, MeaningEncoder) else []
    terms = [
        (shown(encoder.vocabulary, term), weight, worth)
        for term, weight, worth in most_useful(vector, encoder, top)
    ]
    if not quiet:
        say(f"{style(short_path(page.path), bold=True)}, page {page.number}: {len(vector):,} terms")
        for token, weight, worth in terms:
            say(f"  {printable(token):<20} {weight:7.3f}  {'█' * max(1, round(BAR * worth / terms[0][2]))}")
        if about:
            say(f"  not on the page, but meant: {printable(', '.join(word for word, _ in about))}")
        if not terms:
            note(_why_empty(page, encoder))
    return {
        "id": page.id,
        "page_num": page.number,
        "active_terms": len(vector),
        "terms": [{"token": token, "weight": weight, "worth": worth} for token, weight, worth in terms],
        "expansions": [{"token": word, "weight": weight} for word, weight in about],
    }


def most_useful(vector: SparseVector, encoder: Encoder, top: int) -> list[tuple[int, float, float]]:
    """The ``top`` terms that are worth most in a search: number, page weight, and what a query adds to it.

    An encoder that does not know its query weights beforehand (BM25's idf needs an index) has its heaviest.
    """
    from vsplade.types import WeighingEncoder

    worth = vector.weights
    if isinstance(encoder, WeighingEncoder):
        worth = worth * encoder.query_weights[vector.terms]
    rows = zip(vector.terms.tolist(), vector.weights.tolist(), worth.tolist(), strict=True)
    return sorted(rows, key=lambda row: (-row[2], row[0]))[:top]


def _why_empty(page: Page, encoder: Encoder) -> str:
    if encoder.longest_edge == 0 and not (page.text or "").strip():
        return "  This page has no text layer, and this encoder reads nothing else."
    return "  Nothing was read on this page."


def _check_picture(encoder: Encoder, files: list[str], target: Path) -> None:
    from PIL import Image

    from vsplade.types import PlacingEncoder

    if not isinstance(encoder, PlacingEncoder):
        raise InputError(
            f"The encoder {encoder.name!r} does not tell places on the page, so no picture can be drawn. "
            "Leave --picture out, or choose an encoder that reads pixels."
        )
    if len(files) != 1:
        raise InputError("--picture draws one page: give one file.")
    check_no_source(target, files)
    if Image.registered_extensions().get(target.suffix.lower()) not in Image.SAVE:
        raise InputError(f"{target}: a picture cannot be written under this ending; use .png or .jpg.")


def _draw(page: Page, encoder: Encoder, top: int, target: Path, several: bool) -> None:
    from vsplade.types import PlacingEncoder, shown

    if several:
        raise InputError("--picture draws one page of a file with several: choose it by --page N.")
    if not isinstance(encoder, PlacingEncoder):
        raise InputError(f"The encoder {encoder.name!r} does not tell places on the page.")
    vector, boxes = encoder.encode_with_places(page)
    wanted = {term for term, _, _ in most_useful(vector, encoder, top)}
    named = [
        (shown(encoder.vocabulary, term), box)
        for term, box in zip(vector.terms.tolist(), boxes, strict=True)
        if term in wanted
    ]
    draw_boxes(page, named, target)
    note(f"Wrote {printable(str(target))}.")


def draw_boxes(page: Page, named: list[tuple[str, Box]], target: Path) -> None:
    """The page with a labelled box for each term."""
    from PIL import ImageDraw

    from vsplade.pages import fit

    image = fit(page.image, PICTURE_EDGE).convert("RGB")
    pen = ImageDraw.Draw(image)
    for token, box in named:
        corners = (
            box.left * image.width - LINE,
            box.top * image.height - LINE,
            box.right * image.width + LINE,
            box.bottom * image.height + LINE,
        )
        pen.rectangle(corners, outline=BOX_COLOUR, width=LINE)
        pen.text((corners[0] + 1, max(0, corners[1] - 11)), token, fill=BOX_COLOUR)
    write_picture(image, target)


COMMANDS = (inspect,)
