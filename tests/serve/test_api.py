"""What the API answers to those who use it as it is meant."""

from __future__ import annotations

import errno
import io
import shutil
import threading
import time
from pathlib import Path

import pytest
from PIL import Image, ImageStat
from starlette.testclient import TestClient
from tests.pages.samples import write_pdf
from tests.serve.conftest import EXAMPLES, Start
from tests.store.test_keeping import damage

from vsplade import Index, IndexWriter, index_paths
from vsplade.client import OutOfReach, SearchResult
from vsplade.client.answers import read_as
from vsplade.errors import VspladeWarning
from vsplade.ingest.recover import recover
from vsplade.pages.office import missing_office
from vsplade.serve.app import create_app
from vsplade.serve.library import Library
from vsplade.serve.settings import Settings
from vsplade.store.file_names import own_files


def test_search_finds_what_the_index_finds(looking: TestClient, made: Path) -> None:
    answer = looking.get(
        "/v1/search", params={"q": "maintenance of the turbine", "k": 3, "explain": "true"}
    ).json()
    expected = Index.open(made).search("maintenance of the turbine", k=3)
    assert [(hit["id"], hit["score"]) for hit in answer["hits"]] == [(hit.id, hit.score) for hit in expected]
    first = answer["hits"][0]
    assert first["name"] == "report.pdf"
    assert first["page_num"] == 2
    assert sum(match["product"] for match in first["matches"]) == pytest.approx(first["score"], rel=1e-5)


def test_words_are_told_found_in_part_or_not(looking: TestClient, made: Path) -> None:
    answer = looking.get("/v1/search", params={"q": "turbine zyxwvut", "explain": "true"}).json()
    assert answer["words"] == [
        {"word": "turbine", "status": "found"},
        {"word": "zyxwvut", "status": "not found"},
    ]
    assert "No page holds 'zyxwvut'" in answer["message"]
    assert answer["hits"][0]["words"] == answer["words"]
    nothing = looking.get("/v1/search", params={"q": "zyxwvut"}).json()
    assert nothing["hits"] == []
    assert nothing["message"].startswith("Nothing found")
    noted = looking.get("/v1/search", params={"q": "turbine AND saturn"}).json()
    assert noted["notes"]
    assert noted["notes"][0].startswith("AND is searched for as a word")
    fine = looking.get("/v1/search", params={"q": "turbine"}).json()
    assert (fine["notes"], fine["message"]) == ([], None)
    # A filter counts: the word stands on other pages only.
    filtered = looking.get("/v1/search", params={"q": "turbine saturn", "filter": "kind=slides"}).json()
    index = Index.open(made)
    expected = index.look_up("turbine saturn", "kind=slides")
    assert [(word["word"], word["status"]) for word in filtered["words"]] == [
        (word.word, word.status) for word in expected
    ]
    assert "not found" in {word["status"] for word in filtered["words"]}


