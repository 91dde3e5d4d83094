"""Documents and the jobs that add and remove them."""

from __future__ import annotations

import asyncio
import json
import math
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from vsplade.ingest import OWN_KEYS
from vsplade.pages.formats import HEAD, looks_like
from vsplade.pages.naming import suffix
from vsplade.search.contents import ListedDocument
from vsplade.serve.jobs import JobStore, StoredJob
from vsplade.serve.library import Library
from vsplade.serve.paths import MEDIA_TYPES, checked_name, checked_paths
from vsplade.serve.request_body import check_length, json_body, parameters, too_large, whole_number
from vsplade.serve.request_errors import RequestError, bad_request, not_found
from vsplade.serve.settings import Settings
from vsplade.types import Json

WAIT_SECONDS = 10.0
"""How long a removal waits for its job before it answers that the job is under way."""
MOST_METADATA = 32


class DocumentRoutes:
    def __init__(self, settings: Settings, library: Library, jobs: JobStore) -> None:
        self._settings = settings
        self._library = library
        self._jobs = jobs

    def routes(self) -> list[Route]:
        return [
            Route("/documents", self.list_documents, methods=["GET"]),
            Route("/documents", self.add_paths, methods=["POST"]),
            Route("/documents/{doc_id:path}/file", self.file, methods=["GET"]),
            Route("/documents/{doc_id:path}", self.one, methods=["GET"]),
            Route("/documents/{name:path}", self.upload, methods=["PUT"]),
            Route("/documents/{doc_id:path}", self.delete, methods=["DELETE"]),
            Route("/jobs", self.list_jobs, methods=["GET"]),
            Route("/jobs/{id}", self.job, methods=["GET"]),
            Route("/problems", self.list_problems, methods=["GET"]),
        ]

    # -- looking ----------------------------------------------------------------------------------------

    async def list_documents(self, request: Request) -> Response:
        given = parameters(request, {"offset": "0", "limit": "100", "name": ""})
        offset, limit = (
            whole_number("offset", given["offset"], 0, 10**9),
            whole_number("limit", given["limit"], 1, 1000),
        )
        found = (await self._library.run(self._library.contents))[0]
        wanted = given["name"].lower()
        chosen = [one for one in found.values() if wanted in one.name.lower()]
        shown = [self._shown(one) for one in chosen[offset : offset + limit]]
        return JSONResponse({"total": len(chosen), "documents": shown})

    def _shown(self, document: ListedDocument) -> dict[str, Any]:
        facts = asdict(document)
        if not self._settings.show_paths:
            del facts["path"]
        return facts

    async def _find(self, doc_id: str) -> ListedDocument:
        return await self._library.run(lambda: self._library.document(doc_id))

    async def one(self, request: Request) -> Response:
        document = await self._find(request.path_params["doc_id"])
        index = self._library.index
        ids = await self._library.run(lambda: self._page_ids(document))
        shown = self._shown(document)
        return JSONResponse({**shown, "page_ids": ids, "generation": index.generation})

    def _page_ids(self, document: ListedDocument) -> list[dict[str, Any]]:
        """In the order of the pages."""
        index = self._library.index
        found = list(index.ids({"doc_id": document.doc_id}))
        if not found and document.doc_id in index:
            found = [document.doc_id]
        numbered = [(int(facts.get("page_num") or 1), id) for id, facts in index.known(found).items()]
        return [{"page_num": number, "id": id} for number, id in sorted(numbered)]

    async def file(self, request: Request) -> Response:
        """The original, if it still is what its name says."""
        document = await self._find(request.path_params["doc_id"])
        path = document.path
        if path is None or not await self._library.run(lambda: _is_what_it_seems(path)):
            raise not_found("The file of this document is gone, or is not what it was.")
        kind = MEDIA_TYPES.get(suffix(path))
        where = "inline" if kind else "attachment"
        headers = {
            "content-disposition": f"{where}; filename*=UTF-8''{quote(document.name, safe='')}",
            "cache-control": "private, no-cache",
            # A PDF is shown by the browser's own viewer, which this policy must let work.
            "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; object-src 'self'; "
            "frame-ancestors 'none'" if kind == "application/pdf" else "default-src 'none'; sandbox",
        }  # fmt: skip
        return FileResponse(path, media_type=kind or "application/octet-stream", headers=headers)

    # -- jobs -------------------------------------------------------------------------------------------

    async def list_jobs(self, request: Request) -> Response:
        jobs = await self._library.run(self._jobs.all)
        return JSONResponse({"jobs": [_job_json(job) for job in reversed(jobs)][:100]})

    async def job(self, request: Request) -> Response:
        id = request.path_params["id"]
        job = await self._library.run(lambda: self._jobs.get(id))
        if job is None:
            raise not_found("There is no such job; finished ones are forgotten after a while.")
        if job.ended:
            # Who sees a job done shall find its pages.
            await self._library.run(lambda: self._library.refresh(always=True))
        return JSONResponse(_job_json(job))

    async def list_problems(self, request: Request) -> Response:
        return JSONResponse({"problems": await self._library.run(self.problems)})

    def problems(self) -> list[dict[str, Any]]:
        """Files and pages that could not be read at the last try, as the index and its jobs remember them."""
        found: dict[tuple[str, int | None], str] = {}
        for path, problems in self._library.index.state("problem:").items():
            for problem in problems if isinstance(problems, list) else []:
                if isinstance(problem, dict):
                    name = path.removeprefix("problem:")
                    shown = name if self._settings.show_paths else os.path.basename(name)
                    page = problem.get("page")
                    found[shown, page if isinstance(page, int) else None] = str(problem.get("reason"))
        return [{"name": name, "page": page, "reason": reason} for (name, page), reason in found.items()]

    def _check_may_change(self) -> None:
        if self._settings.read_only:
            raise RequestError(403, "read_only", "This server does not change its index.")

    def _check_queue(self) -> None:
        if self._jobs.waiting() >= self._settings.limits.jobs:
            raise RequestError(
                429, "too_many_jobs", "Too many jobs are waiting. Try again when some are done.", 5
            )

    # -- changing ---------------------------------------------------------------------------------------

    async def upload(self, request: Request) -> Response:
        """The file itself is the body; a file of the same name is replaced."""
        self._check_may_change()
        name = checked_name(request.path_params["name"])
        given = parameters(request, {"metadata": ""})
        metadata = checked_metadata(_parse_metadata(given["metadata"]))
        check_length(request, self._settings.limits.upload_bytes)
        await self._library.run(self._check_queue)
        id = self._jobs.new_id()
        waiting = self._jobs.incoming(id)
        try:
            await self._receive(request, waiting, name)
            job = await self._library.run(lambda: self._jobs.add("upload", id, name=name, metadata=metadata))
        except BaseException:
            waiting.unlink(missing_ok=True)
            raise
        return _accepted(job)

    async def _receive(self, request: Request, target: Path, name: str) -> None:
        most, size, head = self._settings.limits.upload_bytes, 0, b""
        checked = False
        with open(target, "xb") as stream:
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_large(most)
                if not checked:
                    head += part[: HEAD - len(head)]
                    if len(head) >= HEAD:
                        _check_content(head, name)
                        checked = True
                if part:
                    await asyncio.to_thread(stream.write, part)
        if not size:
            raise bad_request("The file is empty.")
        if not checked:
            _check_content(head, name)

    async def add_paths(self, request: Request) -> Response:
        self._check_may_change()
        body = await json_body(request, self._settings.limits.request_bytes)
        paths = body.get("paths")
        if set(body) - {"paths", "metadata"} or not isinstance(paths, list) or not 1 <= len(paths) <= 1000:
            raise bad_request("Give `paths`, a list of 1 to 1,000 texts, and perhaps `metadata`.")
        if not all(isinstance(path, str) and len(path) <= 4096 for path in paths):
            raise bad_request("Each of `paths` is a text of at most 4,096 characters.")
        metadata = checked_metadata(body.get("metadata", {}))
        roots = self._settings.roots
        checked = await self._library.run(lambda: checked_paths(paths, roots))
        await self._library.run(self._check_queue)
        job = await self._library.run(lambda: self._jobs.add("paths", paths=checked, metadata=metadata))
        return _accepted(job)

    async def delete(self, request: Request) -> Response:
        """Waits a little for the end; a long queue makes it an answer that the job is under way."""
        self._check_may_change()
        doc_id = request.path_params["doc_id"]
        await self._find(doc_id)
        await self._library.run(self._check_queue)
        job = await self._library.run(lambda: self._jobs.add("delete", name=doc_id))
        until = asyncio.get_running_loop().time() + WAIT_SECONDS
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.05)
            now = await self._library.run(lambda: self._jobs.get(job.id))
            if now is not None and now.ended:
                await self._library.run(lambda: self._library.refresh(always=True))
                return JSONResponse(_job_json(now))
        return _accepted(job)


