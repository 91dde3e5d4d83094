"""A server over an index that an outside engine keeps: the real program, on the engines that run here."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.backends.places import milvus_server, where
from tests.backends.test_bad_engines import unused_port
from tests.backends.test_milvus_server import wait_for
from tests.serve.conftest import EXAMPLES, Program

QUERY = "tidal turbine"


def vsplade(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: a place for one process is free again when it has ended."""
    command = [sys.executable, "-m", "vsplade", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def ended(client: httpx.Client, job: dict[str, str]) -> dict[str, object]:
    for _ in range(600):
        now: dict[str, object] = client.get(f"/v1/jobs/{job['id']}").json()
        if now["state"] in ("done", "failed"):
            return now
        time.sleep(0.1)
    raise AssertionError(f"the job did not end: {now}")


@pytest.mark.parametrize("engine", ["milvus", "qdrant"])
def test_everything_works_on_an_engine_in_a_file(
    engine: str, tmp_path: Path, program_at: Callable[..., Program]
) -> None:
    address = str(where(engine, tmp_path))
    server = begin(address, program_at)
    use_all(server)
    assert server.end() == 0


def test_everything_works_on_an_engines_server(tmp_path: Path, program_at: Callable[..., Program]) -> None:
    """With two workers and the indexer as processes of their own; then the engine dies."""
    with milvus_server(tmp_path, unused_port()) as (_, address):
        wait_for(address)
        server = begin(address, program_at, "--workers", "2", "--uploads", str(tmp_path / "uploads"))
        use_all(server)
    told = httpx.get(f"{server.url}v1/search?q={QUERY}", timeout=150)
    assert (told.status_code, told.json()["error"]["code"]) == (503, "engine_unavailable")


def begin(address: str, program_at: Callable[..., Program], *arguments: str) -> Program:
    report = str(EXAMPLES / "report.pdf")
    vsplade("index", report, "--index", address, "--encoder", "text", "--meta", "year=2024")
    return program_at(address, *arguments).ready()


def use_all(server: Program) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        status = client.get("/v1/status").json()
        assert status["documents"] == 1
        assert status["bytes"] is None
        hit = client.get(
            "/v1/search", params={"q": QUERY, "explain": True, "snippets": True, "filter": "year>=2020"}
        ).json()["hits"][0]
        assert hit["name"] == "report.pdf"
        assert hit["matches"]
        assert "Tidal" in hit["snippet"]["text"]
        assert client.get("/v1/explain", params={"q": QUERY, "id": hit["id"]}).json()["matches"]
        for picture in ("image", f"image?q={QUERY}", "thumbnail"):
            assert client.get(f"/v1/pages/{hit['id']}/{picture}").content[:2] == b"\xff\xd8"
        assert client.get(f"/v1/pages/{hit['id']}/places", params={"q": QUERY}).json()["marks"]
        facets = client.get("/v1/facets").json()["facets"]
        assert [(f["key"], f["values"][0]["value"]) for f in facets] == [("year", 2024)]

        slides = (EXAMPLES / "slides.pdf").read_bytes()
        job = client.put("/v1/documents/slides.pdf", content=slides).json()
        with ThreadPoolExecutor(4) as pool:  # while it is added, searches go on
            codes = list(pool.map(lambda _: client.get(f"/v1/search?q={QUERY}").status_code, range(40)))
        assert set(codes) == {200}
        assert ended(client, job)["state"] == "done"
        names = {one["name"] for one in client.get("/v1/documents").json()["documents"]}
        assert names == {"report.pdf", "slides.pdf"}
        assert len(client.get("/v1/documents/slides").json()["page_ids"]) > 1

        assert client.delete("/v1/documents/slides").json()["state"] == "done"
        assert client.get("/v1/documents/slides").status_code == 404
        assert client.get("/v1/status").json()["documents"] == 1


def test_a_place_for_one_process_has_one_worker(tmp_path: Path) -> None:
    address = str(where("qdrant", tmp_path))
    told = vsplade("serve", "--index", address, "--encoder", "text", "--port", "0", "--workers", "2")
    assert told.returncode == 2
    assert "served by one worker" in told.stderr
