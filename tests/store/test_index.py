"""What a user of Index and IndexWriter sees, apart from rankings (test_against_oracle.py)."""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import weakref
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import FrozenInstanceError, asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from vsplade.errors import IndexFormatError, InputError, ModelMismatchError, StorageError
from vsplade.search.hits import Hit
from vsplade.search.index import Index
from vsplade.search.query_plan import MAX_TOP
from vsplade.store import manifest, pending
from vsplade.store.writer import IndexWriter
from vsplade.types import Encoder, Page, SparseVector, TermMatch, TermStatistics

from .oracle import identity, random_vector


class Letters:
    """An encoder whose words are letters: enough to search with text."""

    name = "letters"
    fingerprint = "abc"
    longest_edge = 0
    reads_grey = on_gpu = latin_only = False

    @property
    def vocabulary(self) -> Letters:
        return self

    def __len__(self) -> int:
        return 26

    def token(self, term: int) -> str:
        return chr(97 + term)

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        return (self.encode_query(page.text or "") for page in pages)

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        return SparseVector.from_dict({ord(letter) - 97: text.count(letter) for letter in text})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    encoder = Letters()
    with IndexWriter(tmp_path / "i", encoder) as writer:
        writer.add("a_1", encoder.encode_query("aab"), {"path": "a.pdf", "page_num": 1}, b"\xff\xd8jpeg")
        writer.add("a_2", encoder.encode_query("bcc"), {"path": "a.pdf", "page_num": 2, "doc_id": "A"})
        writer.add("z", encoder.encode_query("zzz"))
        writer.set_state("file:a.pdf", {"hash": "12", "pages": ["a_1", "a_2"]})
        writer.set_state("file:b.pdf", {"failed": "no pages"})
    return tmp_path / "i"


def test_words_to_hits_with_reasons(folder: Path) -> None:
    index = Index.open(folder, Letters())
    first, second = index.search("abbb")
    assert (first.id, first.score, first.doc_id, first.page_num) == ("a_1", 5.0, "a.pdf", 1)
    assert (second.id, second.score, second.doc_id, second.page_num) == ("a_2", 3.0, "A", 2)
    matches = first.explain()
    assert [(match.token, match.query_weight, match.page_weight) for match in matches] == [
        ("b", 3.0, 1.0),
        ("a", 1.0, 2.0),
    ]
    assert sum(match.product for match in matches) == first.score
    assert first.metadata == {"path": "a.pdf", "page_num": 1}
    assert index.search("") == []
    assert index.search("q") == []
    assert [hit.id for hit in index.search_batch(["a", "z", "", "b"], threads=2)[3]] == ["a_1", "a_2"]


def test_a_hit_reads_the_rest_when_looked_at(folder: Path) -> None:
    index = Index.open(folder, Letters())
    hit, same = index.search("abbb")[0], index.search("abbb")[0]
    plain = Hit(
        "a_1",
        5.0,
        "a.pdf",
        1,
        {"path": "a.pdf", "page_num": 1},
        [TermMatch("b", 1, 3.0, 1.0), TermMatch("a", 0, 1.0, 2.0)],
    )
    assert hit == same == plain
    assert plain == same
    assert hit != replace(hit, score=4.0)
    assert len({hit, same, plain}) == 1
    assert pickle.loads(pickle.dumps(index.search("abbb")[0])) == plain
    assert json.dumps(asdict(index.search("abbb")[0])) == json.dumps(asdict(plain))  # tuples are lists there
    assert repr(plain).removeprefix("Hit") == repr(index.search("abbb")[0]).removeprefix("StoredHit")
    with pytest.raises(FrozenInstanceError):
        hit.score = 1.0  # type: ignore[misc]
    with pytest.raises(AttributeError, match="'page'"):
        hit.page  # type: ignore[attr-defined]  # noqa: B018


