"""The layout, kept by the syntax tree: who imports whom, how long functions are, what ARCHITECTURE.md names.

There are no exceptions to the import directions. What the tests of names leave out is said there.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "vsplade"
RESEARCH = ROOT / "research"
FILES = sorted(PACKAGE.rglob("*.py"))

LAYERS = (
    {"types", "errors"},
    {"cache", "compiled", "config", "jsonl", "client"},
    {"pages"},
    {"encode", "store"},
    {"backends"},
    {"ingest", "reading"},
    {"search"},
    {"exchange", "evaluate", "train"},
    {"serve", "integrations", "scale"},
    {"cli"},
    {"__init__", "__main__"},
)
"""A folder imports from layers before its own, and from nobody else."""
RANK = {folder: rank for rank, folders in enumerate(LAYERS) for folder in folders}

LONGEST = 60


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imported(path: Path, for_types: bool = True) -> Iterator[str]:
    """Dotted names; ``from a import b`` counts as a.b, for b may be a module."""
    for node in ast.walk(parsed(path)) if for_types else _running(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written out in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from _running(child)


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def folder_of(path: Path) -> str:
    """The folder below the package, or the file's own name where it lies in the package itself."""
    return Path(path.relative_to(PACKAGE).parts[0]).stem


def test_every_folder_has_its_layer() -> None:
    assert {folder_of(path) for path in FILES} <= RANK.keys()


def test_imports_go_one_way() -> None:
    upwards = set()
    for path in FILES:
        here = folder_of(path)
        for name in imported(path):
            parts = name.split(".")
            there = parts[1] if parts[0] == "vsplade" and len(parts) > 1 else ""
            if there in RANK and there != here and RANK[there] >= RANK[here]:
                upwards.add(f"{path.relative_to(PACKAGE).as_posix()} -> {there}")
    assert upwards == set()


def test_no_import_waits_for_a_call_to_break_a_cycle() -> None:
    """Imports inside functions count too: what they hide is a circle of modules."""
    modules = {module_of(path): path for path in FILES}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = {
            name if name in modules else name.rpartition(".")[0] for name in imported(path, for_types=False)
        }
        graph[module] = names & modules.keys()
    TopologicalSorter(graph).prepare()  # CycleError names the modules of a circle


def test_nobody_imports_research() -> None:
    assert [
        f"{path}: {name}" for path in FILES for name in imported(path) if name.split(".")[0] == "research"
    ] == []


def test_a_file_s_name_stands_once() -> None:
    names = Counter(path.stem for path in FILES if not path.stem.startswith("__"))
    assert [name for name, count in names.items() if count > 1] == []


SOURCES = [*FILES, *(path for path in RESEARCH.rglob("*.py") if "tests" not in path.parts)]


def test_functions_fit_on_a_screen() -> None:
    found = set()
    for path in SOURCES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                start = node.lineno  # decorators are a list of options, not code to follow
                if (node.end_lineno or start) - start + 1 > LONGEST:
                    found.add(f"{path.relative_to(ROOT).as_posix()} {node.name}")
    assert found == set()


def test_no_ten_lines_stand_twice() -> None:
    """Ten lines in a row, blank ones left out, tests included."""
    places: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in (*FILES, *RESEARCH.rglob("*.py"), *(ROOT / "tests").rglob("*.py")):
        lines = [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
        for start in range(len(lines) - 9):
            places[tuple(lines[start : start + 10])].append(path.relative_to(ROOT).as_posix())
    assert {lines[0]: files for lines, files in places.items() if len(files) > 1} == {}


def scope(path: Path) -> str:
    """Names must differ within the package; each folder of research is a program of its own."""
    return "vsplade" if path.is_relative_to(PACKAGE) else str(path.relative_to(ROOT).parts[:2])


def test_a_class_s_name_stands_once() -> None:
    homes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in SOURCES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[scope(path), node.name].add(path.name)
    twice = {name: files for (_, name), files in homes.items() if len(files) > 1}
    # What people of three frameworks write is the same word, each with their own import.
    assert twice == {"VspladeRetriever": {"haystack.py", "langchain.py", "llama_index.py"}}


def constants(path: Path) -> Iterator[tuple[str, str]]:
    for node in parsed(path).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and len(node.targets) == 1:
            name, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            name, value = node.target.id, node.value
        else:
            continue
        if name.isupper():
            yield name, ast.unparse(value)


def test_a_constant_has_one_home() -> None:
    """The same public name for the same value, or the same list, table or pattern under any name."""
    homes: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        where = path.relative_to(PACKAGE).as_posix()
        for name, value in constants(path):
            if not name.startswith("_") and len(value) > 2:
                homes[f"{name} = {value}"].add(where)
            if len(value) > 12:  # shorter ones, such as 1 << 16, are equal by chance
                homes[value].add(where)
    assert {what: files for what, files in homes.items() if len(files) > 1} == {}


def test_json_lines_have_one_reader() -> None:
    """``json.loads`` of a line that was split off by hand is a second reader; ``jsonl.py`` is the one."""
    found = set()
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.For | ast.comprehension) and path.name != "jsonl.py":
                text = ast.unparse(node.iter)
                if text.endswith((".splitlines()", ".open(encoding='utf-8')")) or text == "file":
                    targets = {name.id for name in ast.walk(node.target) if isinstance(name, ast.Name)}
                    found |= {path.name for call in _loads(parsed(path)) if call in targets}
    assert found == set()


def _loads(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "json.loads":
            yield ast.unparse(node.args[0])


def test_encoders_declare_what_is_optional() -> None:
    """Members of ``Encoder`` are asked for by name: a misspelt one is an error, not False."""
    asked = {
        f"{path.name}: {ast.unparse(node)}"
        for path in FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "getattr"
        and ast.unparse(node.args[1]).strip("'") in {"reads_grey", "on_gpu", "latin_only"}
    }
    assert asked == set()


def described() -> dict[str, str]:
    """Folder -> its section of ARCHITECTURE.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    parts = re.split(r"^## `([\w/]+)/`", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("folder", sorted({path.parent for path in SOURCES if path.parent != PACKAGE}))
def test_architecture_names_every_file(folder: Path) -> None:
    below = folder.relative_to(PACKAGE if folder.is_relative_to(PACKAGE) else ROOT)
    section = described().get(below.parts[0], "")
    prefix = "".join(f"{part}/" for part in below.parts[1:])
    named = set(re.findall(r"`([\w/]+\.py)`", section))
    wanted = {f"{prefix}{path.name}" for path in folder.glob("*.py") if not path.stem.startswith("__")}
    assert sorted(wanted - named) == [], f"ARCHITECTURE.md, {below.parts[0]}/: files that are not named"
    assert sorted(name for name in named if not (_base(below) / name).is_file()) == []


def _base(below: Path) -> Path:
    return (ROOT if below.parts[0] == "research" else PACKAGE) / below.parts[0]
