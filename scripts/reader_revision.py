"""Notes what the reader's vectors depend on: ``python scripts/reader_revision.py [--since COMMIT]``.

An index refuses vectors of an encoder with another fingerprint. ``REVISION`` in ``encode/reader/reader.py``
is the part of it that stands for the code. ``tests/encode/reader_revision.json`` has a digest of every
module that the reader imports, directly or not; comments, docstrings and layout do not count. A test fails
when one has changed. Then run this: it reads some drawn pages with the code as it was committed and as it
is now. If all vectors are the same to the last bit, it only notes the new digests. If not, it raises
``REVISION`` too.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
RECORD = HERE / "tests" / "encode" / "reader_revision.json"
HOLDER = Path("src/vsplade/encode/reader/reader.py")
ROOTS = (
    "vsplade.encode.reader.reader",
    "vsplade.encode.gpu.gpu_reader",
    "vsplade.pages.pdf",
    "vsplade.pages.picture",
)
"""From pixels to vectors, on both kinds of device; and from files to pixels."""


def path_of(source: Path, module: str) -> Path | None:
    base = source.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def imported(source: Path, module: str) -> Iterator[str]:
    """The modules of this package that one imports while it runs, also inside functions."""
    path = path_of(source, module)
    assert path is not None, module
    for node in ast.walk(_Running().visit(ast.parse(path.read_text("utf-8")))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("vsplade"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vsplade"):
            yield from (_home(source, str(node.module), name.name) for name in node.names)


def _home(source: Path, package: str, name: str) -> str:
    """The module that ``from package import name`` means: the one that a package takes the name from."""
    if path_of(source, f"{package}.{name}"):
        return f"{package}.{name}"
    path = path_of(source, package)
    if path is not None and path.name == "__init__.py":
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
                return str(node.module)
    return package


class _Running(ast.NodeTransformer):
    """Without what does nothing: docstrings, and imports for the type checker."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return None
        return self.generic_visit(node)


def dumped(node: object) -> str:
    """A syntax tree as text, the same under every version of Python: what is empty is left out."""
    if isinstance(node, list):
        return "[" + ",".join(map(dumped, node)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    parts = (
        (name, getattr(node, name, None)) for name in sorted(node._fields) if name not in ("ctx", "kind")
    )
    inner = ",".join(f"{name}={dumped(value)}" for name, value in parts if value not in (None, []))
    return f"{type(node).__name__}({inner})"


def digest(path: Path) -> str:
    tree = _Running().visit(ast.parse(path.read_text("utf-8")))
    text = re.sub(r"Name\(id='REVISION'\)\],value=Constant\(value=\d+\)", "", dumped(tree))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def digests(source: Path) -> dict[str, str]:
    """Of every module that vectors depend on."""
    found, ahead = set[str](), [root for root in ROOTS if path_of(source, root)]
    while ahead:
        module = ahead.pop()
        if module not in found and path_of(source, module):
            found.add(module)
            ahead += imported(source, module)
    return {module: digest(path) for module in sorted(found) if (path := path_of(source, module))}


def revision(tree: Path) -> int:
    match = re.search(r"^REVISION = (\d+)$", (tree / HOLDER).read_text("utf-8"), re.MULTILINE)
    if match is None:
        sys.exit(f"{tree / HOLDER} has no line 'REVISION = N'.")
    return int(match[1])


_VECTORS = """
import hashlib, random, sys
from PIL import Image, ImageDraw, ImageFont
from vsplade.encode import load_encoder
from vsplade.types import Page
reader, seen = load_encoder("reader"), hashlib.blake2b()
random.seed(0)
tokens = [reader.vocabulary.token(term).strip("#") for term in range(500, 20_000, 7)]
def sheet(size, width, height, lines, leaning=0):
    image, font = Image.new("L", (width, height), 255), ImageFont.load_default(size)
    for line in range(lines):
        words = " ".join(random.sample(tokens, 3 + round(width / size / 8)))
        ImageDraw.Draw(image).text((width // 8, height // 8 + line * size * 1.5), words, fill=0, font=font)
    return image.rotate(leaning, Image.Resampling.BICUBIC, fillcolor=255)
images = [sheet(18, 900, 1100, 25), sheet(10, 1400, 1000, 50)]
images += [sheet(60, 1600, 1200, 9), sheet(9, 500, 400, 20)]
images += [sheet(20, 800, 1000, 20).transpose(Image.Transpose.ROTATE_90), sheet(20, 1000, 1000, 20, 9)]
images += [sheet(20, 800, 1000, 20, 3), sheet(24, 3000, 400, 8)]
words, months, years = tokens, (4, 12, "Mar"), (97, 2018)
tokens = [f"{d}{mark}{m}{mark}{y}" for d in (3, 25) for m in months for y in years for mark in " -/"]
tokens += ["4,077,010.89", "4077010.89", "A12B34", "H-6927", "9556939040116", "03-3543 2128", "19:04:21"]
images += [sheet(18, 1000, 900, 25)]
tokens = words[::9] + tokens
vectors = list(reader.encode_pages([Page(id="p", image=image, path="p") for image in images]))
vectors += [reader.encode_query(" ".join(random.sample(tokens, 5))) for _ in range(200)]
for vector in vectors:
    seen.update(vector.terms.tobytes() + vector.weights.tobytes())
    if vector.meaning is not None and hasattr(vector.meaning, "codes"):
        seen.update(vector.meaning.codes.tobytes())
print(seen.hexdigest(), sum(map(len, vectors)))
"""


def vectors(tree: Path) -> str:
    """A digest of what the code in ``tree`` makes of some pages and queries, on this machine."""
    done = subprocess.run(
        [sys.executable, "-c", _VECTORS], env={"PYTHONPATH": str(tree / "src"), "PATH": ""}, text=True,
        capture_output=True, cwd=tree,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"The code in {tree} fails:\n{done.stderr}")
    return done.stdout


def unpack(commit: str, target: Path) -> None:
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=HERE, check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(target, filter="data")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--since", default="HEAD", help="the commit whose vectors are those of the record")
    since = parser.parse_args().since
    now, number = digests(HERE / "src"), revision(HERE)
    record = json.loads(RECORD.read_text("utf-8")) if RECORD.is_file() else {"revision": 0, "modules": {}}
    if record == {"revision": number, "modules": now}:
        print(f"Nothing has changed: revision {number}.")
        return
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder)
        unpack(since, before)
        if digests(before / "src") != record["modules"]:
            print(f"{since} is not the code that was noted last; its vectors are taken for the old ones.")
        same = vectors(before) == vectors(HERE)
    if not same and number <= record["revision"]:
        number = record["revision"] + 1
        holder = HERE / HOLDER
        text = re.sub(
            r"^REVISION = \d+$", f"REVISION = {number}", holder.read_text("utf-8"), flags=re.MULTILINE
        )
        holder.write_text(text, "utf-8")
    RECORD.write_text(json.dumps({"revision": number, "modules": now}, indent=1) + "\n", "utf-8")
    print(f"The vectors are {'the same' if same else 'others'}: revision {number}. Commit {RECORD.name}.")


if __name__ == "__main__":
    main()
