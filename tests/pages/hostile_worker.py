"""A renderer that dies or hangs on files with telling names. It exists for the tests only."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from vsplade.pages import render_worker
from vsplade.pages.limits import Limits
from vsplade.pages.pixels import PageContent

real_open = render_worker.open_file


class Trap:
    """Passes everything on, but dies at the second page."""

    def __init__(self, file: render_worker.OpenFile) -> None:
        self._file = file
        self.pages = file.pages

    def page(self, number: int, longest_edge: int, grey: bool = False) -> PageContent:
        if number == 2:
            os.abort()
        return self._file.page(number, longest_edge, grey)

    def close(self) -> None:
        self._file.close()


class EveryPageTrap(Trap):
    def page(self, number: int, longest_edge: int, grey: bool = False) -> PageContent:
        os.abort()


def open_file(path: str, limits: Limits) -> render_worker.OpenFile:
    name = Path(path).name
    if "abort" in name:
        os.abort()
    if "exit" in name:
        os._exit(3)
    if "hang" in name:
        Path(path).with_suffix(".pid").write_text(str(os.getpid()))
        time.sleep(3600)
    if "greedy" in name:
        bytearray(limits.max_pixels * 12 + (3 << 30))
    if "noise" in name:
        print("a library that prints on standard output", flush=True)
        os.write(1, b"and one that writes there by itself\n")
    if "trap" in name:
        return Trap(real_open(path, limits))
    if "minefield" in name:
        return EveryPageTrap(real_open(path, limits))
    return real_open(path, limits)


render_worker.open_file = open_file

if __name__ == "__main__":
    if "--broken" in sys.argv:
        sys.exit("this interpreter is broken")
    if "--flaky" in sys.argv:  # the number of starts stands in a file; the first two fail
        starts = Path(sys.argv[-1])
        starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
        if len(starts.read_text()) < 3:
            sys.exit("not yet")
    render_worker.main()
