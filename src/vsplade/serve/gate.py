"""The way into the server: who may ask, from where, and how much. Everything passes here first.

A plain ASGI callable and not a stack of middlewares, because it runs before every search, and a search takes
a tenth of a millisecond.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Protocol

from vsplade.errors import VspladeError
from vsplade.serve.metrics import Metrics
from vsplade.serve.request_errors import RequestError, error_body, from_vsplade
from vsplade.serve.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "vsplade_session"
SESSION_SECONDS = 30 * 24 * 3600
LONGEST_URL = 16_384
HEADER_BYTES = 32_768
OPEN_TO_ALL = frozenset({"/", "/health", "/ready", "/v1/session", "/openapi.json", "/favicon.ico"})
"""No key needed: nothing of the index is told there."""
CHANGES = frozenset({"POST", "PUT", "PATCH", "DELETE"})

COMMON_HEADERS: list[tuple[bytes, bytes]] = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
API_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
PAGE_POLICY = (
    b"content-security-policy",
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
)
JSON_HEADERS = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    API_POLICY,
    *COMMON_HEADERS,
]


class QuickAnswer(Protocol):
    """Answers some requests at once, without a framework; None for those that are not its own."""

    def __call__(self, path: str, query: bytes) -> tuple[int, bytes] | None: ...


class Gate:
    """Checks every request, counts it, and hands it on."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics, quick: QuickAnswer) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._quick = quick
        self._keys = [key.encode() for key in settings.keys]
        self._hosts = frozenset({"localhost", *(host.lower().rstrip(".") for host in settings.hosts)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1000})
        started = time.perf_counter()
        status = 500
        answered = False

        async def counted(message: MutableMapping[str, Any]) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                answered, status = True, message["status"]
                _add_headers(message)
            await send(message)

        try:
            self._check(scope)
            quick = None
            if scope["method"] == "GET":
                quick = self._quick(scope["path"], scope["query_string"])
            if quick is not None:
                status, body = quick
                await _send(send, status, body)
            else:
                await self._app(scope, receive, counted)
        except RequestError as error:
            status = error.status
            await self._refuse(send, error, scope)
        except VspladeError as error:
            print(f"vsplade serve: {type(error).__name__}: {error}", file=sys.stderr)
            status = from_vsplade(error).status
            await self._refuse(send, from_vsplade(error), scope)
        except Exception:
            traceback.print_exc()
            if not answered:
                await _send(
                    send, 500, error_body("bug", "The server failed on this request; its log has the trace.")
                )
        finally:
            self._metrics.request(scope["path"], status, time.perf_counter() - started)

    async def _refuse(self, send: Send, error: RequestError, scope: Scope) -> None:
        extra = [] if error.retry_after is None else [(b"retry-after", str(error.retry_after).encode())]
        if error.status == 401:
            extra.append((b"www-authenticate", b'Bearer realm="vsplade"'))
        # What of the body was not read would be taken for the next request: the connection ends here.
        if scope["method"] in CHANGES:
            extra.append((b"connection", b"close"))
        await _send(send, error.status, error.body(), extra)

    def _check(self, scope: Scope) -> None:
        host = authorization = cookie = origin = b""
        size = 0
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            if name == b"host":
                host = value
            elif name == b"authorization":
                authorization = value
            elif name == b"cookie":
                cookie = value
            elif name == b"origin":
                origin = value
        if size > HEADER_BYTES:
            raise RequestError(431, "headers_too_large", "The request's headers are too large.")
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_URL:
            raise RequestError(400, "url_too_long", "The address of this request is too long.")
        if "\0" in scope["path"]:
            raise RequestError(400, "bad_request", "The path holds a NUL byte.")
        self._check_host(host)
        if origin and scope["method"] in CHANGES and not _same_origin(origin, host):
            raise RequestError(403, "other_origin", "Pages of other sites may not change anything here.")
        if self._keys and not self._open(scope["path"]):
            self._check_key(authorization, cookie)

    def _check_host(self, host: bytes) -> None:
        """A page elsewhere may let its own name point to this machine: its requests carry that name."""
        name = _host_name(host)
        if name in self._hosts or _is_address(name):
            return
        raise RequestError(
            403,
            "unknown_host",
            "This server is not known by that name. Start it with --allow-host to allow it.",
        )

    def _open(self, path: str) -> bool:
        return path in OPEN_TO_ALL or path.startswith("/static/")

    def _check_key(self, authorization: bytes, cookie: bytes) -> None:
        scheme, _, given = authorization.partition(b" ")
        if scheme.lower() == b"bearer" and self.knows(given.strip()):
            return
        if cookie and self._session(cookie):
            return
        raise RequestError(
            401, "key_needed", "This server needs a key: send it as Authorization: Bearer KEY."
        )

    def knows(self, given: bytes) -> bool:
        """All keys are compared, each in constant time, so that the time tells nothing."""
        found = False
        for key in self._keys:
            found |= hmac.compare_digest(key, given)
        return found

    def _session(self, cookie: bytes) -> bool:
        try:
            jar = SimpleCookie(cookie.decode("latin-1"))
        except CookieError:
            return False
        value = jar[COOKIE].value if COOKIE in jar else ""
        until, _, proof = value.partition(".")
        if not (until.isascii() and until.isdigit() and len(until) < 15) or int(until) < time.time():
            return False
        found = False
        for key in self._keys:
            found |= hmac.compare_digest(_proof(key, until).encode(), proof.encode("latin-1", "replace"))
        return found

    def new_session(self, key: bytes) -> str:
        """A cookie's value that proves knowledge of the key without holding it."""
        until = str(int(time.time()) + SESSION_SECONDS)
        return f"{until}.{_proof(key, until)}"


def _proof(key: bytes, until: str) -> str:
    return hmac.new(key, b"vsplade session until " + until.encode(), hashlib.sha256).hexdigest()


def _host_name(host: bytes) -> str:
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    """A plain address cannot be pointed elsewhere by who owns a name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same_origin(origin: bytes, host: bytes) -> bool:
    scheme, _, name = origin.partition(b"://")
    return scheme in (b"http", b"https") and name.lower() == host.lower()


def _add_headers(message: MutableMapping[str, Any]) -> None:
    headers = list(message.get("headers", []))
    names = {name for name, _ in headers}
    headers += [pair for pair in COMMON_HEADERS if pair[0] not in names]
    if API_POLICY[0] not in names:
        headers.append(API_POLICY)
    message["headers"] = headers


async def _send(send: Send, status: int, body: bytes, extra: Iterable[tuple[bytes, bytes]] = ()) -> None:
    headers = [*JSON_HEADERS, (b"content-length", str(len(body)).encode()), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
