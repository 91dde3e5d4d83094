"""How many pages files have, told early: they are opened ahead of their turn, at low priority."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict

from vsplade.errors import VspladeError
from vsplade.pages.limits import Limits
from vsplade.pages.process import RendererProcess, watch_clock


class PageCounter:
    """Opens files one after the other and tells their pages; a file that cannot be opened is left out."""

    def __init__(self, paths: Sequence[str], limits: Limits, tell: Callable[[str, int], None]) -> None:
        setup: dict[str, object] = {"longest_edge": 0, "grey": False, "background": True, "thumbnail": 0}
        setup |= {"limits": asdict(limits), "shared": None, "slot_bytes": 0}
        self._paths, self._seconds, self._tell = paths, limits.max_seconds, tell
        self._process = RendererProcess(setup)
        self._closing = threading.Event()
        clock = watch_clock([self._process], self._closing, self._seconds)
        self._threads = [threading.Thread(target=self._count, daemon=True), clock]
        for thread in self._threads:
            thread.start()

    def _count(self) -> None:
        try:
            for path in self._paths:
                if self._closing.is_set():
                    return
                self._count_one(path)
        except VspladeError:
            return  # no process can be started: the job itself will say so
        finally:
            self._process.close()

    def _count_one(self, path: str) -> None:
        self._process.send({"path": path, "pages": [], "slots": []})
        while (answer := self._process.receive(self._seconds)) is not None:
            header, _ = answer
            if header["kind"] == "opened":
                self._tell(path, header["pages"])
            else:
                return
        if not self._closing.is_set():
            self._process.bury(self._seconds)

    def close(self) -> None:
        self._closing.set()
        self._process.close()
        for thread in self._threads:
            thread.join()
        self._process.release()