def test_hits_outlive_the_commit_they_were_found_in(folder: Path) -> None:
    index = Index.open(folder, Letters())
    (hit,) = index.search("z")
    with IndexWriter(folder, Letters()) as writer:
        writer.delete("z")
        writer.add("a_1", Letters().encode_query("z"), {"path": "b.pdf"})
        writer.commit()
        writer.compact()
    index.refresh()
    assert (hit.doc_id, hit.page_num, hit.metadata) == ("z", 1, {})
    assert [match.token for match in hit.explain()] == ["z"]
    assert [found.doc_id for found in index.search("z")] == ["b.pdf"]


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_a_commit_that_nobody_reads_any_more_is_let_go_at_once(folder: Path, engine: str) -> None:
    """A server reads hundreds of commits; they must not wait for Python's collector."""
    index = Index.open(folder, engine=engine)
    index.search(SparseVector.from_dict({1: 1.0}), filter={"lang": "en"})
    old = weakref.ref(index._view)
    gc.disable()
    try:
        with IndexWriter(folder) as writer:
            writer.add("new", SparseVector.from_dict({1: 1.0}))
        assert index.refresh()
        assert old() is None
    finally:
        gc.enable()


def test_an_encoder_is_an_encoder() -> None:
    assert isinstance(Letters(), Encoder)


def test_lookups(folder: Path) -> None:
    index = Index.open(folder)
    assert len(index) == index.pages == 3
    assert "a_1" in index
    assert "b_1" not in index
    assert index.thumbnail("a_1") == b"\xff\xd8jpeg"
    assert index.thumbnail("z") is None
    assert list(index.ids({"path": "a.pdf"})) == ["a_1", "a_2"]
    assert list(index.ids("page_num>=2")) == ["a_2"]
    with pytest.raises(InputError, match="no page 'nope'"):
        index.metadata("nope")


def test_state_is_part_of_a_commit(folder: Path) -> None:
    index = Index.open(folder)
    assert index.state("file:") == {
        "file:a.pdf": {"hash": "12", "pages": ["a_1", "a_2"]},
        "file:b.pdf": {"failed": "no pages"},
    }
    with IndexWriter(folder) as writer:
        writer.set_state("file:b.pdf", None)
        for number in range(20):  # more commits than state files are kept
            writer.set_state("round", number)
            writer.commit()
        writer.set_state("lost", 1)
        writer.rollback()
        assert writer.state() == {"file:a.pdf": {"hash": "12", "pages": ["a_1", "a_2"]}, "round": 19}
    assert len(index.state("file:")) == 2
    assert index.refresh()
    assert index.state() == {"file:a.pdf": {"hash": "12", "pages": ["a_1", "a_2"]}, "round": 19}
    assert len(list(folder.glob("state-*"))) <= 9


def test_another_encoder_is_refused_with_advice(folder: Path) -> None:
    class Other(Letters):
        fingerprint = "new"

    class Renamed(Other):
        name = "marks"

    version = r"built with another version of the encoder 'letters' \(fingerprint abc.*Index the files again"
    another = r"built with the encoder 'letters' \(fingerprint abc.*not with 'marks'.*index the files again"
    for encoder, told in ((Other(), version), (Renamed(), another)):
        for attempt in (partial(Index.open, folder, encoder), partial(IndexWriter, folder, encoder)):
            with pytest.raises(ModelMismatchError, match=told):
                attempt()
    IndexWriter(folder).close()  # the refused writer has let go of the lock


def test_an_exception_leaves_the_last_commit(folder: Path) -> None:
    with pytest.raises(RuntimeError), IndexWriter(folder) as writer:  # noqa: PT012
        writer.delete("z")
        writer.flush()
        raise RuntimeError
    assert "z" in Index.open(folder)


def test_what_cannot_be_added_is_refused(folder: Path) -> None:
    good = Letters().encode_query("ab")
    u32, f32 = np.uint32, np.float32
    bad = [
        SparseVector(np.array([2, 1], u32), np.ones(2, f32)),
        SparseVector(np.array([1, 1], u32), np.ones(2, f32)),
        SparseVector(np.array([26], u32), np.ones(1, f32)),
        SparseVector(np.array([1], u32), np.array([0], f32)),
        SparseVector(np.array([1], u32), np.array([-1], f32)),
        SparseVector(np.array([1], u32), np.array([1e-19], f32)),
        SparseVector(np.array([1], u32), np.array([2e16], f32)),
        SparseVector(np.array([1], u32), np.array([np.nan], f32)),
        SparseVector(np.array([1], u32), np.array([np.inf], f32)),
        SparseVector(np.array([1, 2], u32), np.ones(1, f32)),
    ]
    with IndexWriter(folder) as writer:
        for vector in bad:
            with pytest.raises(InputError, match="'x'"):
                writer.add("x", vector)
        with pytest.raises(InputError, match="id"):
            writer.add("", good)
        with pytest.raises(InputError, match="metadata value of 'k' is a dict"):
            writer.add("x", good, {"k": {}})
        with pytest.raises(InputError, match="finite"):
            writer.add("x", good, {"k": float("nan")})
    assert Index.open(folder).generation == 1
    with pytest.raises(InputError, match="closed"):
        writer.add("x", good)


