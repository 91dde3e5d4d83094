"""Indexes built apart: joined into one, and searched as one; both answer as one index of all pages does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.exchange.test_parquet import content
from tests.search.test_meaning import TERMS, Corpus
from tests.test_cli import TEXT, as_json, vsplade, write_pdf

from vsplade.errors import DamagedSegmentError, IndexFormatError, InputError, ModelMismatchError, VspladeError
from vsplade.search.hits import Hit
from vsplade.search.index import Index
from vsplade.store import pending
from vsplade.store.file_names import own_files
from vsplade.store.identity import EncoderIdentity
from vsplade.store.join_indexes import join_indexes
from vsplade.store.segment import Segment
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector

from .oracle import identity, random_vector

NAME = identity(TERMS)


@pytest.fixture
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(pending, "MAX_PAGES", 16)
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # the disk is not what is tested
    return


def write(folder: Path, corpus: Corpus, numbers: Sequence[int]) -> None:
    """In two commits; every seventh page is replaced, every eleventh deleted."""
    with IndexWriter(folder, NAME) as writer:
        for number in numbers:
            writer.add(f"p{number}", corpus.vectors[number - number % 7], {"old": True})
    with IndexWriter(folder, NAME) as writer:
        for number in numbers:
            if number % 7:
                writer.add(f"p{number}", corpus.vectors[number], {"third": number % 3}, bytes([number % 256]))
            if number % 11 == 0:
                writer.delete(f"p{number}")
        writer.set_state(f"file:{folder.name}", {"done": [[1, len(numbers)]]})


def hits(found: Sequence[Hit], digits: int) -> list[tuple[object, ...]]:
    """Scores by words are equal to the bit. Those by meaning are sums of float32, which BLAS adds in an order
    that depends on how many windows a segment has."""
    return [
        (hit.id, round(hit.score, digits), hit.metadata, [match.token for match in hit.explain()])
        for hit in found
    ]


@pytest.mark.usefixtures("_small_segments")
@pytest.mark.parametrize("seed", range(8))
def test_several_indexes_answer_as_the_joined_one_and_as_one_of_all(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 40, size=rng.integers(2, 5)).tolist()
    k, engine = int(rng.choice([1, 3, 10, 200])), ("numpy", "numba")[seed % 2]
    folder = tmp_path
    corpus = Corpus(seed, sum(sizes))
    edges = np.cumsum([0, *sizes]).tolist()
    parts = [folder / f"part{place}" for place in range(len(sizes))]
    for part, first, last in zip(parts, edges, edges[1:], strict=False):
        write(part, corpus, range(first, last))
    pages, _ = join_indexes(parts, folder / "joined")
    several, joined = (Index.open(where, engine=engine) for where in (parts, folder / "joined"))
    whole = folder / "whole"
    with IndexWriter(whole, NAME) as writer:
        for part in map(Index.open, parts):
            for id, vector, metadata in part.pages_with_metadata():
                writer.add(id, vector, metadata, part.thumbnail(id))
            for key, value in part.state().items():
                writer.set_state(key, value)
    assert joined.check() == []
    assert pages == joined.pages == several.pages
    assert content(joined) == content(Index.open(whole))
    assert content(several) == content(joined)
    assert several.state() == joined.state()
    queries = [corpus.query() for _ in range(5)]
    words = [SparseVector(query.terms, query.weights) for query in queries]
    for asked, digits, options in (
        (queries, 4, {}),
        (queries, 4, {"filter": {"third": [0, 2]}}),
        (words, 99, {"min_score": 0.3}),
    ):
        several_hits, joined_hits, whole_hits = (
            [hits(found, digits) for found in index.search_batch(asked, k, **options)]  # type: ignore[arg-type]
            for index in (several, joined, Index.open(whole))
        )
        assert several_hits == joined_hits == whole_hits
    terms = np.arange(TERMS + 3, dtype=np.uint32)
    assert several.document_frequency(terms).tolist() == joined.document_frequency(terms).tolist()


def test_from_files_to_hits(tmp_path: Path) -> None:
    """BM25 counts pages over all indexes; words, phrases and exclusions work over all of them."""
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        for number in range(4):
            words = (
                f"turbine {folder} {number}",
                f"the rotor of {folder}" if number else "a rotor blade rotor",
            )
            write_pdf(tmp_path / folder / f"{folder}{number}.pdf", *words)
        vsplade("index", tmp_path / folder, "--index", tmp_path / f"{folder}.vsplade", *TEXT)
    parts = [tmp_path / f"{folder}.vsplade" for folder in ("a", "b", "c")]
    vsplade("index", tmp_path, "--index", tmp_path / "all", *TEXT)
    told = as_json("merge", *parts, "-o", tmp_path / "joined")
    assert (told["pages"], told["joined"]) == (24, 3)
    indexes = [Index.open(where) for where in (parts, tmp_path / "joined", tmp_path / "all")]
    for query in ("rotor blade", '"the rotor" -turbine', "+rotor of b", "turb*", "rotor absent"):
        several, joined, whole = (index.search(query, 30) for index in indexes)
        assert several
        assert several == joined
        assert sorted(hit.score for hit in several) == sorted(hit.score for hit in whole)
        assert indexes[0].look_up(query) == indexes[1].look_up(query)
    named = [word for part in parts for word in ("--index", part)]
    shown = as_json("search", "rotor of b", *named)
    assert [hit["id"] for hit in shown["hits"]] == [hit.id for hit in indexes[1].search("rotor of b")]
    again = as_json("index", tmp_path / "a", tmp_path / "b", "--index", tmp_path / "joined")
    assert (again["new"], again["skipped"]) == (0, 16), "the joined index knows its files"


def two(tmp_path: Path, ids: Sequence[str], fingerprint: str = "f1", vocabulary: int = 20) -> list[Path]:
    rng = np.random.default_rng(0)
    for place, id in enumerate(ids):
        with IndexWriter(
            tmp_path / str(place), identity(vocabulary, fingerprint if place else "f1")
        ) as writer:
            for number in range(50):
                writer.add(f"{id}-{number}", random_vector(rng, vocabulary, 5))
    return [tmp_path / str(place) for place in range(len(ids))]


def refused(folders: list[Path], kind: type[VspladeError], *words: str) -> None:
    target = folders[0].parent / "joined"
    for attempt in (lambda: Index.open(folders), lambda: join_indexes(folders, target)):
        with pytest.raises(kind) as caught:
            attempt()
        for word in words:
            assert word in str(caught.value)
    assert not target.exists()


def test_what_cannot_be_joined_is_refused_and_named(tmp_path: Path) -> None:
    same = two(tmp_path, ["x", "x"])
    refused(same, InputError, "'x-", str(same[0]), str(same[1]), "vsplade delete")
    refused([same[0], same[0]], InputError, "named twice")
    refused([same[0], tmp_path / "none"], VspladeError, "there is no index here")
    other = two(tmp_path / "other", ["x", "y"], fingerprint="f2")
    refused(other, ModelMismatchError, "f1", "f2", str(other[1]))


def test_encoders_that_differ_for_queries_alone_are_joined(tmp_path: Path) -> None:
    """``reader+dense`` and ``reader`` make the same vectors: the first index says how queries are read."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, name in zip(folders, ("reader+dense", "reader"), strict=True):
        with IndexWriter(folder, EncoderIdentity(name, "f1", 20)) as writer:
            writer.add(folder.name, SparseVector.from_dict({3: 1.0}))
    assert Index.open(folders).identity.name == "reader+dense"
    assert {hit.id for hit in Index.open(folders).search(SparseVector.from_dict({3: 1.0}))} == {"a", "b"}
    join_indexes(folders, tmp_path / "joined")
    assert sorted(Index.open(tmp_path / "joined").ids()) == ["a", "b"]
    assert Index.open(tmp_path / "joined").check() == []


