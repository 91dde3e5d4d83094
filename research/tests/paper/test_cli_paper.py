"""The paper's training on the command line, with every bad input."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import sleep

import pytest

torch = pytest.importorskip("torch", reason="the paper's model needs torch: pip install 'vsplade[hf]'")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
pytest.importorskip("pyarrow")

from tests.encode.modernvbert import tiny
from tests.train.conftest import QUICK, said

from research.command import run_step
from research.paper.captions import make_captions
from research.paper.data import ColpaliPairs
from research.paper.options import CaptionOptions, PaperOptions
from research.paper.train import train_paper
from vsplade.cli.common import note


def train(line: list[str]) -> int:
    return run_step(line, train_paper, PaperOptions, say=note)


def caption(line: list[str]) -> int:
    return run_step(line, make_captions, CaptionOptions)


def write_captions_of(colpali: Path, path: Path, without: int = 0) -> Path:
    ids = list(dict.fromkeys(ColpaliPairs(colpali).ids(path)))
    rows = [json.dumps({"id": name, "caption": "the red page"}) for name in ids[without:]]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_captions_that_do_not_match_their_pages(
    backbone: Path, colpali: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captions = write_captions_of(colpali, tmp_path / "captions.jsonl", without=3)
    line = ["--backbone", str(backbone), "--out", str(tmp_path / "run"), *QUICK]
    assert train([*line, "--pages", str(colpali)]) == 2
    assert "give --captions" in said(capsys)
    assert train([*line, "--pages", str(colpali), "--captions", str(captions)]) == 2
    assert "3 of 19 pictures have no caption" in said(capsys)
    captions.write_text("nonsense\n")
    assert train([*line, "--pages", str(colpali), "--captions", str(captions)]) == 2
    assert "line 1: not JSON" in said(capsys)
    assert train([*line, "--pages", str(colpali), "--set", "rat=1"]) == 2
    assert "rat" in said(capsys)


def test_not_a_number_and_another_configuration(
    backbone: Path, colpali: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captions = write_captions_of(colpali, tmp_path / "captions.jsonl")
    pages = ["--pages", str(colpali), "--captions", str(captions)]
    line = ["--backbone", str(backbone), "--out", str(tmp_path / "run"), *pages, *QUICK]
    assert train([*line, "--stop-after", "1"]) == 0
    capsys.readouterr()
    assert train([*line, "--set", "rate=0.1"]) == 2
    assert "another configuration (rate: 0.0005 -> 0.1)" in said(capsys)
    assert train(line) == 0  # nothing was lost: the same command goes on
    assert "going on at step 1 of 2" in said(capsys)

    tensors = tiny.upstream_tensors()
    tensors["lm_head.weight"][0] = float("nan")
    broken = tiny.write_folder(tmp_path / "broken", tensors, released=False, longest_edge=64)
    line = ["--backbone", str(broken), "--out", str(tmp_path / "nan"), *pages, *QUICK]
    assert train(line) == 2
    message = said(capsys)
    assert "not a number" in message
    assert str(tmp_path / "nan") in message
    assert (tmp_path / "nan" / "last.safetensors").is_file()


class Endpoint(BaseHTTPRequestHandler):
    """Answers as its server is told to."""

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        kind: str = self.server.kind  # type: ignore[attr-defined]
        if kind == "silent":
            sleep(2)
        body = json.dumps({"choices": [{"message": {"content": "a red page"}}]})
        try:
            self.send_response(403 if kind == "refuses" else 200)
            self.end_headers()
            self.wfile.write(b"<html>no</html>" if kind == "nonsense" else body.encode())
        except OSError:
            pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    found = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    found.daemon_threads = True
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


@pytest.mark.parametrize(
    ("kind", "why"), [("silent", "no answer within"), ("nonsense", "makes no sense"), ("refuses", "403")]
)
def test_a_caption_endpoint_that_fails_and_recovers(
    kind: str, why: str, server: ThreadingHTTPServer, colpali: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    out = tmp_path / "captions.jsonl"
    url = f"http://127.0.0.1:{server.server_port}/v1"
    line = [str(colpali), "--out", str(out), "--url", url, "--model", "m"]
    line += ["--attempts", "1", "--concurrent", "8"]
    server.kind = kind  # type: ignore[attr-defined]
    assert caption([*line, "--seconds", "0.3" if kind == "silent" else "30"]) == 2
    message = said(capsys)
    assert why in message
    assert "have no caption" in message
    server.kind = "well"  # type: ignore[attr-defined]
    assert caption([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] > 0
    assert caption([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == 0
