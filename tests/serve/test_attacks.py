"""What the server does with those who mean it harm."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from tests.serve.conftest import EXAMPLES, KEY, Start

from vsplade.errors import InputError
from vsplade.serve.gate import Gate
from vsplade.serve.library import Library
from vsplade.serve.paths import inside
from vsplade.serve.settings import Settings, check_exposure

PDF = (EXAMPLES / "table.pdf").read_bytes()


# -- who may ask ------------------------------------------------------------------------------------------


def test_without_a_key_the_server_stays_on_this_machine() -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        check_exposure(host, ())
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(InputError, match="--key-file"):
            check_exposure(host, ())
        check_exposure(host, (KEY,))


def test_short_keys_are_refused() -> None:
    with pytest.raises(InputError, match="at least"):
        Settings("i", "u", keys=("12345",))


def test_keys_guard_everything_but_the_empty_page(start: Start) -> None:
    client = start(keys=(KEY,)).client
    for address in (
        "/v1/search?q=a",
        "/v1/status",
        "/v1/documents",
        "/v1/pages/report_1/image",
        "/metrics",
        "/v1/jobs",
        "/v1/documents/report/file",
    ):
        answer = client.get(address)
        assert answer.status_code == 401, address
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert client.get(address, headers={"authorization": f"Bearer {KEY}"}).status_code == 200, address
        for wrong in (f"Bearer {KEY[:-1]}", f"Bearer {KEY}x", f"Basic {KEY}", "Bearer", "Bearer ", KEY):
            assert client.get(address, headers={"authorization": wrong}).status_code == 401
    for address in ("/", "/health", "/static/app.js"):
        assert client.get(address).status_code == 200
    assert client.put("/v1/documents/x.pdf", content=PDF).status_code == 401
    assert client.delete("/v1/documents/report").status_code == 401
    assert client.post("/embed_sparse", json={"inputs": "a"}).status_code == 401


def test_a_browser_logs_in_with_a_cookie_that_is_not_the_key(start: Start) -> None:
    client = start(keys=(KEY,)).client
    assert client.post("/v1/session", json={"key": "not the key at all"}).status_code == 401
    answer = client.post("/v1/session", json={"key": KEY})
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 204
    assert KEY not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert client.get("/v1/status").status_code == 200
    value = client.cookies["vsplade_session"]
    for forged in (
        value[:-1] + "0",
        "9999999999." + value.split(".")[1],
        "1." + value.split(".")[1],
        "x",
        "",
    ):
        client.cookies.clear()
        assert client.get("/v1/status", headers={"cookie": f"vsplade_session={forged}"}).status_code == (
            200 if forged == value else 401
        )


def test_all_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(first: bytes, second: bytes) -> bool:
        compared.append(first)
        return first == second

    monkeypatch.setattr("vsplade.serve.gate.hmac.compare_digest", compare)
    keys = ("the-first-long-key-of-all", "the-second-long-key-of-all")
    gate = Gate(None, Settings("i", "u", keys=keys), None, None)  # type: ignore[arg-type]
    assert gate.knows(keys[0].encode())
    assert compared == [key.encode() for key in keys]  # no early end at the one that fits


def test_keys_are_never_shown(start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    server = start(keys=(KEY,))
    good = {"authorization": f"Bearer {KEY}"}
    server.client.get("/v1/search?q=a", headers=good)
    server.client.get("/v1/pages/none/image", headers=good)
    server.client.get(f"/v1/search?q={KEY}")
    shown = capfd.readouterr()
    assert KEY not in shown.out + shown.err
    assert KEY not in repr(server.settings)
    assert KEY not in server.client.get("/openapi.json").text


# -- from where -------------------------------------------------------------------------------------------


def test_names_that_others_own_are_refused(start: Start) -> None:
    """DNS rebinding: a page elsewhere lets its own name point to this machine."""
    client = start(hosts=("search.example.org",)).client
    for host in (
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "search.example.org.evil",
        "127.0.0.1.evil.example",
        "",
    ):
        assert client.get("/v1/status", headers={"host": host}).status_code == 403, host
    for host in (
        "localhost",
        "localhost:8000",
        "127.0.0.1:8000",
        "[::1]:8000",
        "search.example.org",
        "SEARCH.example.org:443",
        "10.1.2.3",
    ):
        assert client.get("/v1/status", headers={"host": host}).status_code == 200, host


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://localhost.evil.example", "http://localhost:9999"]
)
def test_other_sites_change_nothing_and_read_nothing(start: Start, origin: str) -> None:
    client = start().client
    headers = {"origin": origin, "host": "localhost"}
    assert client.put("/v1/documents/x.pdf", content=PDF, headers=headers).status_code == 403
    assert client.delete("/v1/documents/report", headers=headers).status_code == 403
    assert client.post("/v1/search", json={"query": "a"}, headers=headers).status_code == 403
    read = client.get("/v1/search?q=a", headers=headers)
    assert "access-control-allow-origin" not in read.headers
    assert read.headers["cross-origin-resource-policy"] == "same-origin"
    preflight = client.options(
        "/v1/documents/x.pdf", headers={**headers, "access-control-request-method": "PUT"}
    )
    assert preflight.status_code in (403, 405)
    assert "access-control-allow-origin" not in preflight.headers


def test_a_form_cannot_send_json(start: Start) -> None:
    client = start().client
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert (
            client.post("/v1/search", content=b'{"query": "a"}', headers={"content-type": kind}).status_code
            == 415
        )


def test_every_answer_has_the_headers_that_browsers_obey(start: Start) -> None:
    client = start().client
    for address in (
        "/",
        "/static/app.js",
        "/v1/search?q=a",
        "/v1/search",
        "/nothing",
        "/v1/pages/report_1/image",
        "/v1/documents/report/file",
    ):
        headers = client.get(address).headers
        assert headers["x-content-type-options"] == "nosniff", address
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"], address
    policy = client.get("/").headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy  # nothing from elsewhere


def test_the_page_asks_nobody_else() -> None:
    folder = Path(__file__).parents[2] / "src" / "vsplade" / "serve" / "static"
    for path in folder.iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, path
        assert "https://" not in text, path
        assert "innerHTML" not in text, path
        assert " style=" not in text, path
        assert " onclick=" not in text, path


# -- how much ---------------------------------------------------------------------------------------------


def test_limits_are_kept(start: Start) -> None:
    client = start(
        limits={"query_chars": 50, "batch": 3, "k": 20, "request_bytes": 2000, "upload_bytes": 5000}
    ).client
    assert client.get("/v1/search", params={"q": "a" * 51}).status_code == 400
    assert client.get("/v1/search", params={"q": "a", "k": 21}).status_code == 400
    assert client.post("/v1/search", json={"queries": ["a"] * 4}).status_code == 400
    assert client.post("/v1/search", json={"query": "a", "filter": "x" * 3000}).status_code == 413
    assert client.get("/v1/search", params={"q": "a", "filter": "k=" + "x" * 1100}).status_code == 400
    assert client.get("/v1/search?q=a" + "&filter=a=b" * 200).status_code == 400
    assert client.get("/v1/pages/report_1/places", params={"q": "a" * 51}).status_code == 400
    assert client.post("/embed_sparse", json={"inputs": ["a"] * 4}).status_code == 400
    assert client.put("/v1/documents/x.pdf", content=PDF + b" " * 5000).status_code == 413
    assert client.get("/v1/search?q=" + "a" * 20_000).status_code == 400
    assert client.get("/v1/status", headers={"x-large": "a" * 40_000}).status_code == 431


def test_an_upload_that_lies_about_its_size_is_cut_off(start: Start, tmp_path: Path) -> None:
    server = start(limits={"upload_bytes": 5000})

    def parts() -> object:
        yield b"%PDF-1.7\n"
        for _ in range(100):
            yield b"x" * 1000

    assert server.client.put("/v1/documents/x.pdf", content=parts()).status_code == 413
    assert not list((Path(server.settings.uploads) / ".incoming").iterdir())


def test_too_many_jobs_are_refused(start: Start) -> None:
    server = start(limits={"jobs": 2})
    server.stop.set()  # nobody works them off
    server._thread.join()
    assert [server.client.put(f"/v1/documents/x{n}.pdf", content=PDF).status_code for n in range(3)] == [
        202,
        202,
        429,
    ]
    assert server.client.put("/v1/documents/y.pdf", content=PDF).headers["retry-after"]


def test_too_many_waiting_requests_are_sent_away(start: Start) -> None:
    server = start(limits={"waiting": 1})
    original = Library.run

    async def busy(self: Library, work: object) -> object:
        self._working = 1
        try:
            return await original(self, work)  # type: ignore[arg-type]
        finally:
            self._working = 0

    Library.run = busy  # type: ignore[method-assign, assignment]
    try:
        answer = server.client.get("/v1/facets")
    finally:
        Library.run = original  # type: ignore[method-assign]
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["code"] == "overloaded"


def test_deep_json_is_no_crash(start: Start) -> None:
    client = start().client
    for body in (
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"\xff\xfe",
        b"nul",
        b"{}",
        b'{"query": 1}',
        b'{"query": "a", "k": 1e400}',
        b'{"query": "\\ud800"}',
    ):
        assert (
            client.post("/v1/search", content=body, headers={"content-type": "application/json"}).status_code
            == 400
        )


# -- paths and names --------------------------------------------------------------------------------------

BAD_NAMES = [
    "..%2F..%2Fetc%2Fpasswd.pdf",
    "%2Fetc%2Fpasswd.pdf",
    "..%5C..%5Cx.pdf",
    "a%2Fb.pdf",
    ".hidden.pdf",
    "..pdf",
    "x%00.pdf",
    "x%0d%0aset-cookie:a.pdf",
    "x%1b[31m.pdf",
    "%e2%80%a8.pdf",
    "x" * 250 + ".pdf",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_lead_elsewhere_are_refused(start: Start, name: str) -> None:
    server = start()
    before = sorted(Path(server.settings.uploads).parent.rglob("*.pdf"))
    answer = server.client.put(f"/v1/documents/{name}", content=PDF)
    assert answer.status_code in (400, 404, 415), name
    assert "set-cookie" not in answer.headers
    assert sorted(Path(server.settings.uploads).parent.rglob("*.pdf")) == before


@pytest.mark.parametrize("name", ["x.exe", "x.svg", "x.html", "x.zip", "x.pdf.html", "x", "x.js"])
def test_other_formats_are_refused(start: Start, name: str) -> None:
    assert start().client.put(f"/v1/documents/{name}", content=PDF).status_code == 415


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.png", b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"></svg>'),
        ("x.jpg", b"<!doctype html><script>alert(1)</script>"),
        ("x.pdf", b"<html>" + b" " * 2000 + b"%PDF-1.7"),
        ("x.gif", b"\x89PNG\r\n\x1a\n" + b"0" * 100),
        ("x.webp", b"RIFF0000WAVE"),
        ("x.tif", b"PK\x03\x04"),
        ("x.png", b""),
    ],
)
def test_what_poses_as_a_page_is_refused(start: Start, name: str, content: bytes) -> None:
    assert start().client.put(f"/v1/documents/{name}", content=content).status_code in (400, 415)


def test_paths_outside_the_roots_are_refused_alike(start: Start, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret.pdf").write_bytes(PDF)
    (root / "link.pdf").symlink_to(outside / "secret.pdf")
    (root / "folder").symlink_to(outside)
    (tmp_path / "rootless").mkdir()
    (tmp_path / "rootless" / "x.pdf").write_bytes(PDF)
    client = start(roots=(str(root),)).client
    told = set()
    for path in (
        str(outside / "secret.pdf"), str(outside / "nothing.pdf"), "../outside/secret.pdf",
        "/etc/passwd", "/etc/nothing",
        "link.pdf", "folder/secret.pdf", "folder", str(root / ".." / "outside"), "..",
        str(tmp_path / "rootless" / "x.pdf"),
    ):  # fmt: skip
        answer = client.post("/v1/documents", json={"paths": [path]})
        assert answer.status_code == 403, path
        told.add(answer.text)
    assert len(told) == 1  # whether something is there is not told
    for path in ("a\0b.pdf", ""):
        assert client.post("/v1/documents", json={"paths": [path]}).status_code == 400
    assert client.post("/v1/documents", json={"paths": ["nothing.pdf"]}).status_code == 404


def test_links_inside_an_added_folder_do_not_lead_out(start: Start, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "files").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.pdf").write_bytes(PDF)
    (root / "files" / "good.pdf").write_bytes(PDF)
    (root / "files" / "link.pdf").symlink_to(outside / "secret.pdf")
    (root / "files" / "more").symlink_to(outside)
    server = start(roots=(str(root),))
    done = server.wait(server.client.post("/v1/documents", json={"paths": ["files"]}).json())
    assert done["report"]["new"] == 1
    assert {failure["reason"] for failure in done["report"]["failures"]} == {
        "leads out of the folders that files may be added from"
    }
    assert {one["doc_id"] for one in server.client.get("/v1/documents").json()["documents"]} & {
        "secret",
        "link",
    } == set()


def test_without_roots_no_path_is_added(start: Start) -> None:
    assert start().client.post("/v1/documents", json={"paths": [str(EXAMPLES)]}).status_code == 403


def test_inside_follows_links(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "ab").mkdir()
    assert inside(str(tmp_path / "a" / "x"), (str(tmp_path / "a"),))
    assert not inside(str(tmp_path / "ab"), (str(tmp_path / "a"),))
    assert not inside(str(tmp_path / "a" / ".." / "ab"), (str(tmp_path / "a"),))


def test_a_file_that_became_another_is_not_served(start: Start, tmp_path: Path) -> None:
    server = start()
    server.wait(server.client.put("/v1/documents/mine.pdf", content=PDF).json())
    stored = Path(server.settings.uploads) / "mine.pdf"
    stored.unlink()
    stored.symlink_to("/etc/passwd")
    assert server.client.get("/v1/documents/mine/file").status_code == 404
    stored.unlink()
    stored.write_text("<script>alert(1)</script>")
    assert server.client.get("/v1/documents/mine/file").status_code == 404


def test_names_are_text_and_nothing_else(start: Start) -> None:
    """The page puts names in as text (a browser test looks); here they come back as they are, as JSON."""
    server = start()
    name = "<img src=x onerror=alert(1)>.pdf"
    done = server.wait(
        server.client.put("/v1/documents/%3Cimg%20src=x%20onerror=alert(1)%3E.pdf", content=PDF).json()
    )
    assert done["state"] == "done"
    listed = server.client.get("/v1/documents")
    assert listed.headers["content-type"] == "application/json"
    assert name in [one["name"] for one in listed.json()["documents"]]
    original = server.client.get("/v1/documents/%3Cimg%20src=x%20onerror=alert(1)%3E/file")
    assert "<" not in original.headers["content-disposition"]


def test_headers_cannot_be_split(start: Start) -> None:
    client = start().client
    for address in (
        "/v1/pages/x%0d%0aSet-Cookie:a=b/image",
        "/v1/documents/x%0d%0aX-A:b/file",
        "/v1/search?q=%0d%0aX-A:b",
    ):
        answer = client.get(address)
        assert "set-cookie" not in answer.headers
        assert "x-a" not in answer.headers


# -- bombs ------------------------------------------------------------------------------------------------


def _png_bomb(side: int = 60_000) -> bytes:
    """A few kilobytes that decode to gigabytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(10_000_000)))
        + chunk(b"IEND", b"")
    )


