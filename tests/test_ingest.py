"""The job: skip, replace, prune, resume after ctrl-C and kill -9, and a report that says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from pages.conftest import HOSTILE
from pages.encoder import WordEncoder
from pages.samples import drawing, pdf_bytes, write_pdf
from vsplade.errors import InputError, ModelMismatchError, VspladeError
from vsplade.ingest import IngestReport, index_paths
from vsplade.pages import Limits, process
from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter
from vsplade.types import Page, SparseVector

TESTS = Path(__file__).parent


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    write_pdf(tmp_path / "docs" / "a.pdf", "apple pie", "apple juice")
    write_pdf(tmp_path / "docs" / "sub" / "b.pdf", "banana bread", "banana split", "banana boat")
    drawing().save(tmp_path / "docs" / "pic.png")
    return tmp_path / "docs"


@pytest.fixture
def where(tmp_path: Path) -> Path:
    return tmp_path / "index"


def run(
    paths: Path | list[Path], where: Path, encoder: WordEncoder | None = None, **options: object
) -> IngestReport:
    given = paths if isinstance(paths, list) else [paths]
    return index_paths(given, where, encoder or WordEncoder(), workers=1, **options)  # type: ignore[arg-type]


def found(where: Path, words: str) -> list[str]:
    return sorted(hit.id for hit in Index.open(where, WordEncoder()).search(words, k=100))


def ids(where: Path) -> list[str]:
    return sorted(Index.open(where, WordEncoder()).ids())


def counts(report: IngestReport) -> tuple[int, int, int, int, int]:
    return report.new, report.updated, report.skipped, report.removed, report.failed


def test_first_run_indexes_and_second_skips(docs: Path, where: Path) -> None:
    report = run(docs, where)
    assert counts(report) == (6, 0, 0, 0, 0)
    assert (report.files, report.pages, report.empty) == (3, 6, 1)
    assert ids(where) == ["a_1", "a_2", "b_1", "b_2", "b_3", "pic"]
    assert found(where, "banana") == ["b_1", "b_2", "b_3"]
    (hit,) = Index.open(where, WordEncoder()).search("split")
    assert (hit.doc_id, hit.page_num) == ("b", 2)
    encoder = WordEncoder()
    again = run(docs, where, encoder)
    assert counts(again) == (0, 0, 6, 0, 0)
    assert again.pages == 6
    assert encoder.seen == []


def test_metadata_of_a_page(docs: Path, where: Path) -> None:
    run(docs, where, metadata={"year": 2024})
    stored = dict(Index.open(where, WordEncoder()).metadata("b_2"))
    digest = stored.pop("hash")
    assert isinstance(digest, str)
    assert len(digest) == 32
    assert stored == {
        "path": str(docs / "sub" / "b.pdf"),
        "doc_id": "b",
        "page_num": 2,
        "pages": 3,
        "width": 300,
        "height": 400,
        "year": 2024,
    }


def test_changed_metadata_is_an_update(docs: Path, where: Path) -> None:
    run(docs, where, metadata={"year": 2024})
    assert counts(run(docs, where, metadata={"year": 2024})) == (0, 0, 6, 0, 0)

    def by_path(path: str) -> dict[str, int]:
        return {"year": 2025 if path.endswith("a.pdf") else 2024}

    assert counts(run(docs, where, metadata=by_path)) == (0, 2, 4, 0, 0)
    assert Index.open(where, WordEncoder()).metadata("a_1")["year"] == 2025


def test_without_metadata_files_keep_theirs(docs: Path, where: Path) -> None:
    run(docs, where, metadata={"year": 2024})
    encoder = WordEncoder()
    assert counts(run(docs, where, encoder)) == (0, 0, 6, 0, 0)
    assert encoder.seen == []
    write_pdf(docs / "a.pdf", "apple tart", "apple juice")
    assert counts(run(docs, where)) == (0, 2, 4, 0, 0)
    assert Index.open(where, WordEncoder()).metadata("a_1")["year"] == 2024
    assert counts(run(docs, where, metadata={})) == (0, 6, 0, 0, 0)
    assert "year" not in Index.open(where, WordEncoder()).metadata("a_1")


def test_reserved_metadata_is_refused(docs: Path, where: Path) -> None:
    with pytest.raises(InputError, match="'path' is taken"):
        run(docs, where, metadata={"path": "x"})


def test_changed_file_is_replaced(docs: Path, where: Path) -> None:
    run(docs, where)
    write_pdf(docs / "sub" / "b.pdf", "cherry cake", "banana split")
    encoder = WordEncoder()
    report = run(docs, where, encoder)
    assert counts(report) == (0, 2, 3, 1, 0)
    assert encoder.seen == ["b_1", "b_2"]
    assert ids(where) == ["a_1", "a_2", "b_1", "b_2", "pic"]
    assert found(where, "banana") == ["b_2"]
    assert found(where, "cherry") == ["b_1"]


def test_same_content_with_a_new_date_is_skipped(docs: Path, where: Path) -> None:
    run(docs, where)
    os.utime(docs / "a.pdf", (1, 1))
    assert counts(run(docs, where)) == (0, 0, 6, 0, 0)


def test_damaged_update_keeps_the_old_pages_and_is_tried_again(docs: Path, where: Path) -> None:
    run(docs, where)
    (docs / "a.pdf").write_bytes(pdf_bytes(["apple", "x"])[:40])
    report = run(docs, where)
    assert counts(report) == (0, 0, 4, 0, 1)
    assert found(where, "apple") == ["a_1", "a_2"]
    write_pdf(docs / "a.pdf", "apricot jam")
    assert counts(run(docs, where)) == (0, 1, 4, 1, 0)
    assert found(where, "apple") == []
    assert found(where, "apricot") == ["a_1"]


def test_tiff_that_grows_changes_its_ids(docs: Path, where: Path) -> None:
    drawing().save(docs / "t.tif")
    run(docs, where)
    assert "t" in ids(where)
    drawing().save(docs / "t.tif", save_all=True, append_images=[drawing()])
    run(docs, where)
    assert "t" not in ids(where)
    assert {"t_1", "t_2"} <= set(ids(where))


def test_prune(docs: Path, where: Path) -> None:
    run(docs, where)
    (docs / "sub" / "b.pdf").unlink()
    assert counts(run(docs, where)) == (0, 0, 3, 0, 0)
    assert found(where, "banana") == ["b_1", "b_2", "b_3"]
    assert counts(run(docs, where, prune=True)) == (0, 0, 3, 3, 0)
    assert ids(where) == ["a_1", "a_2", "pic"]
    assert counts(run(docs, where, prune=True)) == (0, 0, 3, 0, 0)


def test_prune_of_named_files_and_of_everything(docs: Path, where: Path) -> None:
    run(docs, where)
    (docs / "a.pdf").unlink()
    report = run([docs / "a.pdf", docs / "pic.png"], where, prune=True)
    assert counts(report) == (0, 0, 1, 2, 0)
    (docs / "pic.png").unlink()
    (docs / "sub" / "b.pdf").unlink()
    assert run(docs, where, prune=True).removed == 4
    assert ids(where) == []


def test_prune_spares_files_elsewhere_and_folders_out_of_reach(docs: Path, where: Path) -> None:
    other = write_pdf(docs.parent / "share" / "c.pdf", "coconut")
    run([docs, other.parent], where)
    other.parent.rename(docs.parent / "unmounted")
    report = run([docs, other.parent], where, prune=True)
    assert report.removed == 0
    assert [problem.reason for problem in report.failures] == ["does not exist"]
    assert found(where, "coconut") == ["c_1"]


def test_prune_spares_what_it_may_not_look_at(
    docs: Path, where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(docs, where)
    (docs / "a.pdf").unlink()
    real = os.lstat

    def guarded(path: str, **options: object) -> os.stat_result:
        if str(path).endswith("a.pdf"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", guarded)
        assert run(docs, where, prune=True).removed == 0
    assert run(docs, where, prune=True).removed == 2


def test_moved_file_keeps_its_id_when_pruned(docs: Path, where: Path) -> None:
    run(docs, where)
    (docs / "a.pdf").rename(docs / "sub" / "a.pdf")
    assert counts(run(docs, where, prune=True)) == (0, 0, 6, 0, 0)
    assert "a_1" in ids(where)


def test_shared_stems_do_not_collide_and_keep_their_names(docs: Path, where: Path) -> None:
    run(docs, where)
    write_pdf(
        docs / "aa" / "a.pdf", "avocado"
    )  # sorts after a.pdf; but also the one named first must keep it
    write_pdf(docs / "A" / "a.pdf", "almond")
    run(docs, where)
    assert found(where, "apple") == ["a_1", "a_2"]
    (avocado,), (almond,) = found(where, "avocado"), found(where, "almond")
    assert avocado.startswith("a~")
    assert almond.startswith("a~")
    assert avocado != almond
    assert counts(run(docs, where)) == (0, 0, 8, 0, 0)


def test_failures_are_listed_and_retried(docs: Path, where: Path) -> None:
    write_pdf(docs / "locked.pdf", "secret", password="x")
    write_pdf(docs / "partly.pdf", "date", "dill", "dragonfruit", broken_pages=[2])
    report = run(docs, where)
    assert counts(report) == (8, 0, 0, 0, 2)
    locked, partly = sorted(report.failures, key=lambda problem: problem.path)
    assert "password" in locked.reason
    assert (partly.path, partly.page) == (str(docs / "partly.pdf"), 2)
    encoder = WordEncoder()
    again = run(docs, where, encoder)
    assert counts(again) == (0, 0, 8, 0, 2)
    assert encoder.seen == []
    write_pdf(docs / "locked.pdf", "open secret")
    write_pdf(docs / "partly.pdf", "date", "dill", "dragonfruit")
    assert counts(run(docs, where)) == (1, 3, 6, 0, 0)
    assert found(where, "secret dill") == ["locked_1", "partly_2"]


def test_crash_of_the_renderer_costs_that_file_only(
    docs: Path, where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "worker_command", lambda: HOSTILE)
    write_pdf(docs / "abort.pdf", "never")
    write_pdf(docs / "hang.pdf", "never")
    report = run(docs, where, limits=Limits(max_seconds=1.0))
    assert counts(report) == (6, 0, 0, 0, 2)
    assert ["SIGABRT" in problem.reason for problem in report.failures] == [True, False]
    assert "took longer than" in report.failures[1].reason
    monkeypatch.undo()
    assert counts(run(docs, where)) == (2, 0, 6, 0, 0)


def test_report_as_json(docs: Path, where: Path) -> None:
    write_pdf(docs / "zero.pdf")
    stored = json.loads(json.dumps(run(docs, where).to_json()))
    assert stored["failed"] == 1
    assert stored["failures"] == [{"path": str(docs / "zero.pdf"), "reason": "has no pages", "page": None}]
    assert (stored["pages"], stored["new"], stored["skipped"], stored["removed"]) == (6, 6, 0, 0)
    assert stored["pages_per_s"] == pytest.approx(6 / stored["seconds"], rel=0.05)


def test_progress_counts_up_to_its_own_estimate(
    docs: Path, where: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[tuple[int, int]] = []
    run(docs, where, progress=lambda done, expected: told.append((done, expected)))
    assert [done for done, _ in told] == [1, 2, 3, 4, 5, 6, 6]
    assert all(expected >= done for done, expected in told)
    assert told[-1] == (6, 6)
    write_pdf(docs / "c.pdf", "cherry", "currant")
    run(docs, where, progress=True)
    assert "2/2" in capsys.readouterr().err


def test_thumbnails_and_pixels(docs: Path, where: Path) -> None:
    encoder = WordEncoder(longest_edge=100, batch=4)
    run(docs, where, encoder, thumbnails=32)
    assert sorted(encoder.sizes) == [(75, 100)] * 5 + [(100, 50)]
    small = Index.open(where, WordEncoder()).thumbnail("a_1")
    assert small is not None
    assert small[:2] == b"\xff\xd8"


def test_index_inside_the_folder_is_not_indexed(docs: Path) -> None:
    run(docs, docs / "index", thumbnails=32)
    drawing().save(docs / "index" / "stray.png")
    assert counts(run(docs, docs / "index")) == (0, 0, 6, 0, 0)


def test_nothing_to_index_is_an_error_and_makes_no_index(tmp_path: Path, where: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere does not exist\."):
        run(tmp_path / "nowhere", where)
    (tmp_path / "bare").mkdir()
    with pytest.raises(InputError, match="no pages"):
        run(tmp_path / "bare", where)
    drawing().save(tmp_path / "bare" / "page.png")
    with pytest.raises(InputError, match="a folder of its own"):
        run(tmp_path / "bare", tmp_path / "bare")
    assert [path.name for path in (tmp_path / "bare").iterdir()] == ["page.png"]
    assert not where.exists()


def test_another_encoder_is_refused(docs: Path, where: Path) -> None:
    run(docs, where)
    with pytest.raises(ModelMismatchError):
        run(docs, where, WordEncoder(fingerprint="w2"))


def test_index_names_its_own_encoder(docs: Path, where: Path) -> None:
    index_paths([docs / "a.pdf"], where, "text:k1=0.5", workers=1)
    index_paths([docs], where, workers=1)
    assert Index.open(where).identity.name == "text:k1=0.5"
    assert sorted(hit.id for hit in Index.open(where).search("banana")) == ["b_1", "b_2", "b_3"]


class Interrupted(WordEncoder):
    """Stops the job after some pages."""

    def __init__(self, after: int, error: BaseException) -> None:
        super().__init__()
        self.after, self.error = after, error

    def _encode(self, page: Page) -> SparseVector:
        if len(self.seen) == self.after:
            raise self.error
        return super()._encode(page)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), VspladeError("out of luck")])
@pytest.mark.parametrize("after", [0, 1, 3, 4])
def test_stopped_run_keeps_what_it_did_and_goes_on(
    docs: Path, where: Path, error: BaseException, after: int
) -> None:
    with pytest.raises(type(error)):
        run(docs, where, Interrupted(after, error))
    assert len(ids(where)) == after
    encoder = WordEncoder()
    assert counts(run(docs, where, encoder)) == (6 - after, 0, after, 0, 0)
    assert len(encoder.seen) == 6 - after
    assert len(ids(where)) == 6


def test_stopped_update_goes_on(docs: Path, where: Path) -> None:
    run(docs, where)
    write_pdf(docs / "sub" / "b.pdf", "cherry", "citrus", "clementine", "currant")
    with pytest.raises(KeyboardInterrupt):
        run(docs, where, Interrupted(2, KeyboardInterrupt()))
    assert found(where, "banana") == []
    assert counts(run(docs, where)) == (2, 0, 5, 0, 0)
    assert found(where, "cherry citrus clementine currant") == ["b_1", "b_2", "b_3", "b_4"]


class Miscounting(WordEncoder):
    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        vectors = list(super().encode_pages(pages))
        yield from vectors[:-1]


def test_encoder_that_loses_a_page_is_found_out(docs: Path, where: Path) -> None:
    with pytest.raises(VspladeError, match="no vector for some pages"):
        run(docs, where, Miscounting())


KILLED_RUN = """
import sys
sys.path.insert(0, sys.argv[1])
from pages.encoder import WordEncoder
from vsplade.ingest import index_paths
index_paths([sys.argv[2]], sys.argv[3], WordEncoder(seconds=0.01), workers=1, commit_pages=5,
            progress=lambda done, expected: print(done, flush=True))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_killed_run_goes_on_where_it_stopped(tmp_path: Path, where: Path, sign: signal.Signals) -> None:
    """Two long files; the run is stopped twice in the middle, then once more after the first file changed."""
    one = write_pdf(tmp_path / "docs" / "one.pdf", *[f"unus p{n}" for n in range(60)])
    write_pdf(tmp_path / "docs" / "two.pdf", *[f"duo p{n}" for n in range(60)])
    kept = 0
    for stop_at in (23, 61):
        _run_and_kill(tmp_path / "docs", where, stop_at, sign)
        now = len(ids(where))
        assert kept < now < 120
        kept = now
        assert Index.open(where, WordEncoder()).check() == []
    write_pdf(one, *[f"unus q{n}" for n in range(50)])
    _run_and_kill(tmp_path / "docs", where, 20, sign)
    encoder = WordEncoder()
    report = run(tmp_path / "docs", where, encoder)
    assert report.pages == 110
    assert 0 < len(encoder.seen) < 110
    assert len(ids(where)) == 110
    assert found(where, "unus") == sorted(f"one_{n}" for n in range(1, 51))
    assert found(where, "q7") == ["one_8"]
    assert found(where, "p7") == ["two_8"]
    assert counts(run(tmp_path / "docs", where)) == (0, 0, 110, 0, 0)


