"""How many searches a second ``vsplade serve`` answers, measured by wrk from the same machine.

    python -m research.bench.serving --pages 100000 --workers 2 --seconds 20

Builds an index of made-up pages over the reader's vocabulary (kept in ``--folder`` for the next run), each
with two windows of meaning, starts the server on it, and lets ``wrk`` send different queries of three to six
words over ``--connections`` connections: by words and meaning, and by words only. ``--alone`` also measures
where a search's time goes inside one process, without HTTP.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.bench.corpus import CorpusSpec, generate, make_queries
from research.bench.measured import family_seconds
from research.command import main, option
from vsplade import Index, IndexWriter, load_encoder
from vsplade.encode.meaning.meaning_model import MeaningModel
from vsplade.encode.tokenizer import Tokenizer
from vsplade.store import manifest
from vsplade.store.identity import EncoderIdentity
from vsplade.types import Windows

QUERIES = 20_000
WINDOWS = 2
"""Of a page, as slides and scans have on average."""
SCRIPT = """
local queries = {{}}
for line in io.lines("{file}") do queries[#queries + 1] = line end
local place = math.random(#queries)
request = function()
  place = place % #queries + 1
  return wrk.format("GET", "/v1/search?k=10{more}&q=" .. queries[place])
end
done = function(summary, latency, requests)
  io.write(string.format("RESULT %d %d %d %f %f %f %f\\n", summary.requests, summary.duration,
    summary.errors.status + summary.errors.read + summary.errors.write + summary.errors.timeout
    + summary.errors.connect, latency:percentile(50), latency:percentile(95),
    latency:percentile(99), latency.max))
end
"""


def spec_of(pages: int) -> CorpusSpec:
    return CorpusSpec(pages, vocabulary=len(Tokenizer.load()))


class WindowMaker:
    """Windows for made-up pages. Each is the sum of the query table's vectors of half of the page's words.
    Most of what all pages share is taken off, so that the windows' mean (0.28 long) and their share in the
    fifty fullest clusters (0.48) are about those of the development pages (0.31 and 0.50).
    """

    def __init__(self, common: NDArray[np.uint32]) -> None:
        self._model = MeaningModel.load()
        tokenizer = Tokenizer.load()
        words = [tokenizer.token(term) for term in range(len(tokenizer))]
        vectors = self._model.word_vectors([word if "#" not in word else "" for word in words])
        shares = np.bincount(common, minlength=len(words)) / len(common)
        self._vectors = vectors - np.float32(0.8) * (shares.astype(np.float32) @ vectors)

    def of_page(self, terms: NDArray[np.uint32]) -> Windows:
        parts = [self._vectors[terms[start::WINDOWS]].sum(axis=0) for start in range(WINDOWS)]
        return self._model.as_windows(np.stack(parts))


def build(folder: Path, pages: int) -> None:
    """Pages over the single words of the reader's vocabulary."""
    if manifest.exists(folder):
        return
    identity = EncoderIdentity.of(load_encoder("reader"))
    windows: WindowMaker | None = None
    with IndexWriter(folder, identity) as writer:
        for piece in generate(spec_of(pages)):
            windows = windows or WindowMaker(piece.terms)
            for page, vector in piece.vectors():
                facts = {
                    "path": f"/archive/{page // 20 % 100:02}/document-{page // 20}.pdf",
                    "doc_id": f"document-{page // 20}",
                    "page_num": page % 20 + 1,
                    "pages": 20,
                    "width": 595.28,
                    "height": 841.89,
                    "hash": f"{page // 20:032x}",
                    "year": 1990 + page // 20 % 30,
                }
                writer.add(
                    f"document-{page // 20}_{page % 20 + 1}",
                    replace(vector, meaning=windows.of_page(vector.terms)),
                    facts,
                )


def texts(pages: int) -> list[str]:
    """Queries as people type them: whole words of the vocabulary."""
    tokenizer = Tokenizer.load()
    sizes = np.random.default_rng(3).integers(3, 7, QUERIES)
    found = []
    for vector, size in zip(make_queries(spec_of(pages), QUERIES), sizes.tolist(), strict=True):
        words = [tokenizer.token(term) for term in vector.terms.tolist()]
        found.append(" ".join([word for word in words if "#" not in word][:size]) or "harbour")
    return found


def alone(folder: Path, queries: list[str]) -> dict[str, float]:
    """Processor microseconds of each part of an answer, in one thread without HTTP."""
    from vsplade.serve.library import Library
    from vsplade.serve.search_request import parse_query_string
    from vsplade.serve.search_route import Answers, encode
    from vsplade.serve.settings import ServeLimits, Settings

    with tempfile.TemporaryDirectory() as uploads:
        (Path(uploads) / ".jobs").mkdir()
        library = Library(Settings(str(folder), uploads))
        library.warm_up()
        index, answers, limits = library.index, Answers(library, ServeLimits()), ServeLimits()
        asked = [b"k=10&q=" + query.replace(" ", "+").encode() for query in queries]
        vectors = [index.encode_query(query) for query in queries]
        index.search_batch(vectors[:50])
        parts: dict[str, Callable[[int], object]] = {
            "read the request": lambda i: parse_query_string(asked[i], limits),
            "look the query's weights up": lambda i: index.encode_query(queries[i]),
            "search": lambda i: index.search_batch([vectors[i]], 10)[0],
            "hits with their metadata": lambda i: [
                hit.metadata for hit in index.search_batch([vectors[i]], 10)[0]
            ],
            "the whole answer": lambda i: answers.quick("/v1/search", asked[i]),
        }
        times = {}
        for name, part in parts.items():
            start = time.thread_time()
            for i in range(2000):
                part(i)
            times[name] = round((time.thread_time() - start) / 2000 * 1e6, 1)
        document = json.loads(answers.answer(parse_query_string(asked[0], limits)))
        start = time.thread_time()
        for _ in range(2000):
            encode(document)
        times["write the JSON"] = round((time.thread_time() - start) / 2000 * 1e6, 1)
        library.close()
    return times


def start_server(folder: Path, workers: int) -> tuple[subprocess.Popen[str], str]:
    serve = f"{sys.executable} -m vsplade serve --port 0 --read-only --json".split()
    command = [*serve, "--workers", str(workers), "--index", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    told = ""
    while not told.rstrip().endswith("}"):
        told += server.stdout.readline()
    url = json.loads(told)["url"]
    for _ in range(600):
        try:
            # Several, so that every worker is asked.
            for _ in range(8 * workers):
                urllib.request.urlopen(url + "ready", timeout=5).read()
            return server, url
        except OSError:
            time.sleep(0.5)
    raise SystemExit("the server did not get ready")


def measure(
    url: str, queries: list[str], connections: int, seconds: int, words_only: bool = False
) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "queries.txt"
        listed.write_text("\n".join(query.replace(" ", "+") for query in queries) + "\n")
        script = Path(folder) / "wrk.lua"
        script.write_text(SCRIPT.format(file=listed, more="&words_only=true" if words_only else ""))
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script), url]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    match = re.search(r"RESULT (\d+) (\d+) (\d+) (\S+) (\S+) (\S+) (\S+)", shown)
    if match is None:
        raise SystemExit(shown)
    requests, micros, errors, p50, p95, p99, worst = (float(part) for part in match.groups())
    return {
        "connections": connections,
        "searches_per_s": round(requests / micros * 1e6),
        "errors": errors,
        "p50_ms": round(p50 / 1000, 2),
        "p95_ms": round(p95 / 1000, 2),
        "p99_ms": round(p99 / 1000, 2),
        "max_ms": round(worst / 1000, 2),
    }


@dataclass(frozen=True)
class ServingOptions:
    pages: int = option("Made-up pages.", 100_000)
    workers: int = option("Web processes.", 2)
    connections: tuple[int, ...] = option("Of wrk; may be given several times.", (8, 32))
    seconds: int = option("For each number of connections.", 20)
    folder: Path = option("Where indexes are kept.", Path(tempfile.gettempdir()) / "vsplade-serving")
    alone: bool = option("Also where a search's time goes in one process, without HTTP.", False)


def serving(options: ServingOptions) -> dict[str, Any]:
    """How many searches a second ``vsplade serve`` answers, measured by wrk from the same machine."""
    folder = options.folder / f"{options.pages}.vsplade"
    build(folder, options.pages)
    queries = texts(options.pages)
    report: dict[str, Any] = {"pages": len(Index.open(folder)), "workers": options.workers}
    if options.alone:
        report["microseconds"] = alone(folder, queries)
    server, url = start_server(folder, options.workers)
    try:
        measure(url, queries, options.connections[0], 3)
        rows = []
        for words_only, count in itertools.product((False, True), options.connections):
            before = family_seconds(server.pid)
            row = measure(url, queries, count, options.seconds, words_only)
            row["words_only"] = words_only
            used = family_seconds(server.pid) - before
            row["processor_us"] = round(used / max(1, row["searches_per_s"] * options.seconds) * 1e6, 1)
            rows.append(row)
        report["load"] = rows
    finally:
        server.terminate()
        server.wait()
    return report


if __name__ == "__main__":
    main(serving, ServingOptions)
