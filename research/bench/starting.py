"""How long a person waits before the work begins: import, --help, a cold search.

    python -m research.bench.starting INDEX --query "total revenue"

Seconds of wall clock and of processor time, the least of several runs: the rest is the machine's other work.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.command import main, option


@dataclass(frozen=True)
class StartingOptions:
    """``python -m research.bench.starting``"""

    index: Path = option("An index.", argument=True)
    query: str = option("What to search for.", "total")
    runs: int = option("Runs of each.", 5)


def starting(options: StartingOptions) -> dict[str, Any]:
    """Measure how long import, --help and a cold search take."""
    python = [sys.executable]
    commands = {
        "import": [*python, "-c", "import vsplade"],
        "help": [*python, "-m", "vsplade", "--help"],
        "search": [*python, "-m", "vsplade", "search", options.query, "--index", str(options.index)],
    }
    return {name: _least(command, options.runs) for name, command in commands.items()}


def _least(command: list[str], runs: int) -> dict[str, float]:
    wall, work = [], []
    for _ in range(runs):
        before, start = os.times(), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall.append(time.perf_counter() - start)
        after = os.times()
        work.append(
            after.children_user + after.children_system - before.children_user - before.children_system
        )
    return {"seconds": round(min(wall), 3), "processor_seconds": round(min(work), 3)}


if __name__ == "__main__":
    main(starting, StartingOptions)