def _run_and_kill(docs: Path, where: Path, stop_at: int, sign: signal.Signals) -> None:
    script = [sys.executable, "-c", KILLED_RUN, str(TESTS), str(docs), str(where)]
    job = subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert job.stdout is not None
    for line in job.stdout:
        if int(line) >= stop_at:
            break
    job.send_signal(sign)
    job.stdout.close()
    assert job.wait(60) != 0, "the run ended before it could be killed"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_many_random_kills_lose_nothing(tmp_path: Path, where: Path) -> None:
    import random

    chance = random.Random(5)
    docs = tmp_path / "docs"
    lengths = {}
    for round_number in range(40):
        name = f"f{chance.randrange(5)}"
        lengths[name] = chance.randrange(5, 60)
        write_pdf(docs / f"{name}.pdf", *[f"{name} r{round_number}" for _ in range(lengths[name])])
        script = [sys.executable, "-c", KILLED_RUN, str(TESTS), str(docs), str(where)]
        job = subprocess.Popen(script, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.random() * 2.5)
        job.kill()
        job.wait()
    run(docs, where)
    assert ids(where) == sorted(
        f"{name}_{n}" for name, length in lengths.items() for n in range(1, length + 1)
    )
    assert Index.open(where, WordEncoder()).check() == []


