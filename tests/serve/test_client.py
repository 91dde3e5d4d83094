"""The Python clients, against the application itself."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from PIL import Image
from tests.serve.conftest import EXAMPLES, KEY, Program, Start

from vsplade import Index
from vsplade.client import AsyncClient, Client, ClientError
from vsplade.client.answers import Match, read_as


def test_the_client_does_everything(program: Callable[..., Program], made: Path) -> None:
    server = program(env={"VSPLADE_KEY": KEY})
    with Client(server.url, KEY, timeout=120) as client:
        found = client.search("maintenance of the turbine", 3, explain=True, snippets=True)
        expected = Index.open(made).search("maintenance of the turbine", 3)
        assert [(hit.id, hit.score) for hit in found.hits] == [(hit.id, hit.score) for hit in expected]
        (best,) = client.search("maintenance of the turbine", min_score=expected[0].score).hits
        assert best.id == expected[0].id
        assert found.hits[0].snippet is not None
        assert "turbine" in found.hits[0].snippet.text
        assert found.hits[0].matches[0].product > 0
        assert {word.word: word.status for word in found.hits[0].words}["turbine"] == "found"
        missing = client.search("turbine zyxwvut NOT", words_only=True)
        assert [word.status for word in missing.words][:2] == ["found", "not found"]
        assert missing.message is not None
        assert "zyxwvut" in missing.message
        assert missing.notes
        assert [one.query for one in client.search_batch(["tide", "saturn"], filter={"kind": "slides"})] == [
            "tide",
            "saturn",
        ]
        assert client.explain("turbine", "report_2")[0].token == "turbine"
        assert client.places("report_2", "turbine").marks[0].text == "turbine"
        assert client.text("report_2").startswith("Maintenance")
        assert max(Image.open(io.BytesIO(client.image("report_2", 300, "turbine"))).size) == 300
        assert client.embed_sparse(["turbine"])[0]
        job = client.wait(client.upload(EXAMPLES / "scan.pdf", {"kind": "scan"}))
        assert (job.state, job.report["pages"]) == ("done", 1)
        assert {one.doc_id for one in client.documents()} == {"paper", "report", "scan", "slides", "table"}
        assert client.delete("scan").state == "done"
        assert client.status()["documents"] == 4
        with pytest.raises(ClientError, match="no page") as caught:
            client.text("nothing")
        assert caught.value.status == 404

        with Client(server.url, timeout=60) as other, pytest.raises(ClientError, match="key") as caught:
            other.search("a")
        assert (caught.value.status, caught.value.code) == (401, "key_needed")


def test_a_server_that_is_not_there() -> None:
    with Client("http://127.0.0.1:1") as client, pytest.raises(ClientError, match="cannot be reached"):
        client.search("a")


def test_the_async_client_does_the_same(start: Start) -> None:
    server = start()

    async def talk() -> None:
        transport = httpx.ASGITransport(server.client.app)
        async with AsyncClient("http://localhost", transport=transport) as client:
            results = await asyncio.gather(
                *(client.search(query, 2, snippets=True) for query in ("turbine", "saturn", "tide"))
            )
            assert [result.hits[0].doc_id for result in results][:2] == ["report", "slides"]
            assert (await client.search_batch(["turbine"]))[0].hits
            assert (await client.explain("turbine", "report_2"))[0].token == "turbine"
            assert (await client.places("report_2", "turbine")).text_layer
            assert (await client.text("report_2")).startswith("Maintenance")
            assert (await client.image("report_2", 200))[:2] == b"\xff\xd8"
            assert await client.embed_sparse(["turbine"])
            job = await client.wait(await client.upload(EXAMPLES / "table.pdf", {"kind": "again"}))
            assert job.state == "done"
            assert len(await client.documents()) == 5
            assert (await client.status())["documents"] == 5

    asyncio.run(talk())


def test_a_match_by_meaning_says_what_is_meant() -> None:
    given = {"token": "meaning", "term": -1, "query_weight": 2.0, "page_weight": 0.5, "product": 1.0}
    match = read_as(Match, {**given, "in_part": False, "meant_by": {"beacon": ["lighthouse"]}})
    assert match.meant_by == {"beacon": ("lighthouse",)}
