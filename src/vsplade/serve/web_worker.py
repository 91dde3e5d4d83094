"""One web worker. Run as ``python -m vsplade.serve.web_worker NUMBER SOCKET``, settings on standard input."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading

import uvicorn

from vsplade.serve.app import create_app
from vsplade.serve.indexer import Indexer
from vsplade.serve.settings import Settings

GRACE_SECONDS = 20
"""For requests that are under way when the server is stopped."""
CONNECTIONS = 2000
"""Open at the same time in one worker; more are answered with 503."""


def make_server(settings: Settings, number: int = 0) -> uvicorn.Server:
    config = uvicorn.Config(
        create_app(settings, number),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        limit_concurrency=CONNECTIONS,
        ws="none",
    )
    return uvicorn.Server(config)


def main() -> None:
    number, descriptor = int(sys.argv[1]), int(sys.argv[2])
    settings = Settings.from_json(sys.stdin.readline())
    server = make_server(settings, number)

    def wait_for_parent() -> None:
        sys.stdin.read()  # ends when the server does, however it ends
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_for_parent, daemon=True).start()
    stop = threading.Event()
    indexer: threading.Thread | None = None
    if settings.in_one_process and not settings.read_only:
        indexer = threading.Thread(target=Indexer(settings).run_forever, args=(stop,))
        indexer.start()
    listening = socket.socket(fileno=descriptor)
    server.config.load()
    asyncio_run = getattr(server.config, "get_loop_factory", None)
    runner = asyncio.Runner(loop_factory=asyncio_run() if asyncio_run else None)
    with runner:
        runner.run(server.serve(sockets=[listening]))
    stop.set()
    if indexer is not None:
        indexer.join()


if __name__ == "__main__":
    main()
