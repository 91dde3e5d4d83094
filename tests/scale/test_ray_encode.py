"""``vsplade encode --ray`` on the real Ray, one node: workers and driver die, every page is there once."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray")

from tests.exchange.test_parquet import content
from tests.scale.test_encode_shards import shard_bytes
from tests.test_cli import TEXT, as_json, vsplade, write_pdf

from vsplade.search.index import Index

FILES = 10
PATIENCE = 600.0
SCRIPT = """
import sys
from vsplade.scale import encode_tasks
encode_tasks.TASK_FILES = 1
from vsplade.cli import main
main(sys.argv[1:])
"""


TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
"""Newer versions of Ray let only those in who know the cluster's own."""
HOLDER = """
import sys, ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, int]]:
    """One node of two CPUs, in a process of its own: the address, and the process. Ray gives up on itself
    where the machine is too busy to start it within 30 seconds: then it is tried again."""
    env = {**os.environ, **TOKEN, "RAY_USAGE_STATS_ENABLED": "0", "RAY_agent_register_timeout_ms": "240000"}
    env.pop("RAY_ADDRESS", None)
    for _ in range(6):
        command = [sys.executable, "-c", HOLDER]
        with subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as holder:
            assert holder.stdout is not None
            address = holder.stdout.readline().decode().strip()
            if address:
                yield address, holder.pid
                return
    pytest.fail("Ray does not start here.")


@pytest.fixture(autouse=True)
def _one_node(monkeypatch: pytest.MonkeyPatch, cluster: tuple[str, int]) -> None:
    for name, value in {**TOKEN, "RAY_ADDRESS": cluster[0]}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    for number in range(FILES):
        write_pdf(tmp_path / "files" / f"r{number}.pdf", *(f"turbine {number} page {n}" for n in range(3)))
    (tmp_path / "files" / "broken.pdf").write_bytes(b"nothing")
    return tmp_path / "files"


def start(files: Path, target: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", SCRIPT, "encode", str(files), "--parquet", str(target), *TEXT, *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def below(parent: int) -> Iterator[int]:
    """All processes that a process has started, and those that they have."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    known = {parent}
    while more := {child for child, of in found.items() if of in known} - known:
        known |= more
        yield from more


def actors(cluster: int) -> list[int]:
    """The workers of the pool: Ray writes the class of an actor into the name of its process."""
    named = []
    for process in below(cluster):
        try:
            if b"MapWorker" in Path(f"/proc/{process}/cmdline").read_bytes():
                named.append(process)
        except OSError:
            continue
    return named


def done(target: Path) -> int:
    return len(list(target.glob("part-*.jsonl")))


def wait_until(target: Path, shards: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE
    while done(target) < shards:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.timeout(2400)
def test_workers_and_driver_die_and_the_shards_are_those_of_a_quiet_run(
    files: Path, tmp_path: Path, cluster: tuple[str, int]
) -> None:
    """As many workers as there are CPUs: this must not hang."""
    assert start(files, tmp_path / "whole").wait(PATIENCE) == 1
    target = tmp_path / "ray"
    driver = start(files, target, "--ray")
    wait_until(target, 2, driver)
    killed = actors(cluster[1])
    assert killed
    for process in killed:
        os.kill(process, signal.SIGKILL)
    wait_until(target, 4, driver)
    driver.kill()
    driver.wait()
    assert done(target) < FILES + 1
    (target / "part-000099-0123456789ab.parquet").write_bytes(b"PAR1 half")
    assert start(files, target, "--ray").wait(PATIENCE) == 1, "one file is broken"
    assert shard_bytes(target) == shard_bytes(tmp_path / "whole")
    letters = [folder / "dead-letters.parquet" for folder in (target, tmp_path / "whole")]
    assert letters[0].read_bytes() == letters[1].read_bytes()


@pytest.mark.timeout(1200)
def test_a_report_with_costs_and_an_index_equal_to_the_direct_one(files: Path, tmp_path: Path) -> None:
    report = as_json(
        "encode", files, "--parquet", tmp_path / "shards", "--ray", "--ray-workers", "1", *TEXT, code=1
    )
    assert (report["pages"], report["failed"], report["workers"], report["restarts"]) == (30, 1, 1, 0)
    assert report["pages_per_s"] > 0
    assert report["pages_per_core_s"] > 0
    vsplade("index", "--from-parquet", tmp_path / "shards", "--index", tmp_path / "b")
    vsplade("index", files, "--index", tmp_path / "a", *TEXT, code=1)
    assert content(Index.open(tmp_path / "b")) == content(Index.open(tmp_path / "a"))


@pytest.mark.timeout(1200)
def test_what_cannot_be_is_told(files: Path, tmp_path: Path) -> None:
    target = ("--parquet", tmp_path / "shards")
    told = as_json("encode", files, *target, "--ray", "--ray-gpus", "64", *TEXT, code=2)
    assert "--ray-gpus" in told["error"]
    told = as_json("encode", files, *target, "--ray-address", "127.0.0.1:1", *TEXT, code=2)
    assert "127.0.0.1:1" in told["error"]
    assert (
        "--parquet" in as_json("encode", files, "--output", tmp_path / "x", "--ray", *TEXT, code=2)["error"]
    )
    assert not (tmp_path / "shards").exists()


def test_a_file_over_which_workers_die_is_given_up_alone(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a cluster: the worker is called as Ray would call it, again after each death."""
    from vsplade.encode import load_encoder
    from vsplade.exchange.shard_folder import ShardFolder
    from vsplade.scale import ray_encode
    from vsplade.scale.encode_run import run_tasks
    from vsplade.scale.encode_shard import EncodeOptions, TaskDone, do_task
    from vsplade.scale.encode_tasks import EncodeTask
    from vsplade.store.identity import EncoderIdentity

    class Death(BaseException):
        pass

    def deadly(task: EncodeTask, *rest: object) -> TaskDone:
        if any(file.path.endswith("r3.pdf") for file in task.files):
            raise Death
        return do_task(task, *rest)  # type: ignore[arg-type]

    attempts = ray_encode.Attempts()
    encoder, folder = load_encoder("text"), ShardFolder(tmp_path / "shards")
    identity = EncoderIdentity.of(encoder)
    job = ray_encode.RayJob(folder.where, "text", identity, EncodeOptions(), 1, ())
    monkeypatch.setattr(os, "cpu_count", os.cpu_count)  # the worker changes it
    monkeypatch.setattr(ray_encode, "do_task", deadly)
    monkeypatch.setattr(ray_encode.RayWorker, "_begun", lambda self, task: attempts.begin(task.stem))

    def work(tasks: object) -> Iterator[TaskDone]:
        for task in tasks:  # type: ignore[attr-defined]
            while True:
                try:
                    yield ray_encode.RayWorker(job, None)._do(task)
                    break
                except Death:
                    continue

    report = run_tasks([str(files)], identity, folder, work, lambda done, total: None)
    assert report.pages_in_all == 3 * (FILES - 1)
    assert sorted(Path(problem.path).name for problem in report.problems) == ["broken.pdf", "r3.pdf"]
    assert any("workers died over this file" in problem.reason for problem in report.problems)
    assert attempts.deaths() > ray_encode.ATTEMPTS