def _pdf_bomb() -> bytes:
    """A page whose content is deflated several times over: kilobytes become gigabytes."""
    body = bytes(50_000_000).replace(b"\0", b" ")
    for _ in range(3):
        body = zlib.compress(body, 9)
    filters = b"[/FlateDecode /FlateDecode /FlateDecode]"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 14400000 14400000] /Contents 4 0 R >>",
        b"<< /Length %d /Filter %s >>\nstream\n%s\nendstream" % (len(body), filters, body),
    ]
    text = b"%PDF-1.7\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(text))
        text += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(text)
    text += b"xref\n0 5\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    return text + b"trailer << /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start


def test_bombs_cost_one_job_and_nothing_else(start: Start) -> None:
    server = start(limits={"seconds": 20})
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.pdf", bytes(20_000_000))
    assert server.client.put("/v1/documents/bomb.zip", content=zipped.getvalue()).status_code == 415
    assert server.client.put("/v1/documents/zip.pdf", content=zipped.getvalue()).status_code == 415
    picture = server.wait(server.client.put("/v1/documents/bomb.png", content=_png_bomb()).json())
    assert picture["state"] == "failed"
    assert "pixels" in picture["error"], picture
    paper = server.wait(
        server.client.put("/v1/documents/paper-bomb.pdf", content=_pdf_bomb()).json(), seconds=120
    )
    assert paper["state"] == "done"  # rendered small
    assert server.client.get("/v1/search?q=turbine").json()["hits"]


# -- raw bytes --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_raw_nonsense_leaves_the_server_standing(program: object) -> None:
    server = program().ready()  # type: ignore[operator]
    host, port = server.url.split("/")[2].split(":")
    for raw in (
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n",
        b"PUT /v1/documents/x.pdf HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        os.urandom(2000),
    ):
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.settimeout(2)
            connection.sendall(raw)
            with contextlib.suppress(TimeoutError, ConnectionError):
                connection.recv(4096)
    import httpx

    assert httpx.get(server.url + "health").status_code == 200