def test_a_least_score_of_400_digits_is_refused(looking: TestClient) -> None:
    for digits in ("1" + "0" * 400, "1e999", "NaN", "true"):
        body = f'{{"query": "turbine", "min_score": {digits}}}'
        answer = looking.post("/v1/search", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request"), digits
    above = looking.get("/v1/search", params={"q": "turbine", "min_score": "1e300"}).json()
    assert above["message"].startswith("Nothing found: no page has a score of 1e+300")


def test_words_only_leaves_meaning_out(tmp_path: Path) -> None:
    index_paths([EXAMPLES / "report.pdf", EXAMPLES / "slides.pdf"], tmp_path / "i", "reader")
    app = create_app(Settings(str(tmp_path / "i"), str(tmp_path / "u"), read_only=True))
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    asked = {"q": "repair of the turbine", "explain": "true", "k": "1"}
    both = client.get("/v1/search", params=asked).json()["hits"][0]
    words = client.get("/v1/search", params={**asked, "words_only": "true"}).json()["hits"][0]
    assert both["score"] > words["score"]
    meant = [match for match in both["matches"] if match["term"] < 0]
    assert "maintenance" in meant[0]["meant_by"]["repair"]
    assert all(match["term"] >= 0 for match in words["matches"])
    assert sum(match["product"] for match in both["matches"]) == pytest.approx(both["score"], rel=1e-4)
    # With a filter, both depend on the best page that passes it.
    narrow = {"q": asked["q"], "filter": ["doc_id=slides", "page_num>=2"]}
    found = client.get("/v1/search", params={**narrow, "explain": "true"}).json()["hits"][0]
    told = client.get("/v1/explain", params={**narrow, "id": found["id"]}).json()
    assert told["score"] == pytest.approx(found["score"], rel=1e-4)
    assert client.get("/v1/explain", params={"q": "a", "id": "b", "filter": "?"}).status_code == 400
    # The same of any page, and on its picture the words that are meant are marked.
    explained = client.get("/v1/explain", params={"q": asked["q"], "id": both["id"]}).json()
    assert explained["score"] == pytest.approx(both["score"], rel=1e-4)
    place = f"/v1/pages/{both['id']}/places"
    marked, bare = (
        {
            mark["text"].lower()
            for mark in client.get(place, params={"q": "repair", "words_only": only}).json()["marks"]
        }
        for only in ("false", "true")
    )
    assert "maintenance" in marked
    assert "maintenance" not in bare
    assert client.get("/v1/status").json()["by_meaning"] is True


def test_pages_with_a_lower_score_are_left_out(looking: TestClient, made: Path) -> None:
    asked = "maintenance of the turbine"
    hits = Index.open(made).search(asked)
    assert len(hits) > 2
    least = hits[1].score
    kept = [hit.id for hit in hits[:2]]
    answers = [
        looking.get("/v1/search", params={"q": asked, "min_score": least}).json(),
        looking.post("/v1/search", json={"query": asked, "min_score": least}).json(),
        looking.post("/v1/search", json={"queries": [asked], "min_score": least}).json()["results"][0],
    ]
    for answer in answers:
        assert [hit["id"] for hit in answer["hits"]] == kept
    for wrong in ("much", "nan", "-1", "inf"):
        assert looking.get("/v1/search", params={"q": asked, "min_score": wrong}).status_code == 400
    for wrong in (True, "1", -1):
        assert looking.post("/v1/search", json={"query": asked, "min_score": wrong}).status_code == 400


def test_get_and_post_and_batch_agree(looking: TestClient) -> None:
    def without_time(answer: dict[str, object]) -> dict[str, object]:
        return {key: value for key, value in answer.items() if key != "took_ms"}

    one = looking.get("/v1/search", params={"q": "rings of saturn", "filter": "kind=slides"}).json()
    posted = looking.post(
        "/v1/search", json={"query": "rings of saturn", "filter": {"kind": "slides"}}
    ).json()
    many = looking.post(
        "/v1/search", json={"queries": ["rings of saturn", "tide"], "filter": "kind=slides"}
    ).json()
    assert one["hits"]
    assert without_time(one) == without_time(posted) == without_time(many["results"][0])
    assert len(many["results"]) == 2


def test_filters_hold(looking: TestClient) -> None:
    every = looking.get("/v1/search", params={"q": "the harbour tide", "k": 50}).json()["hits"]
    prose = looking.get(
        "/v1/search", params={"q": "the harbour tide", "k": 50, "filter": "kind=prose"}
    ).json()["hits"]
    assert {hit["metadata"]["kind"] for hit in every} > {"prose"}
    assert {hit["metadata"]["kind"] for hit in prose} == {"prose"}
    facets = {facet["key"]: facet for facet in looking.get("/v1/facets").json()["facets"]}
    assert set(facets) == {"kind", "year"}
    assert {"value": "prose", "pages": 4} in facets["kind"]["values"]


def test_paths_of_the_server_are_not_told_unless_asked_for(
    looking: TestClient, start: Start, made: Path
) -> None:
    for address in (
        "/v1/search?q=turbine&snippets=true",
        "/v1/documents",
        "/v1/status",
        "/v1/pages/report_2",
    ):
        assert str(made.parent) not in looking.get(address).text
    open_server = start(show_paths=True)
    assert "/report.pdf" in open_server.client.get("/v1/search?q=turbine").text


def test_explain_is_about_any_page(looking: TestClient) -> None:
    good = looking.get("/v1/explain", params={"q": "turbine", "id": "report_2"}).json()
    assert [match["token"] for match in good["matches"]] == ["turbine"]
    assert looking.get("/v1/explain", params={"q": "turbine", "id": "table_1"}).json()["matches"] == []
    assert looking.get("/v1/explain", params={"q": "turbine", "id": "nothing"}).status_code == 404


def test_pages_are_shown_and_marked_where_the_words_stand(looking: TestClient) -> None:
    plain = Image.open(io.BytesIO(looking.get("/v1/pages/report_2/image", params={"edge": 800}).content))
    assert max(plain.size) == 800
    small = looking.get("/v1/pages/report_2/thumbnail")
    assert small.headers["content-type"] == "image/jpeg"
    places = looking.get("/v1/pages/report_2/places", params={"q": "turbine maintenance"}).json()
    assert places["text_layer"]
    assert {mark["text"].lower().strip(".,") for mark in places["marks"]} == {"turbine", "maintenance"}
    left, top, right, bottom = places["marks"][0]["box"]  # "Maintenance of the turbine", the heading
    assert 0.1 < left < 0.2
    assert 0.08 < top < bottom < 0.13
    start, end = places["snippet"]["marks"][0]
    assert places["snippet"]["text"][start:end] == "Maintenance"
    marked = Image.open(
        io.BytesIO(
            looking.get("/v1/pages/report_2/image", params={"edge": 800, "q": "turbine maintenance"}).content
        )
    )
    corners = [
        round(side * size) for side, size in zip((left, top, right, bottom), plain.size * 2, strict=True)
    ]

    def colour(picture: Image.Image, box: list[int]) -> list[float]:
        return ImageStat.Stat(picture.convert("RGB").crop(tuple(box))).mean

    before, after = colour(plain, corners), colour(marked, corners)
    assert before[2] - after[2] > 60  # yellow: the blue is gone, the red stays
    assert abs(before[0] - after[0]) < 40
    below = [corners[0], plain.height - 100, corners[2], plain.height - 50]
    assert colour(plain, below) == pytest.approx(colour(marked, below), abs=2)


def test_pictures_are_kept_by_browsers(looking: TestClient) -> None:
    first = looking.get("/v1/pages/report_1/image?edge=300")
    again = looking.get("/v1/pages/report_1/image?edge=300", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_documents_and_the_original(looking: TestClient) -> None:
    listed = looking.get("/v1/documents").json()
    assert {one["doc_id"]: one["pages"] for one in listed["documents"]} == {
        "paper": 1,
        "report": 3,
        "slides": 4,
        "table": 1,
    }
    assert looking.get("/v1/documents?name=REP").json()["total"] == 1
    report = looking.get("/v1/documents/report").json()
    assert [page["id"] for page in report["page_ids"]] == ["report_1", "report_2", "report_3"]
    original = looking.get("/v1/documents/report/file")
    assert original.content == (EXAMPLES / "report.pdf").read_bytes()
    assert original.headers["content-type"] == "application/pdf"
    assert looking.get("/v1/pages/report_2/text").json()["text"].startswith("Maintenance of the turbine")


def test_embed_sparse_is_what_text_embeddings_inference_answers(looking: TestClient, made: Path) -> None:
    expected = Index.open(made).encode_query("tidal turbine")
    for address in ("/embed_sparse", "/v1/embed_sparse"):
        (one,) = looking.post(address, json={"inputs": "tidal turbine"}).json()
        assert [entry["index"] for entry in one] == expected.terms.tolist()
        assert [entry["value"] for entry in one] == pytest.approx(expected.weights.tolist())
    assert len(looking.post("/embed_sparse", json={"inputs": ["a tide", "turbine"]}).json()) == 2


def test_health_status_and_metrics(looking: TestClient) -> None:
    assert looking.get("/health").json() == {"status": "ok"}
    assert looking.get("/ready").status_code == 503  # nothing was warmed up here
    status = looking.get("/v1/status").json()
    assert (status["pages"], status["documents"], status["encoder"], status["read_only"]) == (
        9,
        4,
        "text",
        True,
    )
    text = looking.get("/metrics").text
    assert 'vsplade_requests_total{route="search",status="2xx"}' in text
    assert "vsplade_index_pages 9" in text


def test_a_damaged_part_is_told_with_every_answer(start: Start, tmp_path: Path) -> None:
    """The rest is searched, nothing is changed, and repair is noticed."""
    where, index = tmp_path / "docs", tmp_path / "pages.vsplade"
    for word in ("apple", "banana"):
        write_pdf(where / f"{word}.pdf", f"{word} pie")
        index_paths([where], index, "text", workers=1)
    damage(own_files(index, "segment")[1])
    with pytest.warns(VspladeWarning, match="1 of 2 pages"):
        server = start()
    client = server.client
    told = {
        "pages": 1,
        "segments": [own_files(index, "segment")[1].name],
        "files": ["banana.pdf"],
        "message": "1 of 2 pages are out of reach: a part of the index is damaged. "
        "Only the rest is searched.",
    }
    found = client.get("/v1/search", params={"q": "pie banana"}).json()
    assert [hit["name"] for hit in found["hits"]] == ["apple.pdf"]
    assert found["damaged"] == told
    assert found["message"].startswith("No page within reach holds 'banana'")
    assert client.post("/v1/search", json={"queries": ["pie"]}).json()["results"][0]["damaged"] == told
    assert client.get("/v1/status").json()["damaged"] == told
    assert "vsplade_index_pages_out_of_reach 1" in client.get("/metrics").text
    assert read_as(SearchResult, found).damaged == OutOfReach(
        1, tuple(told["segments"]), ("banana.pdf",), told["message"]
    )
    job = client.delete("/v1/documents/apple").json()
    assert (job["state"], "damaged" in job["error"]) == ("failed", True)
    recover(index)
    client.app._quick.__self__._library.refresh()  # what a running server does by itself
    found = client.get("/v1/search", params={"q": "pie"}).json()
    assert (found["damaged"], len(found["hits"])) == (None, 1)


def test_upload_search_replace_delete(start: Start) -> None:
    server = start()
    client = server.client
    job = client.put(
        "/v1/documents/mill.pdf",
        content=(EXAMPLES / "report.pdf").read_bytes(),
        params={"metadata": '{"kind": "new"}'},
    )
    assert job.status_code == 202
    done = server.wait(job.json())
    assert (done["state"], done["report"]["new"]) == ("done", 3)
    hits = client.get("/v1/search?q=turbine&filter=kind=new").json()["hits"]
    assert {hit["doc_id"] for hit in hits} == {"mill"}
    assert client.get("/v1/pages/mill_2/thumbnail").status_code == 200
    again = server.wait(
        client.put("/v1/documents/mill.pdf", content=(EXAMPLES / "table.pdf").read_bytes()).json()
    )
    assert (again["report"]["updated"], again["report"]["removed"]) == (1, 2)
    gone = client.delete("/v1/documents/mill")
    assert (gone.status_code, gone.json()["report"]) == (200, {"removed": 1})
    assert client.get("/v1/documents/mill").status_code == 404
    assert not (Path(server.settings.uploads) / "mill.pdf").exists()
    back = server.wait(
        client.put("/v1/documents/mill.pdf", content=(EXAMPLES / "table.pdf").read_bytes()).json()
    )
    assert back["report"]["new"] == 1


@pytest.mark.skipif(missing_office() is not None, reason="LibreOffice is not here")
def test_office_files_become_pages_and_are_never_shown_as_they_are(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = start(limits={"seconds": 200})
    html = b"<!doctype html><script>document.title='attack'</script><p>The quincunx of the orchard</p>"
    done = server.wait(server.client.put("/v1/documents/orchard.html", content=html).json(), 200)
    assert (done["state"], done["report"]["new"]) == ("done", 1), done
    (hit,) = server.client.get("/v1/search?q=quincunx").json()["hits"]
    assert (hit["id"], hit["name"]) == ("orchard_1", "orchard.html")
    assert server.client.get("/v1/pages/orchard_1/image?q=quincunx").headers["content-type"] == "image/jpeg"
    marks = server.client.get("/v1/pages/orchard_1/places?q=quincunx").json()["marks"]
    assert [mark["text"] for mark in marks] == ["quincunx"]
    original = server.client.get("/v1/documents/orchard/file")
    assert original.content == html
    assert original.headers["content-type"] == "application/octet-stream"
    assert original.headers["content-disposition"].startswith("attachment;")
    assert "sandbox" in original.headers["content-security-policy"]


def test_files_are_added_by_path(start: Start, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    (root / "2024").mkdir(parents=True)
    shutil.copy(EXAMPLES / "slides.pdf", root / "2024" / "stars.pdf")
    server = start(roots=(str(root),))
    done = server.wait(
        server.client.post("/v1/documents", json={"paths": ["2024"], "metadata": {"tag": "sky"}}).json()
    )
    assert (done["state"], done["report"]["new"]) == ("done", 4)
    assert server.client.get("/v1/search?q=saturn&filter=tag=sky").json()["hits"][0]["doc_id"] == "stars"
    # Removed, and then wanted again.
    assert server.client.delete("/v1/documents/stars").status_code == 200
    assert (root / "2024" / "stars.pdf").exists()
    again = server.wait(server.client.post("/v1/documents", json={"paths": [str(root)]}).json())
    assert again["report"]["new"] == 4


def test_what_cannot_be_read_is_told(start: Start) -> None:
    server = start()
    broken = b"%PDF-1.7\n" + b"nothing that makes sense " * 100
    failed = server.wait(server.client.put("/v1/documents/broken.pdf", content=broken).json())
    assert failed["state"] == "failed"
    assert "damaged" in failed["error"]
    problems = server.client.get("/v1/problems").json()["problems"]
    assert [(one["name"], one["page"]) for one in problems] == [("broken.pdf", None)]
    assert "damaged" in problems[0]["reason"]
    server.wait(
        server.client.put("/v1/documents/broken.pdf", content=(EXAMPLES / "table.pdf").read_bytes()).json()
    )
    assert server.client.get("/v1/problems").json()["problems"] == []


def test_a_failed_upload_leaves_the_file_of_its_name_as_it_was(start: Start) -> None:
    server = start()
    good = (EXAMPLES / "table.pdf").read_bytes()
    server.wait(server.client.put("/v1/documents/tides.pdf", content=good).json())
    broken = b"%PDF-1.7\n" + b"nothing that makes sense " * 100
    failed = server.wait(server.client.put("/v1/documents/tides.pdf", content=broken).json())
    assert failed["state"] == "failed"
    assert server.client.get("/v1/documents/tides/file").content == good
    (hit,) = server.client.get("/v1/search?q=gannet&filter=doc_id=tides").json()["hits"]
    assert server.client.get(f"/v1/pages/{hit['id']}/image").status_code == 200
    assert [path.name for path in Path(server.settings.uploads).rglob("*.former")] == []
    other = (EXAMPLES / "paper.pdf").read_bytes()
    server.wait(server.client.put("/v1/documents/tides.pdf", content=other).json())
    assert server.client.get("/v1/documents/tides/file").content == other
    assert [path.name for path in Path(server.settings.uploads).rglob("*.former")] == []


def test_a_full_disk_is_told(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start()

    def full(*args: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        refused = server.client.put("/v1/documents/t.pdf", content=(EXAMPLES / "table.pdf").read_bytes())
    assert (refused.status_code, refused.json()["error"]["code"]) == (507, "disk_full")
    assert [path for path in Path(server.settings.uploads).rglob("*") if path.is_file()] == []


def test_new_commits_are_seen_while_the_search_is_being_compiled(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that never searched before that takes a minute, and the first files come meanwhile."""
    compiled = threading.Event()

    def compile_slowly(library: Library) -> None:
        library.ready = compiled.wait(60)

    monkeypatch.setattr(Library, "warm_up", compile_slowly)
    folder = tmp_path / "pages.vsplade"
    shutil.copytree(made, folder)
    app = create_app(Settings(str(folder), str(tmp_path / "uploads")))
    with TestClient(app, base_url="http://localhost") as client:
        pages = client.get("/v1/status").json()["pages"]
        with IndexWriter(folder) as writer:
            writer.delete("report_2")
        until = time.monotonic() + 20
        while client.get("/v1/status").json()["pages"] == pages:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert client.get("/ready").status_code == 503
        compiled.set()


def test_an_empty_index_is_no_error(start: Start) -> None:
    server = start(empty=True)
    assert server.client.get("/v1/search?q=anything").json()["hits"] == []
    assert server.client.get("/v1/status").json()["pages"] == 0
    assert server.client.get("/v1/documents").json() == {"total": 0, "documents": []}


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("/v1/search", "?q="),
        ("/v1/search?q=", "1 to 1000"),
        ("/v1/search?q=a&k=0", "1 to 1000"),
        ("/v1/search?q=a&k=many", "whole number"),
        ("/v1/search?q=a&limit=3", "limit"),
        ("/v1/search?q=a&q=b", "twice"),
        ("/v1/search?q=%ff", "UTF-8"),
        ("/v1/search?q=a&filter=nonsense", "nonsense"),
        ("/v1/search?q=a&fuse=true", "text layers"),
        ("/v1/pages/report_1/image?edge=99999", "edge"),
        ("/v1/documents?limit=-1", "limit"),
    ],
)
def test_what_is_not_understood_is_refused_with_a_reason(
    looking: TestClient, address: str, told: str
) -> None:
    answer = looking.get(address)
    assert answer.status_code == 400
    assert told in answer.json()["error"]["message"]
