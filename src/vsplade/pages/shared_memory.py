"""Memory that the renderer's processes write pages into and the parent reads them from, with no copy between.

A page through a pipe is copied twice and lands in fresh memory each time. Here a job names free slots of one
block of memory; a slot is free again when nobody holds the page's pixels any more. Where there is no slot
(none free, page too large, not Linux) the pixels come through the pipe.
"""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from collections import deque
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray


class SharedSlots:
    """Slots of equal size; those used last are given out first, so no more memory is touched than needed."""

    def __init__(self, count: int, slot_bytes: int) -> None:
        self.slot_bytes = slot_bytes + -slot_bytes % mmap.PAGESIZE
        self.descriptor: int | None = None
        """What the processes inherit; None where memory cannot be shared."""
        self._free: deque[int] = deque()  # and no lock: pages are let go of in any thread, at any moment
        if sys.platform == "linux" and count and slot_bytes:
            with suppress(OSError):  # then all goes through the pipe
                self._open(count)

    def _open(self, count: int) -> None:
        self.descriptor = os.memfd_create("vsplade-pages", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, count * self.slot_bytes)
        self._block = mmap.mmap(self.descriptor, count * self.slot_bytes)
        self._free.extend(number * self.slot_bytes for number in reversed(range(count)))

    def take(self, count: int) -> list[int]:
        """Where up to ``count`` free slots begin."""
        taken: list[int] = []
        with suppress(IndexError):
            while len(taken) < count:
                taken.append(self._free.pop())
        return taken

    def give_back(self, *starts: int) -> None:
        self._free.extend(starts)

    def pixels(self, start: int, length: int) -> NDArray[np.uint8]:
        """What was written; the slot is given back when the last view of it is gone."""
        view = np.frombuffer(self._block, np.uint8, length, start)
        weakref.finalize(view, self.give_back, start).atexit = False
        return view

    def close(self) -> None:
        """No new pages will be written; those that are still held stay as they are."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
