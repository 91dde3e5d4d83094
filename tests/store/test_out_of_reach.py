"""One damaged segment does not stop the search of the others; whoever searches is told what is missing."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pages.samples import write_pdf
from test_cli import as_json, vsplade
from vsplade.cli import run as run_cli
from vsplade.errors import IndexFormatError, InputError, VspladeWarning
from vsplade.ingest import index_paths
from vsplade.ingest.recover import recover
from vsplade.search.index import Index
from vsplade.store import file_names, snapshot
from vsplade.store import manifest as manifests
from vsplade.store.damage import Damage, DamagedPart
from vsplade.store.join_indexes import join_indexes
from vsplade.store.writer import IndexWriter

from .oracle import identity
from .test_keeping import TERMS, add_pages, damage, vector

NAMES = "abc"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "i")


def make(folder: Path, names: str = NAMES) -> Path:
    """A segment of 20 pages for each file; one page of each is deleted."""
    for name in names:
        first = 100 * ord(name)
        add_pages(folder, first, first + 20, f"/docs/{name}.pdf")
    with IndexWriter(folder, identity(TERMS)) as writer:
        for name in names:
            writer.delete(f"p{100 * ord(name) + 3}")
    return folder


def segment(folder: Path, place: int = 1) -> Path:
    return file_names.own_files(folder, "segment")[place]


def results(index: Index) -> list[list[tuple[str, float, int]]]:
    found = index.search_batch([vector(number) for number in range(5)], 30)
    return [[(hit.id, hit.score, hit.page_num) for hit in hits] for hits in found]


def quietly(where: Path | list[Path], engine: str = "auto") -> Index:
    with warnings.catch_warnings(action="ignore", category=VspladeWarning):
        return Index.open(where, engine=engine)


def flip(path: Path) -> None:
    damage(path)


def misplace(path: Path) -> None:
    damage(path, "id.starts")


def cut(path: Path) -> None:
    body = path.read_bytes()
    path.unlink()
    path.write_bytes(body[:-64])


def other(path: Path) -> None:
    """The segment before, in its place."""
    path.unlink()
    shutil.copyfile(segment(path.parent, 0), path)


def nonsense(path: Path) -> None:
    path.unlink()
    path.write_bytes(b"?" * 500)


def link(path: Path) -> None:
    path.rename(path.parent.parent / "kept")
    path.symlink_to(path.parent.parent / "kept")


def no_tombstones(path: Path) -> None:
    """Which of its pages are deleted is not known any more: none of them may be shown."""
    (path.parent / _tombstones(path)).unlink()


def wrong_tombstones(path: Path) -> None:
    (path.parent / _tombstones(path)).write_bytes(bytes(40))


def _tombstones(path: Path) -> str:
    return str(
        next(entry.tombstones for entry in manifests.load(path.parent).segments if entry.file == path.name)
    )


HARM: list[Callable[[Path], None]] = [
    flip, misplace, cut, other, nonsense, Path.unlink, no_tombstones, wrong_tombstones,
    *([link] if os.name == "posix" else []),
]  # fmt: skip


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("harm", HARM)
def test_the_others_are_searched_as_if_it_had_never_been(
    folder: Path, tmp_path: Path, harm: Callable[[Path], None], engine: str
) -> None:
    expected = results(Index.open(make(tmp_path / "without", "ac"), engine=engine))
    name = segment(folder).name
    harm(segment(folder))
    with pytest.warns(
        VspladeWarning, match=f"^{folder}: 19 of 57 pages.*{name}.*--recover --index {folder}`"
    ):
        index = Index.open(folder, engine=engine)
    assert results(index) == expected
    assert (index.pages, len(list(index.ids()))) == (38, 38)
    assert index.damage is not None
    assert (index.damage.pages, index.damage.searched) == (19, 38)
    assert [part.path.name for part in index.damage.parts] == [name]
    with pytest.raises(IndexFormatError, match=r"--recover|put the file itself there"):
        Index.open(folder, whole=True)
    assert any(name in problem for problem in index.check())
    assert recover(folder).pages == 38 + 20 * ("tombstones" in harm.__name__)


def test_the_files_to_index_again_are_named(folder: Path, tmp_path: Path) -> None:
    flip(segment(folder))
    found = quietly(folder).damage
    assert found is not None
    assert found.sources == ("/docs/b.pdf",)
    assert found.message.endswith(
        f"`vsplade index --recover --index {folder}`, then index again: /docs/b.pdf."
    )
    told = found.brief(paths=False)
    assert (told["files"], told["segments"], told["pages"]) == (["b.pdf"], [segment(folder).name], 19)


def test_what_is_told_is_short(tmp_path: Path) -> None:
    """Of many files, and of a stranger's index, in which a path may be anything."""
    parts = tuple(DamagedPart(tmp_path / f"segment-{number:08d}.vsp", "cut", 5) for number in range(1000))
    found = Damage(parts, 7, tuple(f"/{number}/" + "x" * 10_000 for number in range(5000)))
    assert found.pages == 5000
    assert len(found.message) < 8_000
    told = found.brief(paths=True)
    assert (len(told["files"]), len(told["segments"])) == (100, 100)
    assert len(found.to_json()["files"]) == 5000