# -- files that change under our hands, and files that move ------------------------------------------------


class Editing(WordEncoder):
    """Calls ``edit`` when it sees its first page."""

    def __init__(self, edit: Callable[[], object]) -> None:
        super().__init__()
        self.edit: Callable[[], object] | None = edit

    def _encode(self, page: Page) -> SparseVector:
        if self.edit is not None:
            self.edit()
            self.edit = None
        return super()._encode(page)


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path, where: Path) -> None:
    """It is as before when the next run looks: only its times say that other bytes were read meanwhile."""
    path = write_pdf(tmp_path / "docs" / "a.pdf", "apple pie", "apple juice")
    content = path.read_bytes()

    def edit() -> None:
        write_pdf(path, "banana bread", "banana boat")
        path.write_bytes(content)
        os.utime(path, ns=(1, 1))

    report = run(path, where, Editing(edit))
    assert report.failed == 1
    assert report.failures[0].path == str(path)
    assert "changed while it was read; the next run reads it again" in report.failures[0].reason
    encoder = WordEncoder()
    assert counts(run(path, where, encoder)) == (0, 2, 0, 0, 0)
    assert encoder.seen == ["a_1", "a_2"]
    assert counts(run(path, where)) == (0, 0, 2, 0, 0)
    assert found(where, "apple") == ["a_1", "a_2"]


