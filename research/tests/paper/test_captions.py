"""Captions from a real local HTTP server that answers, stalls, refuses and talks nonsense."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PIL import Image

from research.paper.captions import PROMPT, Endpoint, write_captions
from research.paper.data import read_captions
from vsplade.errors import InputError


def picture(shade: int) -> bytes:
    stream = io.BytesIO()
    Image.new("L", (8, 8), shade).save(stream, "PNG")
    return stream.getvalue()


def shade_of(request: dict) -> int:
    url = request["messages"][0]["content"][1]["image_url"]["url"]
    assert url.startswith("data:image/png;base64,")
    return Image.open(io.BytesIO(base64.b64decode(url.split(",", 1)[1]))).getpixel((0, 0))


class Server(ThreadingHTTPServer):
    """What it does depends on the picture's shade: see ``Handler.answer``."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: Counter[int] = Counter()
        self.busy = self.most_busy = 0
        self.requests: list[dict] = []
        self.keys: set[str | None] = set()
        self.lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        assert self.path == "/v1/chat/completions"
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        shade = shade_of(request)
        with self.server.lock:
            self.server.asked[shade] += 1
            self.server.requests.append(request)
            self.server.keys.add(self.headers.get("Authorization"))
            self.server.busy += 1
            self.server.most_busy = max(self.server.most_busy, self.server.busy)
        try:
            self.answer(shade)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with self.server.lock:
                self.server.busy -= 1

    def answer(self, shade: int) -> None:
        first = self.server.asked[shade] == 1
        if shade < 100:
            time.sleep(0.02)
            return self.send(200, said(f"caption of {shade}"))
        if shade == 200:
            return self.send(200, said("patience") if not first else b"<html>502</html>")
        if shade == 201:
            return self.send(503 if first else 200, said("at last"))
        if shade == 202:
            time.sleep(1.5 if first else 0)
            return self.send(200, said("late"))
        if shade == 203:
            return self.send(
                200, json.dumps({"choices": [{"message": {"content": None, "refusal": "I will not"}}]})
            )
        if shade == 204:
            return self.send(200, json.dumps({"choices": []}))
        if shade == 205:
            return self.send(401, "who are you")
        if shade == 206:
            self.connection.close()
            return None
        return self.send(200, said("   "))

    def send(self, code: int, body: str | bytes) -> None:
        raw = body.encode() if isinstance(body, str) else body
        self.send_response(code)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def said(text: str) -> str:
    return json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()


def endpoint(server: Server, **more: object) -> Endpoint:
    settings = {"concurrent": 4, "seconds": 0.5, "attempts": 2, **more}
    return Endpoint(f"http://127.0.0.1:{server.server_port}/v1", "some-model", **settings)  # type: ignore[arg-type]


def pages(*shades: int) -> list[tuple[str, bytes]]:
    return [(f"p{shade}", picture(shade)) for shade in shades]


def test_captions_are_written_concurrently_and_resumed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-one")
    out = tmp_path / "deep" / "captions.jsonl"
    report = write_captions(pages(*range(20), 3, 4), endpoint(server), out)
    assert (report.written, report.skipped, report.failures) == (20, 2, {})
    assert read_captions(out) == {f"p{n}": f"caption of {n}" for n in range(20)}
    assert server.most_busy > 1
    assert server.keys == {"Bearer not-a-real-one"}
    request = server.requests[0]
    assert (request["model"], request["messages"][0]["content"][0]["text"]) == ("some-model", PROMPT)
    with out.open("a") as file:
        file.write('{"id": "p99", "cap')  # a run that was killed in the middle of a line
    report = write_captions(pages(*range(25)), endpoint(server), out)
    assert (report.written, report.skipped) == (5, 20)
    assert len(read_captions(out)) == 25
    assert server.asked[7] == 1


def test_what_passes_is_tried_again(server: Server, tmp_path: Path) -> None:
    out = tmp_path / "captions.jsonl"
    report = write_captions(pages(201, 202), endpoint(server), out)
    assert report.failures == {}
    assert read_captions(out) == {"p201": "at last", "p202": "late"}
    assert "makes no sense" in write_captions(pages(200), endpoint(server), out).failures["p200"]
    assert write_captions(pages(200), endpoint(server), out).failures == {}  # the next run asks again
    assert read_captions(out)["p200"] == "patience"
    assert set(server.asked.values()) == {2}


