"""The description of the API, as OpenAPI 3.1: what ``/openapi.json`` answers."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import vsplade
from vsplade.serve.pictures import LARGEST, SMALLEST
from vsplade.serve.settings import ServeLimits, Settings

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 500, "pattern": "^[^\\u0000-\\u001f/\\\\.]+$"}
_CONDITION: Schema = {"type": "string", "maxLength": 1000}


def _list(item: Schema, **limits: int) -> Schema:
    return {"type": "array", "items": item, **limits}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas(limits: ServeLimits) -> dict[str, Schema]:
    """What is in ``openapi_schemas.json``, with this server's limits in place of their names."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [filled(item) for item in value]
        named = isinstance(value, str) and value.startswith("limits.")
        return getattr(limits, value.removeprefix("limits.")) if named else value

    text = (resources.files("vsplade.serve") / "openapi_schemas.json").read_text("utf-8")
    schemas: dict[str, Schema] = filled(json.loads(text))
    return schemas


def _in_path(name: str, meaning: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": _ID, "description": meaning}


def _in_query(name: str, schema: Schema, meaning: str, required: bool = False) -> Schema:
    return {"name": name, "in": "query", "required": required, "schema": schema, "description": meaning}


def _answer(meaning: str, schema: str) -> Schema:
    return {"description": meaning, "content": {"application/json": {"schema": _ref(schema)}}}


_ERRORS = {
    "400": "The request is not understood.",
    "401": "A key is needed.",
    "403": "Not allowed here.",
    "404": "There is no such thing.",
    "405": "Not with this method.",
    "413": "The request is too large.",
    "415": "Not a media type that is taken here.",
    "429": "Too many jobs are waiting; see Retry-After.",
    "503": "Overloaded or starting; see Retry-After.",
}


def _operation(summary: str, good: dict[str, Schema], errors: str, **more: Any) -> Schema:
    """``errors``: the statuses that can come, as in "400 404"; 401, 403 and 503 can always come."""
    statuses = sorted({*errors.split(), "401", "403", "503"})
    answers = {**good, **{status: _answer(_ERRORS[status], "Error") for status in statuses}}
    return {"summary": summary, "responses": answers, **more}


def _body(schema: Schema, kind: str = "application/json") -> Schema:
    return {"required": True, "content": {kind: {"schema": schema}}}


def _picture(meaning: str) -> dict[str, Schema]:
    content = {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}
    return {
        "200": {"description": meaning, "content": content},
        "304": {"description": "As before (If-None-Match)."},
    }


_WORDS_ONLY = _in_query("words_only", _FLAG, "By the words alone, not by what pages are about.")


def _search_paths(settings: Settings) -> dict[str, Schema]:
    limits = settings.limits
    pattern = "^[^\\ud800-\\udfff]*$"
    q = {"type": "string", "minLength": 1, "maxLength": limits.query_chars, "pattern": pattern}
    k = {"type": "integer", "minimum": 1, "maximum": limits.k, "default": 10}
    ask = [
        _in_query("q", q, "Words to search for.", True),
        _in_query("k", k, "How many pages."),
        _in_query(
            "filter",
            _list(_CONDITION, maxItems=10),
            "Conditions on metadata, as year>=2020. All must hold.",
        ),
        _in_query("explain", _FLAG, "Add the matched terms and what each added to the score."),
        _in_query("snippets", _FLAG, "Add the words around the best place, for the first 20 hits."),
        _WORDS_ONLY,
    ]
    if_fusable = _in_query(
        "fuse", _FLAG, "Join with the files' own text layers; for an index built with READER+text."
    )
    found = {"200": _answer("Pages, best first.", "SearchResult")}
    either = {"oneOf": [_ref("SearchOne"), _ref("SearchMany")]}
    both = {
        "description": "Pages, best first; a list of results for `queries`.",
        "content": {"application/json": {"schema": {"oneOf": [_ref("SearchResult"), _ref("SearchResults")]}}},
    }
    sparse = _operation(
        "Weights of query texts, in the form of text-embeddings-inference.",
        {"200": _answer("One list of terms for each input.", "Sparse")},
        "400 413 415",
        requestBody=_body(_ref("EmbedSparse")),
    )
    return {
        "/v1/search": {
            "get": _operation("Search.", found, "400", parameters=[*ask, if_fusable]),
            "post": _operation(
                "Search, for one query or many.", {"200": both}, "400 413 415", requestBody=_body(either)
            ),
        },
        "/v1/explain": {
            "get": _operation(
                "Why a page matches a query.",
                {"200": _answer("Each shared term, largest share first.", "Explanation")},
                "400 404",
                parameters=[ask[0], _in_query("id", _ID, "A page.", True), if_fusable, _WORDS_ONLY],
            )
        },
        "/v1/embed_sparse": {"post": sparse},
        "/embed_sparse": {"post": sparse},
    }


def _document_paths() -> dict[str, Schema]:
    job = {"202": _answer("A job that is under way.", "Job")}
    doc_id = _in_path("doc_id", "A document.")
    name = {
        **_in_path("name", "The file's name."),
        "schema": {"type": "string", "pattern": "^[a-z]{1,20}\\.(pdf|png|jpg|tif)$"},
    }
    whole = {"type": "integer", "minimum": 0, "maximum": 10**9, "default": 0}
    limit = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
    listing = [
        _in_query("offset", whole, "Documents to pass over."),
        _in_query("limit", limit, "Documents to tell."),
        _in_query("name", _TEXT, "Only those with this in their name."),
    ]
    original = {"description": "The file, as it was indexed.", "content": {"application/octet-stream": {}}}
    binary = {"type": "string", "format": "binary"}
    upload = _operation(
        "Upload a file; one of the same name is replaced.",
        job,
        "400 404 405 413 415 429",
        parameters=[name, _in_query("metadata", _TEXT, "A JSON object of values to filter by.")],
        requestBody=_body(binary, "application/octet-stream"),
    )
    removal = {"200": _answer("Done.", "Job"), **job}
    return {
        "/v1/documents": {
            "get": _operation(
                "The documents.",
                {"200": _answer("In the order that they were added.", "Documents")},
                "400",
                parameters=listing,
            ),
            "post": _operation(
                "Add files of the server by their paths.",
                job,
                "400 404 413 415 429",
                requestBody=_body(_ref("AddPaths")),
            ),
        },
        "/v1/documents/{doc_id}": {
            "get": _operation(
                "One document and its pages.",
                {"200": _answer("It.", "DocumentPages")},
                "404",
                parameters=[doc_id],
            ),
            "delete": _operation("Remove a document.", removal, "400 404 429", parameters=[doc_id]),
        },
        "/v1/documents/{doc_id}/file": {
            "get": _operation("The original file.", {"200": original}, "404", parameters=[doc_id])
        },
        "/v1/documents/{name}": {"put": upload},
    }


def _job_paths() -> dict[str, Schema]:
    return {
        "/v1/jobs": {
            "get": _operation("Jobs, newest first.", {"200": _answer("The last hundred.", "Jobs")}, "")
        },
        "/v1/jobs/{id}": {
            "get": _operation(
                "One job.", {"200": _answer("It.", "Job")}, "404", parameters=[_in_path("id", "A job.")]
            )
        },
        "/v1/problems": {
            "get": _operation(
                "What could not be read.",
                {"200": _answer("Files and pages, with the reason.", "Problems")},
                "",
            )
        },
    }


def _page_paths(settings: Settings) -> dict[str, Schema]:
    id = _in_path("id", "A page.")
    q = _in_query(
        "q",
        {"type": "string", "minLength": 1, "maxLength": settings.limits.query_chars},
        "A query: its words are marked.",
    )
    edge = {"type": "integer", "minimum": SMALLEST, "maximum": LARGEST, "default": LARGEST}
    fuse = _in_query("fuse", _FLAG, "Also mark what the files' own text layers matched.")
    places = [id, {**q, "required": True}, fuse, _WORDS_ONLY]
    return {
        "/v1/pages/{id}": {
            "get": _operation(
                "One page.", {"200": _answer("Its metadata.", "Page")}, "400 404", parameters=[id]
            )
        },
        "/v1/pages/{id}/image": {
            "get": _operation(
                "The page as a picture, with the places of a query's words marked if one is given.",
                _picture("JPEG."),
                "400 404",
                parameters=[id, q, fuse, _WORDS_ONLY, _in_query("edge", edge, "Pixels of the longest edge.")],
            )
        },
        "/v1/pages/{id}/thumbnail": {
            "get": _operation("The page, small.", _picture("JPEG."), "400 404", parameters=[id])
        },
        "/v1/pages/{id}/places": {
            "get": _operation(
                "Where a query's words stand on the page, and the words around the best place.",
                {"200": _answer("Boxes are [left, top, right, bottom] in fractions of the page.", "Places")},
                "400 404",
                parameters=places,
            )
        },
        "/v1/pages/{id}/text": {
            "get": _operation(
                "The page's words: its text layer, or what was read from the picture.",
                {"200": _answer("In reading order.", "PageText")},
                "400 404",
                parameters=[id],
            )
        },
    }


def _system_paths() -> dict[str, Schema]:
    plain = {"description": "Prometheus text format.", "content": {"text/plain": {"schema": _TEXT}}}
    session = {"204": {"description": "A cookie is set."}}
    return {
        "/v1/status": {
            "get": _operation(
                "The index at a glance.", {"200": _answer("Counts and settings.", "Status")}, ""
            )
        },
        "/v1/facets": {
            "get": _operation("What can be filtered by.", {"200": _answer("Keys and values.", "Facets")}, "")
        },
        "/v1/session": {
            "post": _operation("Log a browser in.", session, "400 413 415", requestBody=_body(_ref("Key"))),
            "delete": _operation("Log a browser out.", session, ""),
        },
        "/health": {"get": _operation("The process runs.", {"200": _answer("Yes.", "State")}, "")},
        "/ready": {"get": _operation("The server is warm.", {"200": _answer("Yes.", "State")}, "")},
        "/metrics": {"get": _operation("Counts and times.", {"200": plain}, "")},
    }


def describe(settings: Settings) -> dict[str, Any]:
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "vsplade",
            "version": vsplade.__version__,
            "description": "Search pages that exist only as pictures.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            **_search_paths(settings),
            **_document_paths(),
            **_job_paths(),
            **_page_paths(settings),
            **_system_paths(),
        },
        "components": {
            "schemas": _schemas(settings.limits),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
    if settings.keys:
        document["security"] = [{"key": []}]
    return document