def test_a_file_that_is_replaced_while_it_is_read(tmp_path: Path, where: Path) -> None:
    path = write_pdf(tmp_path / "docs" / "a.pdf", "apple pie")
    other = write_pdf(tmp_path / "other.pdf", "apple tea")
    assert run(path, where, Editing(lambda: os.replace(other, path))).failed == 1
    assert counts(run(path, where)) == (0, 1, 0, 0, 0)
    assert found(where, "tea") == ["a_1"]


def everything(where: Path) -> dict[str, tuple[object, ...]]:
    index = Index.open(where, WordEncoder())
    return {
        id: (dict(metadata), vector.terms.tolist(), vector.weights.tolist(), index.thumbnail(id))
        for id, vector, metadata in index.pages_with_metadata()
    }


@pytest.mark.parametrize("prune", [False, True])
def test_moved_and_renamed_files_keep_their_pages(
    docs: Path, where: Path, tmp_path: Path, prune: bool
) -> None:
    write_pdf(docs / "sub" / "a.pdf", "almond")  # of the same name as another
    run(docs, where, metadata={"year": 2024}, thumbnails=16)
    docs.rename(tmp_path / "papers")
    papers = tmp_path / "papers"
    (papers / "sub" / "b.pdf").rename(papers / "bananas.pdf")
    (papers / "pic.png").rename(papers / "sub" / "picture.png")
    encoder = WordEncoder()
    report = run(papers, where, encoder, thumbnails=16, prune=prune)
    assert encoder.seen == []
    assert counts(report) == (0, 0, 7, 0, 0)
    assert report.moved == 7
    run(papers, tmp_path / "fresh", metadata={"year": 2024}, thumbnails=16)
    assert everything(where) == everything(tmp_path / "fresh")
    assert Index.open(where).check() == []
    again = run(papers, where, prune=prune)
    assert (counts(again), again.moved) == ((0, 0, 7, 0, 0), 0)
    records = Index.open(where).state("file:")
    assert all(key.startswith(f"file:{papers}") for key in records)