def test_what_does_not_pass_is_reported_and_loses_nothing(server: Server, tmp_path: Path) -> None:
    out = tmp_path / "captions.jsonl"
    wanted = [*pages(1, 203, 204, 205, 206, 207, 2), ("broken", b"no picture")]
    report = write_captions(wanted, endpoint(server), out)
    assert read_captions(out) == {"p1": "caption of 1", "p2": "caption of 2"}
    assert set(report.failures) == {"p203", "p204", "p205", "p206", "p207", "broken"}
    for name, reason in {
        "p203": "refused: I will not",
        "p204": "makes no sense",
        "p205": "401",
        "p206": "connection",
        "p207": "empty",
        "broken": "cannot be read",
    }.items():
        assert reason in report.failures[name], report.failures[name]
    assert (server.asked[203], server.asked[205]) == (1, 1)  # asking again would not help
    assert server.asked[206] == 2


def test_timeouts_are_reported(server: Server, tmp_path: Path) -> None:
    report = write_captions(pages(202), endpoint(server, attempts=1, seconds=0.2), tmp_path / "c.jsonl")
    assert "no answer within 0.2 seconds" in report.failures["p202"]


def test_an_endpoint_that_never_answers_is_given_up(tmp_path: Path) -> None:
    dead = Endpoint("http://127.0.0.1:9/v1", "m", concurrent=4, attempts=1, seconds=1)
    with pytest.raises(InputError, match="never succeeded"):
        write_captions(((f"p{n}", picture(1)) for n in range(10_000)), dead, tmp_path / "c.jsonl")


def test_endpoints_are_checked() -> None:
    with pytest.raises(InputError, match="http"):
        Endpoint("file:///etc/passwd", "m")
    with pytest.raises(InputError, match="above 0"):
        Endpoint("http://x/v1", "m", concurrent=0)


def test_captions_of_a_data_set_are_page_texts(server: Server, tmp_path: Path) -> None:
    """Written as evaluation reads them; a second run asks for what is missing only."""
    from research.paper.captions import make_captions
    from research.paper.options import CaptionOptions
    from vsplade.evaluate import evaluate_dataset

    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    for shade in (10, 20, 30):
        (folder / "images" / f"p{shade}.png").write_bytes(picture(shade))
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "caption of 20"}\n')
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\tp20\t1\n")
    out = tmp_path / "captions.jsonl"
    out.write_text('{"_id": "p10", "text": "known"}\n{"_id": "p2')  # a run that was killed
    url = f"http://127.0.0.1:{server.server_port}/v1"
    options = CaptionOptions(str(folder), out, url, "a-model", concurrent=2)
    assert make_captions(options) == {"written": 2, "there before": 1}
    assert make_captions(options) == {"written": 0, "there before": 3}
    assert server.asked == {20: 1, 30: 1}
    assert read_captions(out, "_id", "text") == {
        "p10": "known", "p20": "caption of 20", "p30": "caption of 30",
    }  # fmt: skip
    assert evaluate_dataset(folder, texts=out).measures["ndcg@5"] == 1.0


def test_captions_of_a_benchmark_by_its_name(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As vsplade eval takes it: the name, and where the hub's copies are."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from research.experiments.benchmarks import repository
    from research.paper.captions import make_captions
    from research.paper.options import CaptionOptions

    monkeypatch.setenv("VSPLADE_CACHE", str(tmp_path / "cache"))
    tables = {
        "corpus": [{"corpus-id": f"p{n}", "image": {"bytes": picture(n), "path": None}} for n in (10, 20)],
        "queries": [{"query-id": "q", "query": "words"}],
        "qrels": [{"query-id": "q", "corpus-id": "p20", "score": 1}],
    }
    for name, rows in tables.items():
        folder = tmp_path / "hub" / repository("visrag:slidevqa") / name
        folder.mkdir(parents=True)
        parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "train-00000-of-00001.parquet")
    url = f"http://127.0.0.1:{server.server_port}/v1"
    options = CaptionOptions(
        "visrag:slidevqa", tmp_path / "c.jsonl", url, "a-model", data=tmp_path / "hub", concurrent=2
    )
    assert make_captions(options) == {"written": 2, "there before": 0}
    assert read_captions(options.out, "_id", "text") == {"p10": "caption of 10", "p20": "caption of 20"}


def test_captions_of_pages_of_pdfs(server: Server, tmp_path: Path) -> None:
    from research.experiments.typeset_pages import write_pages
    from research.paper.captions import dataset_pictures

    write_pages(tmp_path / "set", ["some words of a page " * 20], 1)
    ((name, image),) = dataset_pictures(str(tmp_path / "set"))
    assert name == "text00000_1"
    assert isinstance(image, bytes)
    assert max(Image.open(io.BytesIO(image)).size) == 2048
