"""The API is what its description says: schemathesis makes requests from it, good and bad, and compares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

schemathesis = pytest.importorskip(
    "schemathesis", reason="schemathesis is not installed: pip install 'vsplade[dev]'"
)

from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402

from vsplade.serve.app import create_app  # noqa: E402
from vsplade.serve.openapi import describe  # noqa: E402
from vsplade.serve.settings import ServeLimits, Settings  # noqa: E402

NOT_EVERYTHING_EXISTS = positive_data_acceptance


@pytest.fixture(scope="module")
def api(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import shutil

    folder = tmp_path_factory.mktemp("described")
    shutil.copytree(made, folder / "pages.vsplade")
    root = folder / "root"
    root.mkdir()
    chosen = Settings(
        str(folder / "pages.vsplade"),
        str(folder / "uploads"),
        roots=(str(root),),
        hosts=("testserver",),
        limits=ServeLimits(jobs=10**9, query_chars=100, batch=5),
    )
    app = create_app(chosen)
    app._quick.__self__._library.ready = True  # type: ignore[attr-defined]  # nobody warms it up here

    async def always_there(scope: Any, receive: Any, send: Any) -> None:
        """Schemathesis starts and ends an application for every request; ours shall stay."""
        if scope["type"] != "lifespan":
            return await app(scope, receive, send)
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})

    return schemathesis.openapi.from_asgi("/openapi.json", always_there)


OPERATIONS = sorted(
    f"{method.upper()} {path}"
    for path, item in describe(Settings("i", "u"))["paths"].items()
    for method in item
)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", ["positive", "negative"])
def test_the_api_is_as_described(api: Any, operation: str, kind: str) -> None:
    method, path = operation.split(" ")
    described = api[path][method]
    mode = (
        schemathesis.GenerationMode.POSITIVE if kind == "positive" else schemathesis.GenerationMode.NEGATIVE
    )
    try:
        cases = described.as_strategy(generation_mode=mode)
        cases.validate()
    except Unsatisfiable:
        return  # nothing about this operation can be wrong

    @given(case=cases)
    @settings(
        max_examples=15,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    def compare(case: Any) -> None:
        # Nobody works the jobs off here: a removal would wait for its end.
        if method == "DELETE" and path.startswith("/v1/documents"):
            case.path_parameters = {"doc_id": "no-such-document"}
        # A page that is well named need not exist, and this index has no text layers.
        response = case.call(timeout=120)  # a busy machine is no fault of the server's
        if response.status_code != 413:  # refused for its size, which schemathesis does not count as refused
            case.validate_response(response, excluded_checks=[NOT_EVERYTHING_EXISTS])

    try:
        compare()
    except Unsatisfiable:
        return


def test_every_route_is_described(made: Path, tmp_path: Path) -> None:
    from starlette.routing import Mount, Route

    app = create_app(Settings(str(made), str(tmp_path)))
    found: set[tuple[str, str]] = set()

    def walk(routes: Any, prefix: str = "") -> None:
        for route in routes:
            if isinstance(route, Mount):
                walk(route.routes, prefix + route.path)
            elif isinstance(route, Route):
                path = (prefix + route.path).replace(":path}", "}")
                found.update((path, method) for method in (route.methods or ()) if method != "HEAD")

    walk(app._app.routes)  # type: ignore[attr-defined]
    pages = {("/", "GET"), ("/static/{name}", "GET"), ("/favicon.ico", "GET"), ("/openapi.json", "GET")}
    described = {
        (path, method.upper())
        for path, item in describe(Settings("i", "u"))["paths"].items()
        for method in item
    }
    assert found - pages == described
