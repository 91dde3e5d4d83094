"""How long a marked page takes when it is looked at for the first time, and when it is looked at again.

    python -m research.bench.first_look FILES... --pages 40

Indexes the files (kept in ``--folder`` for the next run), starts ``vsplade serve`` with one worker, and asks
for the picture of single pages with three of their words marked. Nothing of these pages is in the server's
memory: a scan is opened, read from its pixels, marked and written as JPEG. ``processor_ms`` is what all
processes of the server used, so it does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np

from research.bench.serving import start_server
from vsplade import Index, index_paths
from vsplade.store import manifest

WORDS = 3


def processor_ms(root: int) -> float:
    """Of a process and all below it, so far."""
    facts = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                facts[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
    family = {root}
    while more := {pid for pid, fact in facts.items() if int(fact[1]) in family} - family:
        family |= more
    return sum(int(facts[pid][11]) + int(facts[pid][12]) for pid in family) / os.sysconf("SC_CLK_TCK") * 1000


def words_of(index: Index, page: str) -> str:
    """The heaviest whole words of a page, of those that the reader knows by their letters."""
    vector, known = index.vector(page), len(index.encoder.vocabulary)
    single = vector.terms < known
    terms = vector.terms[single][np.argsort(-vector.weights[single])]
    names = (index.encoder.vocabulary.token(int(term)) for term in terms)
    return " ".join([name for name in names if name.isalpha()][:WORDS]) or "page"


def look(url: str, asked: list[tuple[str, str]], root: int) -> dict[str, float]:
    walls = []
    before = processor_ms(root)
    for page, words in asked:
        address = f"{url}v1/pages/{urllib.parse.quote(page)}/image?q={urllib.parse.quote_plus(words)}"
        started = time.perf_counter()
        urllib.request.urlopen(address, timeout=60).read()
        walls.append((time.perf_counter() - started) * 1000)
    used = (processor_ms(root) - before) / len(asked)
    return {
        "median_ms": round(statistics.median(walls)),
        "p90_ms": round(float(np.percentile(walls, 90))),
        "max_ms": round(max(walls)),
        "processor_ms": round(used),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+")
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "vsplade-first-look")
    given = parser.parse_args()
    if not manifest.exists(given.folder):
        index_paths(given.files, given.folder)
    index = Index.open(given.folder)
    pages = list(index.ids())
    chosen = pages[:: max(1, len(pages) // (given.pages + 1))][: given.pages + 1]
    asked = [(page, words_of(index, page)) for page in chosen]
    server, url = start_server(given.folder, 1)
    try:
        look(url, asked[:1], server.pid)  # loads what reads scans
        first = look(url, asked[1:], server.pid)
        again = look(url, [(page, words.split()[0]) for page, words in asked[1:]], server.pid)
    finally:
        server.terminate()
        server.wait()
    print(json.dumps({"pages": len(asked) - 1, "first": first, "again": again}, indent=2))


if __name__ == "__main__":
    main()
