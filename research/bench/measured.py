"""What benchmarks share: processor time, pages to read, results that are on disk at once."""

from __future__ import annotations

import json
import math
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pypdfium2

from vsplade.pages import discover, name_files, render, usable
from vsplade.types import Page

START = time.perf_counter()
DPI = 150
"""At which pages of PDFs are drawn for programs that read pictures."""


def processor_seconds() -> float:
    """Of this process and of the finished ones that it started."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def family_seconds(root: int) -> float:
    """Processor time so far of a process and of all below it (on Linux)."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stats[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
    family = {root}
    while more := {pid for pid, stat in stats.items() if int(stat[1]) in family} - family:
        family |= more
    return sum(int(stats[pid][11]) + int(stats[pid][12]) for pid in family) / os.sysconf("SC_CLK_TCK")


def text_layer_pages(files: Sequence[Path], longest_edge: int, words: int, count: int) -> list[Page]:
    """A random sample of the pages whose text layer has at least so many words."""
    rendered = usable(render(name_files(discover(files).files), longest_edge), lambda problem: None)
    pages = [item.page for item in rendered if len((item.page.text or "").split()) >= words]
    return random.Random(0).sample(pages, min(count, len(pages)))


def draw_pdf_page(pdf: Path, number: int, folder: Path) -> Path:
    """A page (counted from 0) as a grey PNG."""
    target = folder / f"{pdf.stem}_{number + 1}.png"
    page = pypdfium2.PdfDocument(pdf)[number]
    page.render(scale=DPI / 72, grayscale=True).to_pil().save(target)
    return target


def say(*words: object) -> None:
    """On standard error, with the time and the seconds since the start."""
    clock = f"{time.strftime('%H:%M:%S')} {time.perf_counter() - START:6.1f} s"
    print(clock, *words, file=sys.stderr, flush=True)


class Findings(dict[str, Any]):
    """Results by name. They are written down at once, for a borrowed machine may go away. A step that fails
    does not take the others' numbers with it, and after ``limit`` seconds no step is begun."""

    def __init__(self, path: Path | None, limit: float = math.inf) -> None:
        super().__init__()
        self._path, self._limit = path, limit

    def add(self, name: str, value: Any) -> None:
        self[name] = value
        say(name, json.dumps(value))
        if self._path is not None:
            self._path.write_text(json.dumps(self, indent=1) + "\n")

    def step(self, name: str, work: Callable[[], Any]) -> None:
        if time.perf_counter() - START > self._limit:
            self.add(name, {"skipped": "no time left"})
            return
        try:
            value = work()
        except Exception as error:
            value = {"failed": f"{type(error).__name__}: {error}"[:500]}
        self.add(name, value)
