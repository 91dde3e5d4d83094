"""The retrievers with the real frameworks, where they are installed."""

from __future__ import annotations

import base64
import io
import json
import os
import sys
from pathlib import Path

import pytest
from PIL import Image

from vsplade import index_paths

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # no test asks the network
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("retrievers") / "pages.vsplade"
    index_paths(
        [EXAMPLES / "report.pdf", EXAMPLES / "slides.pdf"], folder, "text", metadata={"kind": "sample"}
    )
    return str(folder)


def check_picture(text: str) -> None:
    assert max(Image.open(io.BytesIO(base64.b64decode(text))).size) == 1200


def test_langchain(pages: str) -> None:
    pytest.importorskip(
        "langchain_core", reason="langchain-core is not installed: pip install 'vsplade[langchain]'"
    )
    from langchain_core.runnables import RunnableLambda

    from vsplade.integrations.langchain import VspladeRetriever

    retriever = VspladeRetriever(index_dir=pages, k=2, images=True)
    chain = retriever | RunnableLambda(lambda documents: [document.id for document in documents])
    assert chain.invoke("maintenance of the turbine")[0] == "report_2"
    first = retriever.invoke("maintenance of the turbine")[0]
    assert "turbine" in first.page_content
    assert first.metadata["page_num"] == 2
    assert first.metadata["words"]["turbine"] == "found"
    check_picture(first.metadata["image"])
    only = VspladeRetriever(index_dir=pages, k=1, words_only=True).invoke("turbine zyxwvut")[0]
    assert only.metadata["words"] == {"turbine": "found", "zyxwvut": "not found"}
    whole = VspladeRetriever(index_dir=pages, k=1, whole_page=True, filter={"kind": "sample"}).invoke(
        "turbine maintenance"
    )
    assert len(whole[0].page_content) > 500
    assert VspladeRetriever(index_dir=pages, filter={"kind": "other"}).invoke("turbine") == []


def test_llama_index(pages: str) -> None:
    pytest.importorskip(
        "llama_index.core", reason="llama-index-core is not installed: pip install 'vsplade[llama-index]'"
    )
    from vsplade.integrations.llama_index import VspladeRetriever

    nodes = VspladeRetriever(pages, k=2, images=True).retrieve("maintenance of the turbine")
    assert nodes[0].node.node_id == "report_2"
    assert nodes[0].score is not None
    assert "turbine" in nodes[0].node.get_content()
    check_picture(nodes[0].node.metadata["image"])
    only = VspladeRetriever(pages, k=1, words_only=True).retrieve("turbine zyxwvut")
    assert only[0].node.metadata["words"] == {"turbine": "found", "zyxwvut": "not found"}


def test_haystack(pages: str) -> None:
    pytest.importorskip("haystack", reason="haystack-ai is not installed: pip install 'vsplade[haystack]'")
    from haystack import Pipeline

    from vsplade.integrations.haystack import VspladeRetriever

    pipeline = Pipeline()
    pipeline.add_component("retriever", VspladeRetriever(pages, top_k=2, images=True, words_only=True))
    again = Pipeline.loads(pipeline.dumps(), unsafe=True)
    assert again.get_component("retriever").words_only
    documents = again.run({"retriever": {"query": "maintenance of the turbine"}})["retriever"]["documents"]
    assert documents[0].id == "report_2"
    assert "turbine" in documents[0].content
    check_picture(documents[0].meta["image"])
    nothing = again.run({"retriever": {"query": "zyxwvut"}})["retriever"]
    assert nothing["documents"] == []
    assert nothing["words"] == {"zyxwvut": "not found"}
    assert nothing["message"].startswith("Nothing found")


def test_mcp_with_the_official_client(pages: str) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed: pip install 'vsplade[mcp]'")
    import asyncio

    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "vsplade", "mcp", "--index", pages], env=dict(os.environ)
    )

    async def talk() -> None:
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            tools = {tool.name: tool.description for tool in (await session.list_tools()).tools}
            assert tools.keys() == {"search", "page_text", "page_image"}
            assert not any("  " in told for told in tools.values()), "as it is read, not as it is indented"
            found = await session.call_tool("search", {"query": "maintenance of the turbine", "k": 2})
            assert '"page_id": "report_2"' in found.content[0].text
            nothing = await session.call_tool("search", {"query": "zyxwvut NOT", "words_only": True})
            said = json.loads(nothing.content[0].text)
            assert said["words"]["zyxwvut"] == "not found"
            assert "zyxwvut" in said["message"]
            assert said["notes"]
            text = await session.call_tool("page_text", {"page_id": "report_2"})
            assert "Maintenance of the turbine" in text.content[0].text
            picture = await session.call_tool("page_image", {"page_id": "report_2", "query": "turbine"})
            assert picture.content[0].mime_type == "image/jpeg"
            image = Image.open(io.BytesIO(base64.b64decode(picture.content[0].data)))
            assert max(image.size) == 1400
            wrong = await session.call_tool("page_text", {"page_id": "nothing"})
            assert wrong.is_error
            assert "no page" in wrong.content[0].text

    asyncio.run(talk())
