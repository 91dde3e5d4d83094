"""Files, folders, globs and lists become the same list every time."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from vsplade.errors import InputError
from vsplade.pages import discover, name_files


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b.pdf", "a.PNG", "notes.txt", "sub/deep/c.tiff", "sub/d.webp", ".hidden.pdf", ".git/e.pdf"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path


def names(files: list[str], top: Path) -> list[str]:
    return [os.path.relpath(path, top) for path in files]


def test_folder_is_walked_in_order_without_hidden_names_or_other_formats(tree: Path) -> None:
    found = discover([tree])
    assert names(found.files, tree) == ["a.PNG", "b.pdf", "sub/d.webp", "sub/deep/c.tiff"]
    assert found.problems == []


def test_arguments_keep_their_order_and_repeats_are_dropped(tree: Path) -> None:
    found = discover([tree / "sub", tree / "b.pdf", str(tree / "sub" / "d.webp"), tree])
    assert names(found.files, tree) == ["sub/d.webp", "sub/deep/c.tiff", "b.pdf", "a.PNG"]


def test_glob(tree: Path) -> None:
    assert names(discover([f"{tree}/**/*.*f*"]).files, tree) == ["b.pdf", "sub/deep/c.tiff"]
    assert names(discover([f"{tree}/s*"]).files, tree) == ["sub/d.webp", "sub/deep/c.tiff"]
    (problem,) = discover([f"{tree}/*.jpg"]).problems
    assert problem.reason == "matches no file"


def test_a_real_name_with_brackets_is_not_a_glob(tmp_path: Path) -> None:
    (tmp_path / "x[1].pdf").write_bytes(b"x")
    assert names(discover([tmp_path / "x[1].pdf"]).files, tmp_path) == ["x[1].pdf"]


@pytest.mark.parametrize("separator", ["\n", "\0"])
def test_list_on_stdin(tree: Path, separator: str) -> None:
    text = separator.join([f"{tree}/b.pdf", "", f"{tree}/sub", f"{tree}/none*.pdf"])
    found = discover(["-"], stdin=io.StringIO(text))
    assert names(found.files, tree) == ["b.pdf", "sub/d.webp", "sub/deep/c.tiff"]
    assert [problem.reason for problem in found.problems] == ["does not exist"]


def test_list_on_stdin_may_hold_any_bytes(tree: Path) -> None:
    text = io.TextIOWrapper(io.BytesIO(b"\xff\xfe.pdf\n" + os.fsencode(tree / "b.pdf")), encoding="ascii")
    found = discover(["-"], stdin=text)
    assert names(found.files, tree) == ["b.pdf"]
    assert len(found.problems) == 1


def test_problems_name_the_path_and_the_reason(tree: Path) -> None:
    (tree / "gone.pdf").symlink_to(tree / "nowhere.pdf")
    found = discover([tree / "missing", tree / "notes.txt", tree / "gone.pdf", tree / "b.pdf"])
    assert names(found.files, tree) == ["b.pdf"]
    missing, text, dangling = found.problems
    assert missing.path.endswith("missing")
    assert missing.reason == "does not exist"
    assert "not a page format" in text.reason
    assert "link" in dangling.reason


def test_symlink_loops_end(tree: Path) -> None:
    (tree / "sub" / "up").symlink_to(tree, target_is_directory=True)
    (tree / "sub" / "deep" / "self").symlink_to(tree / "sub" / "deep", target_is_directory=True)
    found = discover([tree])
    assert names(found.files, tree) == ["a.PNG", "b.pdf", "sub/d.webp", "sub/deep/c.tiff"]


def test_linked_folder_is_followed_once(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "z.pdf").write_bytes(b"x")
    (tree / "one").symlink_to(other, target_is_directory=True)
    (tree / "two").symlink_to(other, target_is_directory=True)
    assert names(discover([tree]).files, tree).count("one/z.pdf") == 1
    assert "two/z.pdf" not in names(discover([tree]).files, tree)


def test_excluded_folder(tree: Path) -> None:
    assert names(discover([tree], exclude=[tree / "sub"]).files, tree) == ["a.PNG", "b.pdf"]


def test_names_that_are_not_text_are_reported(tree: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(str(tree)) + b"/\xff.pdf")).write_bytes(b"x")
    except OSError:
        pytest.skip("this file system only takes Unicode names")
    (problem,) = discover([tree]).problems
    assert "Unicode" in problem.reason
    problem.path.encode("utf-8")


def test_bytes_are_refused() -> None:
    with pytest.raises(InputError, match="must be text"):
        discover([b"x.pdf"])  # type: ignore[list-item]


def ids(paths: list[str], taken: dict[str, str] | None = None, pages: int = 2) -> list[str]:
    return [file.page_id(1, pages) for file in name_files(paths, taken)]


def test_ids_are_stems() -> None:
    assert ids(["/a/scan.png", "/a/report.pdf", "/a/pages.tif"]) == ["scan", "report_1", "pages_1"]
    assert ids(["/a/pages.tif"], pages=1) == ["pages"]


def test_second_file_of_a_stem_gets_a_hash_of_its_path() -> None:
    first, second = ids(["/2023/report.pdf", "/2024/report.pdf"])
    assert first == "report_1"
    assert second.startswith("report~")
    assert second.endswith("_1")
    assert ids(["/2024/report.pdf", "/2023/report.pdf"])[0] == "report_1"


def test_names_in_an_index_stay() -> None:
    taken = {"/2024/report.pdf": "report"}
    late, early = ids(["/2023/report.pdf", "/2024/report.pdf"], taken)
    assert early == "report_1"
    assert late == ids(["/2024/report.pdf", "/2023/report.pdf"])[1]


@pytest.mark.parametrize("paths", [["/a_1.png", "/a.pdf"], ["/a.pdf", "/a_1.png"], ["/a.tif", "/a_1.png"]])
def test_numbered_picture_does_not_take_a_pdf_page_s_id(paths: list[str]) -> None:
    first, second = name_files(paths)
    assert first.doc_id in ("a", "a_1")
    assert "~" in second.doc_id


def test_numbered_pictures_alone_keep_their_names() -> None:
    assert ids(["/p_1.png", "/p_2.png", "/p_01.png"]) == ["p_1", "p_2", "p_01"]


@pytest.mark.skipif(os.name != "posix", reason="links to folders")
def test_a_glob_through_a_loop_of_links_finds_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.pdf", "sub/c.pdf"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "a").symlink_to(tmp_path)
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    wanted = [str(tmp_path / "b.pdf"), str(tmp_path / "sub" / "c.pdf")]
    for pattern in ("**/*.pdf", "**", "**/**/*.pdf", "**/s*/../**/*.pdf"):
        assert discover([tmp_path / pattern]).files == wanted
    assert discover([tmp_path / "b.pdf", tmp_path / "a" / "b.pdf", tmp_path / "sub"]).files == wanted