def _accepted(job: StoredJob) -> Response:
    return JSONResponse(_job_json(job), 202, {"location": f"/v1/jobs/{job.id}"})


def _job_json(job: StoredJob) -> dict[str, Any]:
    """Without what is the server's own business."""
    facts = asdict(job)
    for name in ("paths", "attempts", "restarts"):
        del facts[name]
    return facts


def _check_content(head: bytes, name: str) -> None:
    if not looks_like(head, suffix(name)):
        raise RequestError(415, "not_what_it_says", f"The content is not that of a {suffix(name)} file.")


def _is_what_it_seems(path: str) -> bool:
    with suppress(OSError), open(path, "rb") as stream:
        return looks_like(stream.read(HEAD), suffix(path))
    return False


def _parse_metadata(text: str) -> Any:
    if not text:
        return {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_request("`metadata` is a JSON object.") from error


def checked_metadata(given: Any) -> dict[str, Json]:
    """Values to filter by; the index's own keys are taken."""
    if not isinstance(given, dict) or len(given) > MOST_METADATA:
        raise bad_request(f"`metadata` is an object of at most {MOST_METADATA} values.")
    for key, value in given.items():
        if not key or len(key) > 100 or key in OWN_KEYS:
            raise bad_request(f"The metadata key {key[:100]!r} cannot be used.")
        for one in value if isinstance(value, list) else [value]:
            if one is not None and not isinstance(one, str | int | float | bool):
                raise bad_request(
                    f"The metadata value of {key!r} is a text, a number, true, false, or a list of these."
                )
            if (isinstance(one, str) and len(one) > 1000) or (
                isinstance(one, float) and not math.isfinite(one)
            ):
                raise bad_request(f"The metadata value of {key!r} is too long or not finite.")
    return given
