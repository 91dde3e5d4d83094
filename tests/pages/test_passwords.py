"""Protected PDFs: opened with a password that was given, and a password is never told or kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.pages.samples import write_pdf

from vsplade import Index, index_paths
from vsplade.errors import InputError, PageError
from vsplade.pages.passwords import VARIABLE, known_passwords, read_passwords, use_passwords
from vsplade.pages.pdf import NEEDS_PASSWORD
from vsplade.pages.viewer import PageViewer

SECRET = "Fünf-Wörter sehr geheim"


@pytest.fixture(autouse=True)
def no_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    write_pdf(folder / "locked.pdf", "turbine maintenance", password="alpha")
    write_pdf(folder / "other.pdf", "harbour tide", password=SECRET)
    write_pdf(folder / "open.pdf", "rings of saturn")
    return folder


def test_each_file_opens_with_its_own_password(files: Path, tmp_path: Path) -> None:
    use_passwords(["wrong", "alpha", SECRET])
    report = index_paths([files], tmp_path / "index", "text")
    assert (report.pages, list(report.failures)) == (3, [])
    hit = Index.open(tmp_path / "index").search("turbine")[0]
    assert hit.doc_id == "locked"
    viewer = PageViewer()
    try:
        assert viewer.view(str(files / "locked.pdf"), 1, 200, words=True).words[0].text == "turbine"
    finally:
        viewer.close()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file())
    assert b"alpha" not in kept
    assert SECRET.encode() not in kept


def test_a_missing_and_a_wrong_password_are_that_file_s_problem(files: Path, tmp_path: Path) -> None:
    report = index_paths([files], tmp_path / "index", "text")
    assert report.pages == 1
    assert {Path(one.path).name: one.reason for one in report.failures} == dict.fromkeys(
        ("locked.pdf", "other.pdf"),
        NEEDS_PASSWORD,
    )
    use_passwords(["alpha", "never"])
    again = index_paths([files], tmp_path / "index", "text")
    assert [Path(one.path).name for one in again.failures] == ["other.pdf"]
    assert again.failures[0].reason == "is protected by a password, and none of those given (2) opens it"
    assert "never" not in str(again)
    viewer = PageViewer()
    try:
        with pytest.raises(PageError, match="none of those given"):
            viewer.view(str(files / "other.pdf"))
    finally:
        viewer.close()


def test_the_command_line_takes_them_from_a_file(files: Path, tmp_path: Path) -> None:
    listed = tmp_path / "passwords.txt"
    listed.write_text(f"alpha\r\n\n{SECRET}\n")
    command = [sys.executable, "-m", "vsplade", "index", str(files), "--index", str(tmp_path / "index")]
    done = subprocess.run(
        [*command, "--encoder", "text", "--password-file", str(listed)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "alpha" not in done.stdout + done.stderr
    shown = subprocess.run(
        [
            sys.executable,
            "-m",
            "vsplade",
            "inspect",
            str(files / "locked.pdf"),
            "--encoder",
            "text",
            "--password",
            "alpha",
        ],
        capture_output=True,
        text=True,
    )
    assert "turbine" in shown.stdout


def test_what_is_no_password_is_refused(tmp_path: Path) -> None:
    for wrong in ("", "a\nb", "x" * 128):
        with pytest.raises(InputError, match="one line"):
            use_passwords([wrong])
    with pytest.raises(InputError, match="too many"):
        use_passwords(map(str, range(101)))
    assert known_passwords() == []
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(InputError, match="no password"):
        read_passwords(tmp_path / "empty")
