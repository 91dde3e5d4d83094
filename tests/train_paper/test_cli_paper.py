"""The paper's model on the command line: train on PDFs, index, search without torch; and every bad input."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
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

from tests.encode.modernvbert import tiny  # noqa: E402

from vsplade.cli import run  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUICK = [
    part
    for setting in ("batch=2", "steps=2", "precision=float32", "gradient_checkpointing=false", "lora_rank=2")
    for part in ("--set", setting)
]


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VSPLADE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny.write_folder(tmp_path / "model", tiny.released_tensors(), longest_edge=64)


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    folder = tmp_path / "scans"
    folder.mkdir()
    shutil.copy(EXAMPLES / "paper.pdf", folder)
    return folder


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_train_on_pdfs_index_and_search_without_torch(
    backbone: Path, scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, index = tmp_path / "run", tmp_path / "my.vsplade"
    line = ["train", "--from-pdfs", str(scans), "--backbone", str(backbone), "--out", str(out), *QUICK]
    assert run([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"step": 2, "steps": 2, "finished": True}
    assert run(["index", str(scans), "--index", str(index), "--model", str(out / "model"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == 0
    assert run(["search", "page total", "--index", str(index), "--json"]) == 0
    here = json.loads(capsys.readouterr().out)
    assert run(["train", "query-side", str(out / "model"), "--out", str(tmp_path / "light"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["terms"] == tiny.TERMS
    shutil.rmtree(out)
    shutil.rmtree(tmp_path / "cache")
    without = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'transformers', 'safetensors', 'jinja2']));"
        "from vsplade.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    search = ["search", "page total", "--index", str(index), "--encoder", str(tmp_path / "light"), "--json"]
    there = subprocess.run(
        [sys.executable, "-c", without, *search], capture_output=True, text=True, check=True
    )
    assert json.loads(there.stdout)["hits"] == here["hits"]


def test_from_pdfs_takes_small_folders_and_says_what_it_needs(
    backbone: Path, scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["train", "--backbone", str(backbone), "--out", str(tmp_path / "run")]
    assert run([*line, "--from-pdfs", str(scans), "--set", "steps=1", "--set", "precision=float32"]) == 0
    assert "there are no more" in said(capsys)
    assert run(line) == 2
    assert "--from-pdfs" in said(capsys)
    assert run([*line, "--from-pdfs", str(tmp_path / "cache")]) == 2
    assert run(["train", "--from-pdfs", str(scans), "paper"]) == 2
    assert "goes after the step" in said(capsys)


@pytest.mark.slow
def test_two_processes_by_torchrun(backbone: Path, tmp_path: Path) -> None:
    """Sixteen pairs: a batch is what two processes can share."""
    out = tmp_path / "run"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launch += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
    line = ["train", "paper", "--from-pdfs", str(EXAMPLES), "--backbone", str(backbone), "--out", str(out)]
    line += ["--set", "steps=2", "--set", "precision=float32", "--set", "lora_rank=2"]
    done = subprocess.run(
        [*launch, "-m", "vsplade", *line], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "a batch is 8 pairs" in done.stderr
    assert (out / "model" / "model.safetensors").is_file()
    assert len((out / "log.jsonl").read_text().splitlines()) == 2  # one process writes it


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda t: t.pop("encoder.mlm_head.dense.weight"), "lacks encoder.mlm_head.dense.weight"),
        (lambda t: t.update({"encoder.mlm_head.more": torch.zeros(1)}), "in excess, encoder.mlm_head.more"),
        (
            lambda t: t.update({"query_encoder.projection.weight": torch.zeros(1, 7)}),
            "query_encoder.projection.weight is (1, 7)",
        ),
        (lambda t: t.pop("query_encoder.projection.bias"), "query_encoder.projection.bias"),
    ],
    ids=["missing", "extra", "misshapen", "no table"],
)
def test_a_checkpoint_that_does_not_fit(
    change: object, named: str, scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = tiny.released_tensors()
    change(tensors)  # type: ignore[operator]
    folder = tiny.write_folder(tmp_path / "bad", tensors, longest_edge=64)
    assert run(["index", str(scans), "--index", str(tmp_path / "i.vsplade"), "--model", str(folder)]) == 2
    message = said(capsys)
    assert named in message
    assert "Traceback" not in message
    line = [
        "train",
        "paper",
        "--from-pdfs",
        str(scans),
        "--backbone",
        str(folder),
        "--out",
        str(tmp_path / "r"),
    ]
    assert run([*line, *QUICK]) == 2
    assert "Traceback" not in said(capsys)


def test_model_and_encoder_are_one_choice(
    model: Path, scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["index", str(scans), "--index", str(tmp_path / "i.vsplade")]
    assert run([*line, "--model", str(model), "--encoder", "text"]) == 2
    assert "leave --encoder out" in said(capsys)
    assert run([*line, "--model", "nothing-here"]) == 2
    assert "There is no folder nothing-here" in said(capsys)


def write_captions_of(colpali: Path, path: Path, without: int = 0) -> Path:
    from vsplade.train.paper.data import ColpaliPairs

    ids = list(dict.fromkeys(ColpaliPairs(colpali).ids(path)))
    rows = [json.dumps({"id": name, "caption": "the red page"}) for name in ids[without:]]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_captions_that_do_not_match_their_pages(
    backbone: Path, colpali: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captions = write_captions_of(colpali, tmp_path / "captions.jsonl", without=3)
    line = ["train", "paper", "--backbone", str(backbone), "--out", str(tmp_path / "run"), *QUICK]
    assert run([*line, "--pages", str(colpali)]) == 2
    assert "give --captions" in said(capsys)
    assert run([*line, "--pages", str(colpali), "--captions", str(captions)]) == 2
    assert "3 of 19 pictures have no caption" in said(capsys)
    captions.write_text("nonsense\n")
    assert run([*line, "--pages", str(colpali), "--captions", str(captions)]) == 2
    assert "line 1 is not JSON" in said(capsys)
    assert run([*line, "--pages", str(colpali), "--set", "rat=1"]) == 2
    assert "rat" in said(capsys)


def test_not_a_number_and_another_configuration(
    backbone: Path, colpali: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captions = write_captions_of(colpali, tmp_path / "captions.jsonl")
    pages = ["--pages", str(colpali), "--captions", str(captions)]
    line = ["train", "paper", "--backbone", str(backbone), "--out", str(tmp_path / "run"), *pages, *QUICK]
    assert run([*line, "--stop-after", "1"]) == 0
    capsys.readouterr()
    assert run([*line, "--set", "rate=0.1"]) == 2
    assert "another configuration (rate: 0.0005 -> 0.1)" in said(capsys)
    assert run(line) == 0  # nothing was lost: the same command goes on
    assert "going on at step 1 of 2" in said(capsys)

    tensors = tiny.upstream_tensors()
    tensors["lm_head.weight"][0] = float("nan")
    broken = tiny.write_folder(tmp_path / "broken", tensors, released=False, longest_edge=64)
    line = ["train", "paper", "--backbone", str(broken), "--out", str(tmp_path / "nan"), *pages, *QUICK]
    assert run(line) == 2
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
    line = ["train", "captions", str(colpali), "--out", str(out), "--url", url, "--model", "m"]
    line += ["--attempts", "1", "--concurrent", "8"]
    server.kind = kind  # type: ignore[attr-defined]
    assert run([*line, "--seconds", "0.3" if kind == "silent" else "30"]) == 2
    message = said(capsys)
    assert why in message
    assert "have no caption" in message
    server.kind = "well"  # type: ignore[attr-defined]
    assert run([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] > 0
    assert run([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == 0
