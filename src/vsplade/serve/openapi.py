"""The description of the API, as OpenAPI 3.1: what ``/openapi.json`` answers.

``openapi_routes.tsv`` has a row for each operation. An answer there is a status, what it holds and what it
means; ``!`` marks a parameter that must be given. ``openapi_schemas.json`` has the schemas.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import vsplade
from vsplade.serve.pictures import LARGEST, SMALLEST
from vsplade.serve.settings import ServeLimits, Settings

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 500, "pattern": "^[^\\u0000-\\u001f/\\\\.]+$"}
_FILE_NAME: Schema = {"type": "string", "pattern": "^[a-z]{1,20}\\.(pdf|png|jpg|tif)$"}
_BINARY: Schema = {"type": "string", "format": "binary"}
_CONTENT = {
    "application/octet-stream": {},
    "image/jpeg": {"schema": _BINARY},
    "text/plain": {"schema": _TEXT},
}
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
    "507": "The server's disk is full.",
}
_ALWAYS = ("401", "403", "503")
"""Errors that any operation can answer with."""
_IN_PATH = {"doc_id": "A document.", "name": "The file's name."}


def _file(name: str) -> str:
    return (resources.files("vsplade.serve") / name).read_text("utf-8")


def _schemas(limits: ServeLimits) -> dict[str, Schema]:
    """With this server's limits in place of their names."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(item) for key, item in value.items()}
        if isinstance(value, list):
            return [filled(item) for item in value]
        named = isinstance(value, str) and value.startswith("limits.")
        return getattr(limits, value.removeprefix("limits.")) if named else value

    schemas: dict[str, Schema] = filled(json.loads(_file("openapi_schemas.json")))
    return schemas


def _whole(least: int, most: int, default: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, "default": default}


def _in_query(limits: ServeLimits) -> dict[str, tuple[Schema, str]]:
    """Schema and meaning; what stands behind a dot tells parameters of one name apart."""
    words: Schema = {"type": "string", "minLength": 1, "maxLength": limits.query_chars}
    conditions = {"type": "array", "items": {"type": "string", "maxLength": 1000}, "maxItems": 10}
    return {
        "q": ({**words, "pattern": "^[^\\ud800-\\udfff]*$"}, "Words to search for."),
        "q.mark": (words, "A query: its words are marked."),
        "k": (_whole(1, limits.k, 10), "How many pages."),
        "filter": (conditions, "Conditions on metadata, as year>=2020. All must hold."),
        "min_score": ({"type": "number", "minimum": 0, "default": 0}, "Leave out pages with less."),
        "explain": (_FLAG, "Add the matched terms and what each added to the score."),
        "snippets": (_FLAG, "Add the words around the best place, for the first 20 hits."),
        "words_only": (_FLAG, "By the words alone, not by what pages are about."),
        "fuse": (_FLAG, "Join with the files' own text layers; for an index built with READER+text."),
        "fuse.mark": (_FLAG, "Also mark what the files' own text layers matched."),
        "id": (_ID, "A page."),
        "offset": (_whole(0, 10**9, 0), "Documents to pass over."),
        "limit": (_whole(1, 1000, 100), "Documents to tell."),
        "name": (_TEXT, "Only those with this in their name."),
        "metadata": (_TEXT, "A JSON object of values to filter by."),
        "edge": (_whole(SMALLEST, LARGEST, LARGEST), "Pixels of the longest edge."),
    }


def _content(held: str) -> Schema:
    """Of a media type, or of schemas by their names."""
    if "/" in held:
        return {held: _CONTENT[held]}
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in held.split("|")]
    return {"application/json": {"schema": refs[0] if len(refs) == 1 else {"oneOf": refs}}}


def _answers(answers: str, errors: str) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for status, held, meaning in re.findall(r"(\d{3}) (\S+) (.+?)(?= \d{3} |$)", answers):
        found[status] = {"description": meaning} | ({} if held == "-" else {"content": _content(held)})
    for status in sorted({*errors.split(), *_ALWAYS}):
        found[status] = {"description": _ERRORS[status], "content": _content("Error")}
    return found


def _operation(row: Mapping[str, str], path: str, known: Mapping[str, tuple[Schema, str]]) -> Schema:
    operation: Schema = {"summary": row["summary"], "responses": _answers(row["answers"], row["errors"])}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _FILE_NAME if name == "name" else _ID,
         "description": _IN_PATH.get(name, "A job." if "jobs" in path else "A page.")}
        for name in re.findall(r"{(\w+)}", path)
    ]  # fmt: skip
    for key in row["parameters"].split():
        schema, meaning = known[key.rstrip("!")]
        name = key.rstrip("!").partition(".")[0]
        required = key.endswith("!")
        parameters.append(
            {"name": name, "in": "query", "required": required, "schema": schema, "description": meaning}
        )
    if parameters:
        operation["parameters"] = parameters
    if row["body"]:
        content = {row["body"]: {"schema": _BINARY}} if "/" in row["body"] else _content(row["body"])
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def describe(settings: Settings) -> dict[str, Any]:
    paths: dict[str, Schema] = {}
    known = _in_query(settings.limits)
    for row in csv.DictReader(
        _file("openapi_routes.tsv").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE
    ):
        method, _, path = row["operation"].partition(" ")
        paths.setdefault(path, {})[method] = _operation(row, path, known)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "vsplade",
            "version": vsplade.__version__,
            "description": "Search pages that exist only as pictures.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(settings.limits),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
    if settings.keys:
        document["security"] = [{"key": []}]
    return document
