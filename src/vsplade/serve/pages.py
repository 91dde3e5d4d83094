"""Pages: their pictures, their words, and where those that were asked for stand."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from vsplade.search.page_view import EDGE, place_of
from vsplade.serve.library import Library
from vsplade.serve.pictures import LARGEST, SMALLEST, Pictures
from vsplade.serve.request_body import parameters, truth, whole_number
from vsplade.serve.search_route import Answers
from vsplade.serve.settings import ServeLimits
from vsplade.types import Box, Metadata

_DAY = "private, max-age=86400"
_SWITCHES = {"fuse": "false", "words_only": "false"}


class PageRoutes:
    def __init__(self, library: Library, answers: Answers, limits: ServeLimits) -> None:
        self._library = library
        self._answers = answers
        self._limits = limits
        self._pictures = Pictures(library)

    def routes(self) -> list[Route]:
        return [
            Route("/pages/{id:path}/image", self.image, methods=["GET"]),
            Route("/pages/{id:path}/thumbnail", self.thumbnail, methods=["GET"]),
            Route("/pages/{id:path}/places", self.places, methods=["GET"]),
            Route("/pages/{id:path}/text", self.text, methods=["GET"]),
            Route("/pages/{id:path}", self.page, methods=["GET"]),
        ]

    async def page(self, request: Request) -> Response:
        id = request.path_params["id"]
        parameters(request, {})
        metadata = await self._library.run(lambda: self._library.metadata(id))
        shown = self._library.shown(metadata)
        return JSONResponse({"id": id, "doc_id": metadata.get("doc_id", id), "metadata": shown})

    async def image(self, request: Request) -> Response:
        id = request.path_params["id"]
        given = parameters(request, {"edge": str(EDGE), "q": "", **_SWITCHES}, limits=self._limits)
        switches = [truth(name, given[name]) for name in _SWITCHES]
        edge = whole_number("edge", given["edge"], SMALLEST, LARGEST)

        def make() -> tuple[str, bytes]:
            metadata = self._library.metadata(id)
            if not given["q"]:
                return self._pictures.tag(id, metadata, edge), self._pictures.page(id, metadata, edge)
            matches = self._answers.matches(given["q"], id, switches[0], switches[1])
            tag = self._pictures.tag(
                id, metadata, edge, given["q"], *switches, self._library.index.generation
            )
            return tag, self._pictures.marked(id, metadata, edge, matches)

        return await self._picture(request, make)

    async def thumbnail(self, request: Request) -> Response:
        id = request.path_params["id"]
        parameters(request, {})

        def make() -> tuple[str, bytes]:
            metadata = self._library.metadata(id)
            return self._pictures.tag(id, metadata, "thumbnail"), self._pictures.thumbnail(id, metadata)

        return await self._picture(request, make)

    async def _picture(self, request: Request, make: Any) -> Response:
        tag, picture = await self._library.run(make)
        headers = {"etag": f'"{tag}"', "cache-control": _DAY}
        if f'"{tag}"' in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(picture, media_type="image/jpeg", headers=headers)

    async def places(self, request: Request) -> Response:
        """Where the words of a query stand, and the words around the best place."""
        id = request.path_params["id"]
        given = parameters(request, {"q": "", **_SWITCHES}, required=("q",), limits=self._limits)
        switches = [truth(name, given[name]) for name in _SWITCHES]

        def view() -> dict[str, Any]:
            matches = self._answers.matches(given["q"], id, switches[0], switches[1])
            view = self._library.views.view(*self._place(id), matches)
            snippet, best = view.snippet(), view.best_place()
            return {
                "id": id,
                "marks": [
                    {"text": m.text, "box": _sides(m.box), "weight": round(m.weight, 4)} for m in view.marks
                ],
                "snippet": {"text": snippet.text, "marks": [list(mark) for mark in snippet.marks]},
                "best": None if best is None else _sides(best),
                "text_layer": view.from_text_layer,
            }

        return JSONResponse(await self._library.run(view))

    async def text(self, request: Request) -> Response:
        id = request.path_params["id"]
        parameters(request, {})

        def read() -> dict[str, Any]:
            words, layer = self._library.views.words(*self._place(id))
            return {"id": id, "text": " ".join(word.text for word in words), "text_layer": layer}

        return JSONResponse(await self._library.run(read))

    def _place(self, id: str) -> tuple[str, int]:
        metadata: Metadata = self._library.metadata(id)
        return place_of(id, metadata)


def _sides(box: Box) -> list[float]:
    return [round(side, 5) for side in (box.left, box.top, box.right, box.bottom)]
