"""Reading what a request holds, within limits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request

from vsplade.serve.request_errors import RequestError, bad_request
from vsplade.serve.settings import ServeLimits


def too_large(most: int) -> RequestError:
    return RequestError(413, "too_large", f"The request is too large; {most:,} bytes are allowed.")


def check_length(request: Request, most: int) -> None:
    """By what the request itself says; whoever lies is caught while reading."""
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or int(length[:18]) > most:
        raise too_large(most)


async def json_body(request: Request, most: int) -> dict[str, Any]:
    """A JSON object. Only under its own media type: a form on another site cannot send that."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestError(415, "not_json", "Send JSON, as Content-Type: application/json.")
    check_length(request, most)
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > most:
            raise too_large(most)
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise bad_request("The body is not JSON.") from error
    if not isinstance(body, dict):
        raise bad_request("The body must be a JSON object.")
    return body


def parameters(
    request: Request,
    known: Mapping[str, str],
    required: Sequence[str] = (),
    limits: ServeLimits | None = None,
    several: Sequence[str] = (),
) -> dict[str, str]:
    """The query string's parameters, with defaults; unknown ones and repeats are errors. Those of which there
    may be ``several`` are left out."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in several:
            continue
        if name not in known:
            raise bad_request(f"There is no parameter {name!r}; use {', '.join(known) or 'none'}.")
        if name in found:
            raise bad_request(f"The parameter {name!r} is given twice.")
        found[name] = value
    for name in required:
        if not found.get(name):
            raise bad_request(f"The parameter {name!r} is missing.")
    if limits is not None and len(found.get("q", "")) > limits.query_chars:
        raise bad_request(f"A query is a text of 1 to {limits.query_chars} characters.")
    return {**known, **found}


def truth(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise bad_request(f"{name} is true or false.")
    return text == "true"


def whole_number(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most):
        raise bad_request(f"{name} is a whole number from {least} to {most}.")
    return int(text)