def test_a_whole_index_says_nothing(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index = Index.open(folder)
        index.refresh()
    assert index.damage is None


def test_where_no_part_is_sound_there_is_nothing_to_search(folder: Path) -> None:
    for place in range(3):
        flip(segment(folder, place))
    with pytest.raises(IndexFormatError, match=r"no part of this index is sound.*57 of 57.*--recover"):
        Index.open(folder)


def test_a_damaged_manifest_stays_an_error(folder: Path) -> None:
    (folder / "MANIFEST").write_bytes(b"?")
    with pytest.raises(IndexFormatError, match="MANIFEST"):
        Index.open(folder)


def test_nobody_is_told_that_no_page_holds_a_word(folder: Path) -> None:
    """That cannot be known of pages that nobody can read."""
    add_pages(folder, 1, 3, "/docs/d.pdf")
    flip(segment(folder))
    index = quietly(folder)
    with pytest.raises(InputError, match=r"no page 'p9801'.*19 of 59 pages are out of reach"):
        index.metadata("p9801")


def test_large_segments_are_left_out_when_damage_shows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not read whole when they are opened."""
    expected = [page for page in Index.open(folder).ids() if not page.startswith("p98")]
    monkeypatch.setattr(snapshot, "VERIFY_UP_TO", 0)
    path = segment(folder)
    ruin(path)
    for engine in ("numpy", "numba"):
        index = Index.open(folder, engine=engine)
        assert index.damage is None  # nobody has looked
        with pytest.warns(VspladeWarning, match=path.name):
            found = index.search(vector(1), 60)
        assert index.damage is not None
        assert {hit.id for hit in found} <= set(expected)
        assert list(index.ids()) == expected
        with IndexWriter(folder) as writer:
            writer.set_state("more", engine)
        assert index.refresh()
        assert index.damage is not None  # opened again, it would look sound
        assert list(index.ids()) == expected


def test_check_leaves_out_what_it_finds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "VERIFY_UP_TO", 0)
    flip(segment(folder))
    index = Index.open(folder)
    assert index.damage is None
    with pytest.warns(VspladeWarning, match="19 of 57"):
        assert index.check()
    assert index.damage is not None
    assert (index.damage.pages, index.pages) == (19, 38)
    strict = Index.open(folder, whole=True)
    assert strict.check()
    assert strict.pages == 57


def ruin(path: Path) -> None:
    """Weights that no page can have: met by whatever query scores one of them."""
    from vsplade.store.array_file import Container

    opened = Container(path)
    place = opened._data + opened.header["arrays"]["forward.weights"]["offset"]
    body = bytearray(path.read_bytes())
    count = len(opened["forward.weights"])
    body[place : place + 4 * count] = np.full(count, np.nan, np.float32).tobytes()
    path.unlink()
    path.write_bytes(bytes(body))


def test_an_open_index_follows_repair(folder: Path, tmp_path: Path) -> None:
    path = segment(folder)
    shutil.copyfile(path, tmp_path / "kept")
    flip(path)
    index = quietly(folder)
    assert not index.refresh()  # still the same
    path.unlink()
    shutil.copyfile(tmp_path / "kept", path)
    assert index.refresh()  # put back from a copy
    assert (index.damage, index.pages) == (None, 57)
    flip(path)
    index = quietly(folder)
    recover(folder)
    assert index.refresh()
    assert (index.damage, index.pages) == (None, 38)


def test_joined_indexes_behave_as_one(tmp_path: Path) -> None:
    folders = [make(tmp_path / "one", "ab"), make(tmp_path / "two", "cd")]
    expected = results(Index.open([make(tmp_path / "a", "a"), make(tmp_path / "d", "d")]))
    flip(segment(folders[0], 1))
    flip(segment(folders[1], 0))
    with pytest.warns(VspladeWarning, match=f"38 of 76.*--index {folders[0]}` and `.*--index {folders[1]}`"):
        index = Index.open(folders)
    assert results(index) == expected
    assert index.damage is not None
    assert index.damage.sources == ("/docs/b.pdf", "/docs/c.pdf")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not index.refresh()
    with pytest.raises(IndexFormatError, match=folders[0].name):
        join_indexes(folders, tmp_path / "joined")
    flip(segment(folders[0], 0))  # nothing of this one is left
    assert quietly(folders).pages == 19
    recover(folders[1])
    assert index.refresh()


def test_joined_large_segments_are_left_out_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "VERIFY_UP_TO", 0)
    folders = [make(tmp_path / "one", "ab"), make(tmp_path / "two", "cd")]
    ruin(segment(folders[1], 0))
    index = Index.open(folders)
    with pytest.warns(VspladeWarning, match="19 of 76"):
        assert index.search(vector(1), 60)
    assert index.damage is not None
    assert (index.pages, index.damage.sources) == (57, ("/docs/c.pdf",))


# -- on the command line ------------------------------------------------------------------------------


@pytest.fixture
def docs(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    where = tmp_path / "docs"
    for name, word in (("a", "apple"), ("b", "banana"), ("c", "cherry")):
        write_pdf(where / f"{name}.pdf", f"{word} pie", f"{word} juice")
        index_paths([where], tmp_path / "index", "text", workers=1)
    flip(segment(tmp_path / "index"))
    return where, tmp_path / "index"  # type: ignore[return-value]


def test_every_command_that_shows_results_says_so(
    docs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    where, index = docs
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")  # as some systems have it
    shown = vsplade("search", "pie", "--index", index)
    assert [name for name in ("a.pdf", "b.pdf", "c.pdf") if name in shown.stdout] == ["a.pdf", "c.pdf"]
    for part in ("Warning", "2 of 6 pages are out of reach", "--recover", str(where / "b.pdf")):
        assert part in shown.stderr
    shown = vsplade("search", "banana", "--index", index)
    assert "no page within reach holds 'banana'" in shown.stderr
    told = as_json("search", "pie", "--index", index)["damaged"]
    assert (told["pages"], told["files"]) == (2, [str(where / "b.pdf")])
    write_pdf(where.parent / "z.pdf", "pie")
    index_paths([where.parent / "z.pdf"], where.parent / "sound", "text", workers=1)
    joined = as_json("search", "pie", "--index", where.parent / "sound", "--fuse-with", index)
    assert joined["damaged"]["message"].startswith("2 of 7 pages are out of reach")
    assert as_json("stats", "--index", index)["pages_out_of_reach"] == 2
    (problem,) = as_json("index", "--check", "--index", index, code=2)["problems"]
    assert segment(index).name in problem


def test_what_changes_or_copies_the_index_refuses(
    docs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index, other_index = str(docs[1]), tmp_path / "other"
    write_pdf(tmp_path / "d.pdf", "date pie")
    index_paths([tmp_path / "d.pdf"], other_index, "text", workers=1)
    before = {path.name: path.read_bytes() for path in docs[1].iterdir()}
    for command in (
        ["compact", "--index", index],
        ["compact", "--merge", "--index", index],
        ["delete", "--filter", "page_num=1", "--index", index],
        ["export", "--index", index, "--output", str(tmp_path / "out"), "--format", "parquet"],
        ["merge", index, str(other_index), "--output", str(tmp_path / "joined")],
    ):
        assert run_cli(command) == 2, command
        assert "damaged: array forward.weights fails its checksum" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in docs[1].iterdir()} == before
    assert not (tmp_path / "out").exists()


def test_indexing_says_so_and_recovery_heals(
    docs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    where, index = docs
    with pytest.warns(VspladeWarning, match="2 of 6 pages are out of reach"):
        index_paths([where], index, workers=1)  # all count as done
    assert run_cli(["index", str(where), "--recover", "--index", str(index)]) == 0
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Index.open(index).pages == 6
