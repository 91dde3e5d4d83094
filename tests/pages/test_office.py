"""Office files, HTML and EPUB through LibreOffice, which hostile documents cannot turn against anyone."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vsplade import Index, index_paths
from vsplade.pages import FileProblem, Limits, RenderedPage, name_files, office, render
from vsplade.pages.office import missing_office

pytestmark = pytest.mark.skipif(
    missing_office() is not None, reason=f"needs {missing_office()} (LibreOffice)"
)

JAIL = Path(office.__file__).with_name("office_jail.py")
ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" '
    'xmlns:xlink="http://www.w3.org/1999/xlink" '
    'xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"'
)
OPF = (
    '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="one.xhtml"/>'
    '<item id="b" href="two.xhtml"/></manifest><spine><itemref idref="b"/>'
    '<itemref idref="a"/></spine></package>'
)


@pytest.fixture(autouse=True)
def _kept_here(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VSPLADE_CACHE", str(tmp_path_factory.mktemp("cache")))


def open_document(path: Path, kind: str, body: str) -> Path:
    """An ODF file: ``kind`` is text, spreadsheet or presentation."""
    mime = f"application/vnd.oasis.opendocument.{kind}"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", mime)
        archive.writestr(
            "META-INF/manifest.xml",
            '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
            f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{mime}"/>'
            '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/>'
            "</manifest:manifest>",
        )
        content = (
            f"<office:document-content {ODF}><office:body><office:{kind}>{body}</office:{kind}></office:body>"
        )
        archive.writestr("content.xml", content + "</office:document-content>")
    return path


def word_document(path: Path, text: str) -> Path:
    types = "http://schemas.openxmlformats.org/package/2006/content-types"
    relations = "http://schemas.openxmlformats.org/package/2006/relationships"
    main = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{types}"><Default Extension="rels" ContentType="application/vnd.openxmlformats-'
            'package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="application/'
            'vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{relations}"><Relationship Id="r" Type="http://schemas.openxmlformats.org/'
            'officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>',
        )
        archive.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{main}"><w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>'
            "</w:document>",
        )
    return path


def book(path: Path, package: str = OPF, name: str = "OEBPS/one.xhtml") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
        )
        archive.writestr("OEBPS/book.opf", package)
        for chapter, text in ((name, "The second chapter"), ("OEBPS/two.xhtml", "The keeper of the light")):
            archive.writestr(chapter, f"<html><body><p>{text}</p></body></html>")
    return path


def pages(*files: Path, limits: Limits | None = None) -> list[RenderedPage | FileProblem]:
    given = limits or Limits(max_seconds=200)
    return list(render(name_files(map(str, files)), 600, grey=True, limits=given, workers=1))


def texts(*files: Path) -> list[str]:
    found = pages(*files)
    return [(page.page.text or "") if isinstance(page, RenderedPage) else page.reason for page in found]


def test_each_kind_becomes_pages(tmp_path: Path) -> None:
    said = "The keeper of the light"
    paragraph = f"<text:p>{said}</text:p>"
    (tmp_path / "a.html").write_text(f"<!doctype html><p>{said}</p>")
    (tmp_path / "b.rtf").write_text(rf"{{\rtf1\ansi {said}\par}}")
    word_document(tmp_path / "c.docx", said)
    open_document(tmp_path / "d.odt", "text", paragraph)
    row = f'<table:table-row><table:table-cell office:value-type="string">{paragraph}</table:table-cell>'
    open_document(
        tmp_path / "e.ods",
        "spreadsheet",
        f'<table:table table:name="t">{row}</table:table-row></table:table>',
    )
    frame = '<draw:frame svg:width="10cm" svg:height="5cm" svg:x="1cm" svg:y="1cm"><draw:text-box>'
    slide = f'<draw:page draw:name="s">{frame}{paragraph}</draw:text-box></draw:frame></draw:page>'
    open_document(tmp_path / "f.odp", "presentation", slide)
    book(tmp_path / "g.epub")
    found = pages(*sorted(tmp_path.iterdir()))
    shown = [(page.page.id, page.page.text) for page in found if isinstance(page, RenderedPage)]
    assert [id for id, _ in shown] == ["a_1", "b_1", "c_1", "d_1", "e_1", "f_1", "g_1", "g_2"], found
    for id, text in shown[:-1]:
        assert said in (text or ""), id
    assert "second chapter" in (shown[-1][1] or ""), "in the order of the book, not of the archive"
    images = [page.page.image for page in found if isinstance(page, RenderedPage)]
    assert all(sum(image.histogram()[:200]) > 20 for image in images), "there is ink"


def by_libreoffice(source: Path, suffix: str) -> Path:
    """A real file of a kind that cannot be written by hand, made of another one."""
    program = shutil.which("soffice") or shutil.which("libreoffice")
    assert program is not None
    profile = f"-env:UserInstallation={(source.parent / 'profile').as_uri()}"
    command = [program, profile, "--headless", "--convert-to", suffix, source.name]
    subprocess.run(command, cwd=source.parent, check=True, capture_output=True, timeout=120)
    return source.with_suffix(f".{suffix}")


def test_files_that_libreoffice_wrote_are_found(tmp_path: Path) -> None:
    """The kinds of Microsoft Office, old and new."""
    paragraph = "<text:p>Whale oil for the lamp</text:p>"
    letter = open_document(tmp_path / "letter.odt", "text", paragraph)
    row = f'<table:table-row><table:table-cell office:value-type="string">{paragraph}</table:table-cell>'
    table = f'<table:table table:name="t">{row}</table:table-row></table:table>'
    stores = open_document(tmp_path / "stores.ods", "spreadsheet", table)
    frame = '<draw:frame svg:width="20cm" svg:height="5cm" svg:x="1cm" svg:y="1cm"><draw:text-box>'
    slide = f"{frame}{paragraph}</draw:text-box></draw:frame></draw:page>"
    slides = "".join(f'<draw:page draw:name="{name}">{slide}' for name in "ab")
    talk = open_document(tmp_path / "talk.odp", "presentation", slides)
    kinds = ((letter, "doc"), (stores, "xls"), (stores, "xlsx"), (talk, "ppt"), (talk, "pptx"))
    files = [by_libreoffice(source, suffix) for source, suffix in kinds]
    report = index_paths(files, tmp_path / "index", "text", limits=Limits(max_seconds=200))
    assert (report.pages, report.failures) == (7, ())
    hits = Index.open(tmp_path / "index").search('"whale oil"', k=20)
    found = [(Path(str(hit.metadata["path"])).name, hit.page_num) for hit in hits]
    one_page = [(name, 1) for name in ("letter.doc", "stores.xls", "stores.xlsx", "talk.ppt", "talk.pptx")]
    assert sorted(found) == sorted([*one_page, ("talk.ppt", 2), ("talk.pptx", 2)])


def test_a_file_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office, "_folder", lambda: tmp_path)
    path = tmp_path / "a.html"
    path.write_text("<p>once</p>")
    first = office.to_pdf(str(path), Limits(max_seconds=200))
    monkeypatch.setattr(office, "_convert", lambda *given: pytest.fail("converted again"))
    assert office.to_pdf(str(path), Limits()) == first
    assert [file.name for file in tmp_path.iterdir() if file.is_dir()] == [], "nothing is left over"
    monkeypatch.setattr(office, "KEPT_BYTES", 10)
    (tmp_path / "newer.pdf").write_bytes(b"x" * 20)
    office._forget_oldest(tmp_path)
    assert not Path(first).exists(), "the oldest goes first"
    assert (tmp_path / "newer.pdf").exists(), "the newest stays"


@pytest.fixture
def listener() -> Iterator[tuple[int, list[object]]]:
    """A server that notes who comes."""
    visits: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                visits.append(address)
                connection.close()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], visits


def test_documents_fetch_nothing_and_read_no_other_file(
    tmp_path: Path, listener: tuple[int, list[object]]
) -> None:
    port, visits = listener
    secret = tmp_path / "secret.txt"
    secret.write_text("the-secret-of-this-machine")
    url = f"http://127.0.0.1:{port}"
    (tmp_path / "links.html").write_text(
        f'<html><head><link rel="stylesheet" href="{url}/style.css"></head><body><p>visible</p>'
        f'<img src="{url}/x.png"><iframe src="{secret.as_uri()}"></iframe><object data="{secret.as_uri()}">'
        f'</object><img src="{secret.as_uri()}"></body></html>'
    )
    section = (
        '<text:section text:name="{0}"><text:section-source xlink:href="{1}"/><text:p>kept</text:p>'
        "</text:section>"
    )
    open_document(
        tmp_path / "links.odt",
        "text",
        "<text:p>visible</text:p>"
        + section.format("a", secret.as_uri())
        + section.format("b", f"{url}/x.txt")
        + f'<text:p><draw:frame svg:width="5cm" svg:height="5cm"><draw:image xlink:href="{url}/y.png"/>'
        "</draw:frame></text:p>",
    )
    found = texts(tmp_path / "links.html", tmp_path / "links.odt")
    assert all("visible" in text for text in found), found
    assert not any("the-secret" in text for text in found), found
    assert not visits


def in_jail(folder: Path, script: str, seconds: int = 5) -> subprocess.CompletedProcess[str]:
    limits = [str(seconds), str(1 << 30), str(1 << 20)]
    command = [sys.executable, "-I", str(JAIL), *limits, str(folder), "/bin/bash", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_jail_holds(tmp_path: Path, listener: tuple[int, list[object]]) -> None:
    port, visits = listener
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_text("secret")
    assert in_jail(inside, f"echo made > {inside}/file; cat {inside}/file").stdout == "made\n"
    for script in (
        f"cat {tmp_path}/secret",
        f"ls {tmp_path}",
        f"echo x > {tmp_path}/new",
        f"rm {tmp_path}/secret",
        "cat /proc/1/environ",
        "cat /etc/shadow",
        f"ln -s {tmp_path}/secret {inside}/link; cat {inside}/link",
        f"exec 3<>/dev/tcp/127.0.0.1/{port}",
        f"cp /bin/true {inside}/program && {inside}/program",
        f"head -c 2000000 /dev/zero > {inside}/large",
    ):
        ended = in_jail(inside, script)
        assert ended.returncode != 0, script
        assert "secret\n" not in ended.stdout, script
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inside", "secret"]
    assert not visits
    assert in_jail(inside, "while :; do :; done", seconds=1).returncode in (-signal.SIGXCPU, -signal.SIGKILL)


def test_what_is_started_ends_with_who_started_it(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-I",
        str(JAIL),
        "60",
        str(1 << 30),
        "1000",
        str(tmp_path),
        "/bin/sleep",
        "100",
    ]
    script = f"import subprocess, time; print(subprocess.Popen({command!r}).pid, flush=True); time.sleep(100)"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    until = time.monotonic() + 60
    while Path(f"/proc/{child}/comm").read_text() != "sleep\n":  # the jail is closed
        assert time.monotonic() < until
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    while Path(f"/proc/{child}").exists() and Path(f"/proc/{child}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < until, "it lives on"
        time.sleep(0.05)


def test_keys_and_passwords_are_not_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
        given.update(options)
        return subprocess.CompletedProcess(command, 1, b"", b"")

    monkeypatch.setenv("VSPLADE_KEY", "a-key")
    monkeypatch.setattr(office.subprocess, "run", run)
    path = tmp_path / "a.html"
    path.write_text("<p>x</p>")
    with pytest.raises(office.PageError):
        office.to_pdf(str(path), Limits())
    assert set(given["env"]) == {"HOME", "TMPDIR", "PATH", "LANG"}  # type: ignore[call-overload]


def test_what_is_no_office_file_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(b"<html><script>alert(1)</script></html>")
    (tmp_path / "b.html").write_bytes(b"PK\x03\x04" + bytes(100))
    (tmp_path / "c.doc").write_bytes(b"%PDF-1.7")
    with zipfile.ZipFile(tmp_path / "d.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", bytes(3_000_000))
    entities = '<!DOCTYPE package [<!ENTITY a "aaaaaaaaaa">]>' + OPF
    book(tmp_path / "e.epub", entities)
    book(tmp_path / "f.epub", OPF.replace("itemref idref", "itemref id"))
    (tmp_path / "g.epub").write_bytes(b"PK\x03\x04" + bytes(100))
    found = pages(*sorted(tmp_path.iterdir()), limits=Limits(max_bytes=1_000_000))
    reasons = [result.reason for result in found if isinstance(result, FileProblem)]
    assert len(reasons) == len(found) == 7, found
    assert all("although its name says so" in reason for reason in reasons[:3])
    assert "unpacks to 3,000,000 bytes, above the limit" in reasons[3]
    assert "entities" in reasons[4]
    assert all("EPUB" in reason for reason in reasons[5:]), reasons


def test_a_book_writes_nowhere_else(tmp_path: Path) -> None:
    evil = book(
        tmp_path / "evil.epub", OPF.replace("one.xhtml", "../../../evil.xhtml"), "../../../evil.xhtml"
    )
    found = office.office_epub.unpack(str(evil), tmp_path / "a" / "b" / "c")
    assert len(found) == 2
    assert set(tmp_path.rglob("*.*html")) <= set((tmp_path / "a/b/c").rglob("*"))
    assert sorted(os.listdir(tmp_path)) == ["a", "evil.epub"]
