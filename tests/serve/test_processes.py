"""``vsplade serve`` as a program: several workers, what dies, what is under way when it ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tests.serve.conftest import EXAMPLES, KEY, Program, serve_command

from vsplade import Index, IndexWriter, index_paths
from vsplade.serve.indexer import ATTEMPTS
from vsplade.serve.jobs import RESTARTS, RUNNING, JobStore
from vsplade.store.identity import EncoderIdentity

Begin = Callable[..., Program]
SOAK_SECONDS = float(os.environ.get("VSPLADE_SOAK_SECONDS", "60"))


def children(program: Program, module: str) -> list[int]:
    """The server's processes that run this module."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes().decode().split("\0")
            except (OSError, ValueError):
                continue
            if parent == program.process.pid and module in command:
                found.append(int(entry.name))
    return found


linux = pytest.mark.skipif(
    sys.platform != "linux", reason="looks for processes in /proc, which only Linux has"
)


def test_a_server_that_is_killed_is_not_held_against_its_jobs(tmp_path: Path) -> None:
    """A file that was taken in was given up after three kill -9 of the server."""
    store = JobStore(tmp_path)
    store.prepare()
    job = store.add("upload", name="a.pdf")
    for _ in range(ATTEMPTS + 1):
        job = store.save(replace(job, state=RUNNING, attempts=job.attempts + 1))
        store.begin_again()
        job = store.all()[0]
        assert job.attempts < ATTEMPTS
    for _ in range(RESTARTS + ATTEMPTS):  # but not for ever
        job = store.save(replace(job, state=RUNNING, attempts=job.attempts + 1))
        store.begin_again()
        job = store.all()[0]
    assert job.attempts >= ATTEMPTS