def test_a_file_in_both_is_refused(tmp_path: Path) -> None:
    folders = two(tmp_path, ["x", "y"])
    for folder in folders:
        with IndexWriter(folder) as writer:
            writer.set_state("file:/report.pdf", {"done": [[1, 50]]})
    with pytest.raises(InputError, match=r"/report\.pdf.*found twice"):
        join_indexes(folders, tmp_path / "joined")


def test_an_id_that_was_deleted_in_one_is_no_collision(tmp_path: Path) -> None:
    folders = two(tmp_path, ["x", "x"])
    with IndexWriter(folders[1]) as writer:
        for number in range(49):
            writer.delete(f"x-{number}")
    with pytest.raises(InputError, match="x-49"):
        Index.open(folders)
    with IndexWriter(folders[0]) as writer:
        writer.delete("x-49")
    assert Index.open(folders).pages == join_indexes(folders, tmp_path / "joined")[0] == 50


def test_a_damaged_index_is_named(tmp_path: Path) -> None:
    folders = two(tmp_path, ["x", "y"])
    (segment,) = own_files(folders[1], "segment")
    segment.write_bytes(segment.read_bytes()[:-100])
    for attempt in (partial(Index.open, whole=True), partial(join_indexes, target=tmp_path / "joined")):
        with pytest.raises(IndexFormatError, match=str(segment)):
            attempt(folders)
    assert not (tmp_path / "joined").exists()