def test_what_cannot_be_asked_is_refused(folder: Path) -> None:
    index = Index.open(folder, Letters())
    for k in (0, -1, MAX_TOP + 1):
        with pytest.raises(InputError, match="k is"):
            index.search("a", k=k)
    for weights in ([-1.0], [0.0], [np.nan], [np.inf]):
        with pytest.raises(InputError, match="weights must be positive"):
            index.search_vector(SparseVector(np.array([1], np.uint32), np.array(weights, np.float32)))
    with pytest.raises(InputError, match="increase strictly"):
        index.search_vector(SparseVector(np.array([2, 1], np.uint32), np.ones(2, np.float32)))
    with pytest.raises(InputError, match="unknown engine 'rust'; use one of auto"):
        Index.open(folder, engine="rust")


def test_no_index_here(tmp_path: Path) -> None:
    with pytest.raises(IndexFormatError, match="no index here"):
        Index.open(tmp_path / "nothing")
    with pytest.raises(IndexFormatError, match="name the encoder"):
        IndexWriter(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_an_empty_index(tmp_path: Path) -> None:
    IndexWriter(tmp_path, identity(26)).close()
    for engine in ("numpy", "numba"):
        index = Index.open(tmp_path, engine=engine)
        index.warm_up()
        assert index.pages == 0
        assert index.search_vector(Letters().encode_query("ab")) == []
        assert index.check() == []
        assert index.document_frequency(np.array([0, 99], np.uint32)).tolist() == [0, 0]


def test_many_small_commits_stay_few_segments(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with IndexWriter(tmp_path, identity(50)) as writer:
        for number in range(150):
            writer.add(f"p{number}", random_vector(rng, 50, 9, 1))
            writer.commit()
        assert Index.open(tmp_path).statistics()["segments"] <= 3 * pending.FAN_OUT
        writer.merge()
        writer.delete("p3")
        writer.commit()
        assert Index.open(tmp_path).statistics()["deleted"] == 1
        writer.compact()
        after = Index.open(tmp_path)
        assert (after.statistics()["segments"], after.statistics()["deleted"]) == (1, 0)
        assert list(after.ids()) == [f"p{number}" for number in range(150) if number != 3]


def test_bytes_a_posting(tmp_path: Path) -> None:
    """The searchable structure at the default setting: at most 3.5 bytes a posting."""
    rng = np.random.default_rng(0)
    chance = np.minimum(0.35, 30 / (np.arange(2000) + 1.0))
    with IndexWriter(tmp_path, identity(2000)) as writer:
        for number in range(8000):
            terms = np.flatnonzero(rng.random(2000) < chance).astype(np.uint32)
            writer.add(
                f"p{number}",
                SparseVector(terms, rng.random(len(terms)).astype(np.float32) + np.float32(0.01)),
            )
    assert 2.5 < Index.open(tmp_path).statistics()["search_bytes_per_posting"] <= 3.5


def test_numba_takes_over_when_it_pays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index.open(folder, Letters())
    monkeypatch.setattr(index._budget, "_left", 5)
    engine = index._view.engine
    before = index.search("ab")  # three postings
    assert engine._compiled is None
    assert index.search("ab") == before
    assert engine._compiled is not None
    assert index.search("ab") == before


def test_a_small_search_needs_no_compiler(folder: Path) -> None:
    """Neither importing the index nor a first search may load numba: that alone takes a second."""
    code = (
        "import sys, numpy as np; from vsplade import Index, SparseVector;"
        "hits = Index.open(sys.argv[1]).search_vector(SparseVector.from_dict({0: 1.0}));"
        "assert [hit.id for hit in hits] == ['a_1'];"
        "print(sorted({'numba', 'torch', 'onnxruntime', 'PIL'} & set(sys.modules)))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_threads_give_the_same_answers(engine: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    with IndexWriter(tmp_path, identity(300)) as writer:
        for number in range(1000):
            writer.add(f"p{number}" + "é" * (number % 2), random_vector(rng, 300, 40, 1), {"n": number % 3})
    index = Index.open(tmp_path, engine=engine)
    # Also without terms, with unknown ones, and with more than 16-bit sums can take.
    queries = [random_vector(rng, 310, 12, 0) for _ in range(30)]
    queries[10:20] = [random_vector(rng, 300, 250, 120) for _ in range(10)]
    for k in (1, 10, 700):
        wanted = [index.search(query, k, {"n": 1}) for query in queries]
        for threads in (1, 2, 4):
            assert index.search_batch(queries, k, {"n": 1}, threads=threads) == wanted


def test_a_batchs_results_read_as_lists(folder: Path) -> None:
    index = Index.open(folder, Letters())
    found, nothing = index.search_batch(["ab", "y"], threads=2)
    listed = index.search("ab")
    assert type(listed) is list
    assert len(found) == 2
    assert not nothing
    assert found == listed
    assert listed == found
    assert found != nothing
    assert found != listed[:1]
    assert found[0].id == "a_1"
    assert found[-1] is found[1]
    assert found[:1] == listed[:1]
    assert list(reversed(found)) == listed[::-1]
    assert listed[1] in found
    assert repr(found) == repr(listed)
    assert json.dumps([hit.explain()[0].token for hit in found]) == '["a", "b"]'
    assert pickle.loads(pickle.dumps(found)) == listed


@pytest.mark.parametrize("threads", [1, 3])
def test_one_bad_query_of_a_batch_is_an_error(folder: Path, threads: int) -> None:
    bad = SparseVector(np.array([3, 1], np.uint32), np.ones(2, np.float32))
    index = Index.open(folder, Letters())
    with pytest.raises(InputError, match="increase strictly"):
        index.search_batch([*["a"] * 50, bad, *["a"] * 50], threads=threads)
    assert len(index.search_batch(["a"] * 50, threads=threads)) == 50


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX limits")
def test_too_many_open_files_is_an_error_with_advice(folder: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = os.dup(0)
    os.close(used)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, before[1]))  # the manifest can be read, no more
        with pytest.raises(StorageError, match="ulimit -n"):
            Index.open(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert Index.open(folder).pages == 3


def test_any_text_can_be_kept(tmp_path: Path) -> None:
    """Also a file name that is not UTF-8, which Python hands over with lone surrogates."""
    odd = os.fsdecode(b"caf\xe9.pdf")
    with IndexWriter(tmp_path, identity(26)) as writer:
        for id in (odd, "日本語", "a\nb", "\x00"):
            writer.add(id, Letters().encode_query("ab"), {"path": id, id: 1})
            writer.set_state(f"file:{id}", [id])
        with pytest.raises(InputError, match="cannot be kept as JSON"):
            writer.set_state("x", object())  # type: ignore[arg-type]
        with pytest.raises(InputError, match="cannot be kept as JSON"):
            writer.set_state("x", float("nan"))
    index = Index.open(tmp_path)
    assert list(index.ids()) == [odd, "日本語", "a\nb", "\x00"]
    assert list(index.ids({"path": odd})) == [odd]
    assert index.metadata(odd) == {"path": odd, odd: 1}
    assert index.state(f"file:{odd}") == {f"file:{odd}": [odd]}


def test_an_index_of_before_is_read_and_gives_up_its_table(tmp_path: Path) -> None:
    """Indexes once kept what each term is worth, for two-stage search."""
    with IndexWriter(tmp_path, Letters()) as writer:
        writer.add("p", SparseVector.from_dict({3: 1.0}))
    stored = manifest.load(tmp_path)
    table = tmp_path / f"weights-{stored.next_file:08d}.f32"
    table.write_bytes(np.ones(26, "<f4").tobytes())
    older = asdict(stored) | {"first_stage_terms": 0, "term_values": table.name, "term_values_crc32": 1}
    body = json.dumps(older | {"next_file": stored.next_file + 1}).encode()
    (tmp_path / "MANIFEST").write_bytes(b"vsplade-index 2 %08x\n" % zlib.crc32(body) + body)
    assert [hit.id for hit in Index.open(tmp_path).search(SparseVector.from_dict({3: 1.0}))] == ["p"]
    with IndexWriter(tmp_path) as writer:
        writer.add("q", SparseVector.from_dict({3: 2.0}))
    assert not table.exists()
    index = Index.open(tmp_path)
    assert index.check() == []
    assert [hit.id for hit in index.search(SparseVector.from_dict({3: 1.0}))] == ["q", "p"]
