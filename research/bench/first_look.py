"""How long a marked page takes when it is looked at for the first time, and when it is looked at again.

    python -m research.bench.first_look FILES... --pages 40

Indexes the files (kept in ``--folder`` for the next run), starts ``vsplade serve`` with one worker, and asks
for the picture of single pages with three of their words marked. Nothing of these pages is in the server's
memory: a scan is opened, read from its pixels, marked and written as JPEG. ``processor_ms`` is what all
processes of the server used, so it does not depend on what else the machine does.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from research.bench.measured import family_seconds
from research.bench.serving import start_server
from research.command import main, option
from vsplade import Index, index_paths
from vsplade.store import manifest

WORDS = 3


def words_of(index: Index, page: str) -> str:
    """The heaviest whole words of a page, of those that the reader knows by their letters."""
    vector, known = index.vector(page), len(index.encoder.vocabulary)
    single = vector.terms < known
    terms = vector.terms[single][np.argsort(-vector.weights[single])]
    names = (index.encoder.vocabulary.token(int(term)) for term in terms)
    return " ".join([name for name in names if name.isalpha()][:WORDS]) or "page"


def look(url: str, asked: list[tuple[str, str]], root: int) -> dict[str, float]:
    walls = []
    before = family_seconds(root)
    for page, words in asked:
        address = f"{url}v1/pages/{urllib.parse.quote(page)}/image?q={urllib.parse.quote_plus(words)}"
        started = time.perf_counter()
        urllib.request.urlopen(address, timeout=60).read()
        walls.append((time.perf_counter() - started) * 1000)
    used = 1000 * (family_seconds(root) - before) / len(asked)
    return {
        "median_ms": round(statistics.median(walls)),
        "p90_ms": round(float(np.percentile(walls, 90))),
        "max_ms": round(max(walls)),
        "processor_ms": round(used),
    }


@dataclass(frozen=True)
class FirstLookOptions:
    files: tuple[Path, ...] = option("Files to index.", argument=True)
    pages: int = option("Pages to look at.", 40)
    folder: Path = option("Where the index is kept.", Path(tempfile.gettempdir()) / "vsplade-first-look")


def first_look(options: FirstLookOptions) -> dict[str, Any]:
    """How long a marked page takes when it is looked at for the first time, and again."""
    if not manifest.exists(options.folder):
        index_paths(options.files, options.folder)
    index = Index.open(options.folder)
    pages = list(index.ids())
    chosen = pages[:: max(1, len(pages) // (options.pages + 1))][: options.pages + 1]
    asked = [(page, words_of(index, page)) for page in chosen]
    server, url = start_server(options.folder, 1)
    try:
        look(url, asked[:1], server.pid)  # loads what reads scans
        first = look(url, asked[1:], server.pid)
        again = look(url, [(page, words.split()[0]) for page, words in asked[1:]], server.pid)
    finally:
        server.terminate()
        server.wait()
    return {"pages": len(asked) - 1, "first": first, "again": again}


if __name__ == "__main__":
    main(first_look, FirstLookOptions)