def test_damage_that_opening_does_not_see_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = two(tmp_path, ["x", "y"])
    monkeypatch.setattr("vsplade.store.snapshot.VERIFY_UP_TO", 0)  # as with large segments
    (segment,) = own_files(folders[1], "segment")
    sound = segment.read_bytes()
    damaged = bytearray(sound)
    damaged[sound.index(Segment(segment).weights.tobytes())] ^= 1
    segment.write_bytes(damaged)
    with pytest.raises(DamagedSegmentError, match=str(segment)):
        join_indexes(folders, tmp_path / "joined")
    assert not own_files(tmp_path / "joined", "segment")
    segment.write_bytes(sound)
    assert join_indexes(folders, tmp_path / "joined")[0] == 100, "the same call again"
    with pytest.raises(InputError, match="Join into a new folder"):
        join_indexes(folders, tmp_path / "joined")


def test_killed_in_the_middle_it_shows_nothing_and_begins_again(tmp_path: Path) -> None:
    folders = two(tmp_path, ["x", "y", "z"])
    script = (
        "import sys, time; from pathlib import Path; from vsplade.store.join_indexes import join_indexes\n"
        "def tell(done, total):\n    print(done, flush=True); time.sleep(60)\n"
        "join_indexes([Path(one) for one in sys.argv[2:]], Path(sys.argv[1]), tell)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "joined"), *map(str, folders)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"50\n"
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    assert Index.open(tmp_path / "joined").pages == 0
    assert join_indexes(folders, tmp_path / "joined")[0] == 150
    assert Index.open(tmp_path / "joined").check() == []


def test_a_refresh_follows_every_index(tmp_path: Path) -> None:
    folders = two(tmp_path, ["x", "y"])
    index = Index.open(folders)
    assert not index.refresh()
    with IndexWriter(folders[1]) as writer:
        writer.add("new", SparseVector.from_dict({3: 9.0}))
    assert index.refresh()
    assert index.search(SparseVector.from_dict({3: 1.0}), 1)[0].id == "new"
    with IndexWriter(folders[0]) as writer:
        writer.add("new", SparseVector.from_dict({3: 9.0}))
    with pytest.raises(InputError, match="'new'"):
        index.refresh()
    assert index.pages == 101, "it stays at the commit that was read"
    with pytest.raises(InputError, match="several indexes"):
        index.add(b"%PDF", id="one")
