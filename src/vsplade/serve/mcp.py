"""``vsplade mcp``: an index for assistants, by the Model Context Protocol over standard input and output."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from vsplade.errors import InputError, MissingExtraError, VspladeError

try:
    from mcp.server.mcpserver import Image, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from pydantic import Field
except ModuleNotFoundError as error:
    raise MissingExtraError("vsplade mcp", "mcp") from error

from vsplade.backends.address import Where
from vsplade.search.open_index import open_index
from vsplade.search.page_index import PageIndex
from vsplade.search.page_view import draw_marks, place_of, shared_page_views
from vsplade.search.summary import summarise, word_facts

Tool = TypeVar("Tool", bound=Callable[..., Any])
MOST_HITS = 50
IMAGE_EDGE = 1400


def make_server(index_dir: Where) -> MCPServer:
    """Tools over one index: search, the text of a page, the picture of a page."""
    index = open_index(index_dir)
    server = MCPServer(
        "vsplade",
        instructions="Search scanned pages, slides and PDFs. `search` finds pages by the words on them; "
        "read a page with `page_text`, look at it with `page_image`.",
    )

    def tool(function: Tool) -> Tool:
        # As Python has it, a docstring is indented: assistants would be told the spaces too.
        return server.tool(description=inspect.getdoc(function))(function)

    @tool
    def search(
        query: Annotated[
            str, Field(description="Words that stand on the page", min_length=1, max_length=1000)
        ],
        k: Annotated[int, Field(description="How many pages", ge=1, le=MOST_HITS)] = 10,
        filters: Annotated[
            list[str] | None, Field(description="Conditions on metadata, as year>=2020 or kind=report")
        ] = None,
        words_only: Annotated[
            bool, Field(description="By the words alone: no pages that say the same in other words")
        ] = False,
    ) -> dict[str, Any]:
        """Find pages by words, best first, with the words around the best place.

        `words` tells of each word of the query whether any page holds it (found, in part, not found), and on
        each page whether that page does. `message` says so where words or pages are missing; `damaged` says
        which pages no search finds until the index is repaired.
        """
        return _search(index, query, k, filters, words_only)

    @tool
    def page_text(page_id: Annotated[str, Field(description="As search gives it")]) -> str:
        """All words of a page: its text layer, or what was read from its picture."""
        with _as_tool_error():
            words, _ = shared_page_views().words(*_place(index, page_id))
        return " ".join(word.text for word in words)

    @tool
    def page_image(
        page_id: Annotated[str, Field(description="As search gives it")],
        query: Annotated[str, Field(description="Words to mark on the page", max_length=1000)] = "",
    ) -> Image:
        """A page as a picture, with the query's words marked if one is given."""
        with _as_tool_error():
            place = _place(index, page_id)
            image = shared_page_views().image(*place, IMAGE_EDGE)
            if query:
                marks = shared_page_views().view(*place, index.explain(query, page_id)).marks
                image = draw_marks(image, [mark.box for mark in marks])
        buffer = io.BytesIO()
        image.convert("RGB").save(buffer, "JPEG", quality=85)
        return Image(data=buffer.getvalue(), format="jpeg")

    return server


def _search(
    index: PageIndex, query: str, k: int, filters: list[str] | None, words_only: bool
) -> dict[str, Any]:
    index.refresh()
    with _as_tool_error():
        hits = index.search(query, k, filters, words_only=words_only)
        said = summarise(index, query, hits, filters, words_only)
    return {
        "message": said.message,
        "damaged": index.damage.to_json() if index.damage else None,
        "notes": list(said.notes),
        "words": {word.word: word.status for word in said.words},
        "pages": [
            {
                "page_id": hit.id,
                "document": hit.doc_id,
                "page": hit.page_num,
                "score": round(hit.score, 4),
                "snippet": _snippet(hit),
                **word_facts(hit),
                "metadata": dict(hit.metadata),
            }
            for hit in hits
        ],
    }


@contextmanager
def _as_tool_error() -> Iterator[None]:
    """The assistant gets our own words; of other errors it would learn nothing."""
    try:
        yield
    except VspladeError as error:
        raise ToolError(str(error)) from error


def _snippet(hit: Any) -> str:
    try:
        text: str = hit.snippet()
    except VspladeError:
        return ""
    return text


def _place(index: PageIndex, page_id: str) -> tuple[str, int]:
    index.refresh()
    if page_id not in index:
        raise InputError(f"There is no page {page_id!r} in this index; `search` gives the ids.")
    return place_of(page_id, index.metadata(page_id))
