"""Errors of requests: a status, a word for programs, a sentence for people."""

from __future__ import annotations

import json

from vsplade.errors import (
    EngineError,
    IndexFormatError,
    IndexLockedError,
    InputError,
    PageError,
    VspladeError,
)


class RequestError(Exception):
    """Ends a request with this status."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after

    def body(self) -> bytes:
        return error_body(self.code, self.message)


def error_body(code: str, message: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": message}}).encode()


def bad_request(message: str) -> RequestError:
    return RequestError(400, "bad_request", message)


def not_found(message: str) -> RequestError:
    return RequestError(404, "not_found", message)


def disk_full() -> RequestError:
    return RequestError(
        507, "disk_full", "The server's disk is full, so nothing was changed. Try again when there is space."
    )


def from_vsplade(error: VspladeError) -> RequestError:
    """What the package raised, as a status; paths of the server are left out where they could stand."""
    if isinstance(error, PageError):
        return RequestError(
            404, "page_unreadable", "The file of this page cannot be shown. It may be gone or damaged."
        )
    if isinstance(error, InputError):
        return bad_request(str(error))
    if isinstance(error, IndexLockedError):
        return RequestError(503, "busy", "The index is being written by another process. Try again.", 2)
    if isinstance(error, IndexFormatError):
        return RequestError(503, "index_unusable", "The index cannot be read. The server's log says why.", 10)
    if isinstance(error, EngineError):
        return RequestError(
            503,
            "engine_unavailable",
            "The engine of this index does not answer. The server's log says why.",
            5,
        )
    return RequestError(500, "failed", "The request failed. The server's log says why.")
