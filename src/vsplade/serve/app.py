"""The routes of the server, over Starlette; ``gate`` stands before them."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import resources

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, Router

import vsplade
from vsplade.errors import VspladeError
from vsplade.search.summary import matches_json
from vsplade.serve import openapi
from vsplade.serve.documents import DocumentRoutes
from vsplade.serve.gate import COMMON_HEADERS, COOKIE, PAGE_POLICY, SESSION_SECONDS, App, Gate
from vsplade.serve.jobs import JobStore
from vsplade.serve.library import Library
from vsplade.serve.metrics import Metrics
from vsplade.serve.pages import PageRoutes
from vsplade.serve.request_body import json_body, parameters, truth
from vsplade.serve.request_errors import RequestError, bad_request, disk_full, error_body, from_vsplade
from vsplade.serve.search_request import checked_filter, parse_body, parse_query_string
from vsplade.serve.search_route import Answers
from vsplade.serve.settings import Settings

REFRESH_SECONDS = 0.25
"""How often a worker looks for a new commit."""
NOT_READY = "The index cannot be searched yet. The server's log says why."
_SCRIPTS = ("app.js", "api.js", "dom.js", "library.js", "viewer.js")
STATIC = {**dict.fromkeys(_SCRIPTS, "text/javascript"), "style.css": "text/css", "icon.svg": "image/svg+xml"}
_JSON = "application/json"
_WORDS = {
    404: ("not_found", "There is nothing at this address."),
    405: ("wrong_method", "Not with this method."),
}


class Server:
    """One worker's share of a server."""

    def __init__(self, settings: Settings, worker: int = 0) -> None:
        self.settings = settings
        self.metrics = Metrics(settings.metrics, worker)
        self.library = Library(settings)
        self.jobs = JobStore(settings.uploads)
        self.answers = Answers(self.library, settings.limits)
        self.documents = DocumentRoutes(settings, self.library, self.jobs)
        self.pages = PageRoutes(self.library, self.answers, settings.limits)

    def app(self) -> App:
        kinds = (HTTPException, RequestError, VspladeError, ClientDisconnect, Exception)
        handlers = {**dict.fromkeys(kinds, _error), OSError: _system_error}
        routes = Starlette(routes=self._routes(), lifespan=self._lifespan, exception_handlers=handlers)
        routes.router.redirect_slashes = False
        self._gate = Gate(routes, self.settings, self.metrics, self.answers.quick)
        return self._gate

    def _routes(self) -> list[Route | Mount]:
        get, post = ["GET"], ["POST"]
        v1 = [
            Route("/search", self.search, methods=["GET", "POST"]),
            Route("/explain", self.explain, methods=get),
            Route("/status", self.status, methods=get),
            Route("/facets", self.facets, methods=get),
            Route("/session", self.session, methods=["POST", "DELETE"]),
            Route("/embed_sparse", self.embed_sparse, methods=post),
            *self.documents.routes(),
            *self.pages.routes(),
        ]
        return [
            Route("/", self.page, methods=get),
            Route("/static/{name}", self.static, methods=get),
            Route("/favicon.ico", self.favicon, methods=get),
            Route("/health", self.health, methods=get),
            Route("/ready", self.readiness, methods=get),
            Route("/metrics", self.prometheus, methods=get),
            Route("/openapi.json", self.description, methods=get),
            Route("/embed_sparse", self.embed_sparse, methods=post),
            Mount("/v1", Router(routes=v1, redirect_slashes=False)),
        ]

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._warm_up()), asyncio.create_task(self._follow())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await asyncio.to_thread(self.library.close)

    async def _warm_up(self) -> None:
        while not self.library.ready:
            await self._try(self.library.warm_up)

    async def _follow(self) -> None:
        """To every new commit, also while the search is still being compiled: that may take a minute."""
        while True:
            await self._try(self.library.refresh)
            await asyncio.sleep(REFRESH_SECONDS)

    async def _try(self, work: Callable[[], None]) -> None:
        """An index that cannot be read now may be readable later."""
        library = self.library
        try:
            await asyncio.to_thread(work)
            if library.ready:
                library.trouble = None
        except Exception as error:  # whatever it is, the next try may go well
            if str(error) != library.trouble:  # told once, not at every try
                library.trouble = str(error)
                print(f"vsplade serve: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(2)

    # -- search -----------------------------------------------------------------------------------------

    async def search(self, request: Request) -> Response:
        limits = self.settings.limits
        if request.method == "GET":
            asked = parse_query_string(request.scope["query_string"], limits)
            work = partial(self.answers.answer, asked)
        else:
            body = await json_body(request, limits.request_bytes)
            many = parse_body(body, limits)
            one = "query" in body
            work = partial(self.answers.answer, many[0]) if one else partial(self.answers.answer_many, many)
        return Response(await self.library.run(work), media_type=_JSON, headers={"cache-control": "no-store"})

    async def explain(self, request: Request) -> Response:
        known = {"q": "", "id": "", "fuse": "false", "words_only": "false"}
        limits = self.settings.limits
        given = parameters(request, known, required=("q", "id"), limits=limits, several=["filter"])
        fuse, words_only = (truth(name, given[name]) for name in ("fuse", "words_only"))
        filters = checked_filter(request.query_params.getlist("filter"))
        work = partial(self.answers.matches, given["q"], given["id"], fuse, words_only, filters)
        found = await self.library.run(work)
        score = sum(match.product for match in found)
        return JSONResponse(
            {"query": given["q"], "id": given["id"], "score": score, "matches": matches_json(found)}
        )

    async def embed_sparse(self, request: Request) -> Response:
        """As text-embeddings-inference does it: query texts to weights of terms."""
        body = await json_body(request, self.settings.limits.request_bytes)
        # What else that server takes has no meaning here, but must be well-formed.
        others = {"truncate": bool, "truncation_direction": str, "prompt_name": str}
        wrong = any(not isinstance(value, others.get(name, object)) for name, value in body.items())
        unknown = set(body) - {"inputs", *others} or wrong
        inputs = body.get("inputs")
        texts = [inputs] if isinstance(inputs, str) else inputs
        limits = self.settings.limits
        if unknown or not isinstance(texts, list) or not 1 <= len(texts) <= limits.batch:
            raise bad_request(f"Give `inputs`: a text, or a list of 1 to {limits.batch} texts.")
        if not all(isinstance(text, str) and 0 < len(text) <= limits.query_chars for text in texts):
            raise bad_request(f"Each of `inputs` is a text of 1 to {limits.query_chars} characters.")
        index = self.library.index
        vectors = await self.library.run(lambda: [index.encode_query(text) for text in texts])
        pairs = [zip(vector.terms.tolist(), vector.weights.tolist(), strict=True) for vector in vectors]
        return JSONResponse([[{"index": term, "value": weight} for term, weight in each] for each in pairs])

    # -- the index at a glance --------------------------------------------------------------------------

    async def status(self, request: Request) -> Response:
        return JSONResponse(await self.library.run(self._status))

    def _status(self) -> dict[str, object]:
        library, index = self.library, self.library.index
        jobs = self.jobs.all()
        return {
            "version": vsplade.__version__,
            "pages": index.pages,
            "documents": len(library.contents()[0]),
            "bytes": library.bytes,
            "generation": index.generation,
            "encoder": index.identity.name,
            "fusable": library.fusable,
            "by_meaning": library.by_meaning,
            "read_only": self.settings.read_only,
            "needs_key": bool(self.settings.keys),
            "adds_paths": bool(self.settings.roots) and not self.settings.read_only,
            "jobs": {
                "queued": sum(job.state == "queued" for job in jobs),
                "running": sum(job.state == "running" for job in jobs),
            },
            "problems": len(self.documents.problems()),
            "damaged": library.damage,
            "limits": {"upload_bytes": self.settings.limits.upload_bytes, "k": self.settings.limits.k},
        }

    async def facets(self, request: Request) -> Response:
        return JSONResponse({"facets": (await self.library.run(self.library.contents))[1]})

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readiness(self, request: Request) -> Response:
        if not self.library.ready:
            message = "The server is warming up." if not self.library.trouble else NOT_READY
            raise RequestError(503, "starting", message, 1)
        return JSONResponse({"status": "ready"})

    async def prometheus(self, request: Request) -> Response:
        index = self.library.index
        gauges = {
            "index_pages": index.pages,
            "index_pages_out_of_reach": index.damage.pages if index.damage else 0,
            "index_generation": index.generation,
            "jobs_waiting": await self.library.run(self.jobs.waiting),
        }
        return PlainTextResponse(self.metrics.text(gauges), media_type="text/plain; version=0.0.4")

    async def description(self, request: Request) -> Response:
        return JSONResponse(openapi.describe(self.settings))

    # -- the page ---------------------------------------------------------------------------------------

    async def session(self, request: Request) -> Response:
        """The key as a cookie, for the page: pictures cannot carry a header."""
        answer = Response(status_code=204)
        if request.method == "DELETE":
            answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
            return answer
        body = await json_body(request, 4096)
        key = body.get("key")
        if not isinstance(key, str) or set(body) != {"key"}:
            raise bad_request('Give the key as {"key": "..."}.')
        given = key.encode("utf-8", "surrogatepass")
        if not self._gate.knows(given):
            await asyncio.sleep(0.5)  # guessing shall be slow
            raise RequestError(401, "wrong_key", "That is not a key of this server.")
        secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
        answer.set_cookie(
            COOKIE,
            self._gate.new_session(given),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=secure,
        )
        return answer

    async def page(self, request: Request) -> Response:
        return _file("index.html", "text/html")

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise HTTPException(404)
        return _file(name, STATIC[name])

    async def favicon(self, request: Request) -> Response:
        return _file("icon.svg", "image/svg+xml")


def _file(name: str, media_type: str) -> Response:
    content = (resources.files("vsplade.serve") / "static" / name).read_bytes()
    headers = {header.decode(): value.decode() for header, value in (*COMMON_HEADERS, PAGE_POLICY)}
    return Response(content, media_type=media_type, headers={**headers, "cache-control": "no-cache"})


async def _error(request: Request, error: Exception) -> Response:
    """Whatever a route raises, as JSON."""
    if isinstance(error, HTTPException):
        code, message = _WORDS.get(error.status_code, ("failed", error.detail))
        return Response(error_body(code, message), error.status_code, dict(error.headers or {}), _JSON)
    if isinstance(error, VspladeError):
        print(f"vsplade serve: {type(error).__name__}: {error}", flush=True)
        error = from_vsplade(error)
    elif isinstance(error, ClientDisconnect):
        error = RequestError(400, "gone", "The client left before its request was whole.")
    elif not isinstance(error, RequestError):
        error = RequestError(500, "bug", "The server failed on this request; its log has the trace.")
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    return Response(error.body(), error.status, headers, _JSON)


async def _system_error(request: Request, error: Exception) -> Response:
    """A full disk is nobody's bug; whatever else the system refuses goes the way of other errors."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        print(f"vsplade serve: {error}", flush=True)
        return await _error(request, disk_full())
    raise error


def create_app(settings: Settings, worker: int = 0) -> App:
    """An ASGI application: for ``vsplade serve``, and for whoever runs an ASGI server of their own."""
    os.makedirs(settings.uploads, exist_ok=True)
    JobStore(settings.uploads).prepare()
    return Server(settings, worker).app()