def test_a_moved_file_gets_the_metadata_of_this_run(docs: Path, where: Path) -> None:
    run(docs, where, metadata={"year": 2024, "kind": "x"})
    (docs / "a.pdf").rename(docs / "z.pdf")
    encoder = WordEncoder()
    run(docs / "z.pdf", where, encoder, metadata={"year": 2025})
    assert encoder.seen == []
    stored = Index.open(where).metadata("z_1")
    assert (stored["year"], stored["path"], stored["doc_id"]) == (2025, str(docs / "z.pdf"), "z")
    assert "kind" not in stored


def test_a_copy_is_no_move(docs: Path, where: Path) -> None:
    run(docs, where)
    (docs / "copy.pdf").write_bytes((docs / "a.pdf").read_bytes())
    assert counts(run(docs, where)) == (2, 0, 6, 0, 0)
    assert found(where, "apple") == ["a_1", "a_2", "copy_1", "copy_2"]


def test_a_deleted_page_stays_away_when_its_file_moves(docs: Path, where: Path) -> None:
    run(docs, where)
    with IndexWriter(where) as writer:
        writer.delete("b_2")
    (docs / "sub" / "b.pdf").rename(docs / "moved.pdf")
    run(docs, where)
    assert found(where, "banana") == ["moved_1", "moved_3"]


def test_a_stopped_run_after_a_move_loses_nothing(docs: Path, where: Path) -> None:
    run(docs, where)
    (docs / "a.pdf").rename(docs / "moved.pdf")
    write_pdf(docs / "new.pdf", "nectarine", "nut")
    with pytest.raises(KeyboardInterrupt):
        run(docs, where, Interrupted(1, KeyboardInterrupt()))
    run(docs, where)
    assert ids(where) == ["b_1", "b_2", "b_3", "moved_1", "moved_2", "new_1", "new_2", "pic"]


def test_pages_of_a_damaged_segment_are_not_moved_but_read(
    docs: Path, where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from store.test_keeping import damage
    from vsplade.store import file_names, snapshot

    run(docs, where)
    damage(file_names.own_files(where, "segment")[0])
    monkeypatch.setattr(snapshot, "VERIFY_UP_TO", 0)  # as a large segment
    (docs / "a.pdf").rename(docs / "moved.pdf")
    encoder = WordEncoder()
    run(docs, where, encoder)
    assert encoder.seen == ["moved_1", "moved_2"]
