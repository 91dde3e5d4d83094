"""One command: our index beside every engine that is installed. Results go to the terminal and to a file.

python benchmarks/search.py --pages 1000000 --json results.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from vsplade.bench.search import run_search_bench, to_markdown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100])
    parser.add_argument(
        "--cap", type=float, default=0.35, help="share of pages that the commonest term is in"
    )
    parser.add_argument("--engines", nargs="+", help="default: all that are installed")
    parser.add_argument(
        "--peer-python", help="interpreter of an environment in which the peers are installed"
    )
    parser.add_argument("--limit", type=float, help="seconds an engine may take (1,800 a million pages)")
    parser.add_argument("--folder", type=Path, help="build the indexes here, not in the temporary folder")
    parser.add_argument("--json", type=Path, help="write everything here")
    options = parser.parse_args()
    report = run_search_bench(
        options.pages,
        engines=options.engines,
        ks=options.k,
        queries=options.queries,
        cap=options.cap,
        limit_s=options.limit,
        peer_python=options.peer_python,
        folder=options.folder,
        say=lambda line: print(line, flush=True),
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print("\n" + to_markdown(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