def test_beyond_this_machine_only_with_a_key(tmp_path: Path, made: Path) -> None:
    command = serve_command(made, "--host", "0.0.0.0")
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2
    assert "--key-file" in refused.stderr
    keys = tmp_path / "keys"
    keys.write_text("short\n")
    refused = subprocess.run([*command, "--key-file", str(keys)], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2
    assert "at least" in refused.stderr
    assert "short" not in refused.stderr.replace("shorter", "")


def test_an_index_of_another_encoder_is_refused_at_once(tmp_path: Path) -> None:
    IndexWriter(tmp_path / "old", EncoderIdentity("reader", "of-an-earlier-model", 30_720)).close()
    command = serve_command(tmp_path / "old")
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2
    assert "of-an-earlier-model" in refused.stderr
    assert "index the files again" in refused.stderr


def test_a_port_in_use_is_an_error_for_people(program: Begin) -> None:
    first = program()
    port = first.url.rstrip("/").rpartition(":")[2]
    for workers in ("1", "2"):
        command = serve_command("other.vsplade", "--encoder", "text", port=port)
        folder = Path(first.process.args[5]).parent  # type: ignore[index, union-attr, arg-type]
        second = subprocess.run(
            [*command, "--workers", workers], capture_output=True, text=True, timeout=60, cwd=folder
        )
        assert second.returncode == 2
        assert "Choose another --port" in second.stderr


def test_keys_are_not_on_any_command_line_and_not_in_the_log(program: Begin) -> None:
    server = program(env={"VSPLADE_KEY": KEY})
    assert httpx.get(server.url + "v1/status", timeout=60).status_code == 401
    shown = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
    assert KEY not in shown
    server.process.send_signal(signal.SIGTERM)
    out, err = server.process.communicate(timeout=60)
    assert KEY not in out + err


@linux
def test_workers_share_the_load_and_see_new_commits(program: Begin, tmp_path: Path) -> None:
    server = program("--workers", "2").ready()
    assert len(children(server, "vsplade.serve.web_worker")) == 2
    new = tmp_path / "lighthouse.pdf"
    shutil.copy(EXAMPLES / "slides.pdf", new)
    index_paths([new], tmp_path / "pages.vsplade", metadata={"kind": "new"})  # by the command line's own way
    until = time.monotonic() + 20
    streak = 0
    while streak < 20:  # each on a connection of its own, so that both workers are asked
        found = httpx.get(server.url + "v1/search?q=saturn&filter=kind=new", timeout=30).json()["hits"]
        streak = streak + 1 if found else 0
        assert time.monotonic() < until


@linux
def test_a_killed_worker_costs_the_requests_in_flight_only(program: Begin) -> None:
    server = program("--workers", "2").ready()
    failed: list[str] = []
    done = 0
    stop = threading.Event()

    def ask() -> None:
        nonlocal done
        while not stop.is_set():
            try:
                answer = httpx.get(server.url + "v1/search?q=turbine+maintenance", timeout=30)
                assert answer.status_code == 200
                done += 1
            except httpx.HTTPError as error:
                failed.append(repr(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    for _ in range(2):
        victim = children(server, "vsplade.serve.web_worker")[0]
        os.kill(victim, signal.SIGKILL)
        time.sleep(4)
    stop.set()
    for thread in threads:
        thread.join()
    assert done > 20
    assert len(failed) <= 2 * len(threads)  # one in flight on each connection, twice
    assert len(children(server, "vsplade.serve.web_worker")) == 2


@linux
def test_a_killed_indexer_begins_its_job_again(program: Begin) -> None:
    server = program().ready()
    content = (EXAMPLES / "report.pdf").read_bytes()
    job = httpx.put(server.url + "v1/documents/mill.pdf", content=content, timeout=60).json()
    (indexer,) = children(server, "vsplade.serve.indexer")
    os.kill(indexer, signal.SIGKILL)
    until = time.monotonic() + 60
    while job["state"] not in ("done", "failed"):
        time.sleep(0.1)
        job = httpx.get(server.url + f"v1/jobs/{job['id']}", timeout=30).json()
        assert time.monotonic() < until
    assert job["state"] == "done"
    assert len(httpx.get(server.url + "v1/documents/mill", timeout=30).json()["page_ids"]) == 3


@linux
def test_the_end_is_clean(program: Begin, tmp_path: Path) -> None:
    server = program("--workers", "2").ready()
    httpx.put(
        server.url + "v1/documents/mill.pdf", content=(EXAMPLES / "report.pdf").read_bytes(), timeout=60
    )
    processes = children(server, "vsplade.serve.web_worker") + children(server, "vsplade.serve.indexer")
    assert len(processes) == 3
    assert server.end() == 0
    assert not [pid for pid in processes if Path(f"/proc/{pid}").exists()]
    assert Index.open(tmp_path / "pages.vsplade").check() == []
    again = program().ready()  # goes on with what was not done
    until = time.monotonic() + 60
    while httpx.get(again.url + "v1/documents/mill", timeout=30).status_code != 200:
        time.sleep(0.2)
        assert time.monotonic() < until


@linux
def test_the_end_waits_for_what_is_under_way(program: Begin) -> None:
    server = program().ready()
    host, port = server.url.split("/")[2].split(":")
    body = b'{"query": "turbine maintenance"}'
    head = f"POST /v1/search HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body[:10])
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        client.sendall(body[10:])
        answer = b""
        while part := client.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"id":"report_2"' in answer
    assert server.process.wait(timeout=30) == 0


@linux
def test_nothing_is_left_when_the_server_is_killed(program: Begin) -> None:
    server = program().ready()
    processes = children(server, "vsplade.serve.web_worker") + children(server, "vsplade.serve.indexer")
    server.process.kill()
    until = time.monotonic() + 30
    while [pid for pid in processes if Path(f"/proc/{pid}").exists()]:
        time.sleep(0.1)
        assert time.monotonic() < until


@pytest.mark.slow
@pytest.mark.timeout(SOAK_SECONDS + 300)
def test_search_add_and_delete_together(program: Begin, tmp_path: Path) -> None:
    """Minutes of everything at once: no error, and the results of a fresh index."""
    seconds = SOAK_SECONDS
    server = program("--workers", "2").ready()
    errors: list[str] = []
    stop = threading.Event()

    def search() -> None:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            while not stop.is_set():
                answer = client.get("/v1/search?q=the+harbour+tide+turbine")
                if answer.status_code != 200 or not answer.json()["hits"]:
                    errors.append(answer.text)

    def memory() -> int:
        total = 0
        for pid in children(server, "vsplade.serve.web_worker"):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
        return total

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    warm = 0
    began = time.monotonic()
    turn = 0
    with httpx.Client(base_url=server.url, timeout=120) as client:
        while time.monotonic() - began < seconds:
            name = f"file{turn % 5}"
            source = ("report.pdf", "slides.pdf", "table.pdf")[turn % 3]
            job = client.put(f"/v1/documents/{name}.pdf", content=(EXAMPLES / source).read_bytes()).json()
            while job["state"] not in ("done", "failed"):
                time.sleep(0.05)
                job = client.get(f"/v1/jobs/{job['id']}").json()
            if job["state"] != "done":
                errors.append(str(job))
            if turn % 2 and client.delete(f"/v1/documents/{name}").status_code != 200:
                errors.append(f"delete {name}")
            turn += 1
            if not warm and time.monotonic() - began > seconds / 4:
                warm = memory()
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    grown = memory() / warm
    print(f"{turn} files in {seconds:g} s, memory {grown:.3f} times that after warm-up")
    assert grown < 1.1
    index = Index.open(tmp_path / "pages.vsplade")
    paths = sorted({str(index.metadata(id)["path"]) for id in index.ids()})
    index_paths(paths, tmp_path / "fresh.vsplade", "text")
    fresh = Index.open(tmp_path / "fresh.vsplade")

    def found(one: Index) -> set[tuple[str, int, float]]:
        hits = one.search("the harbour tide turbine saturn", k=100)
        return {(str(hit.metadata["path"]), hit.page_num, round(hit.score, 4)) for hit in hits}

    assert found(index) == found(fresh)
