"""Follow files as they change: look, wait until they rest, index, look again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from vsplade.backends.address import Where, is_address
from vsplade.errors import IndexLockedError, InputError
from vsplade.ingest.job import index_paths
from vsplade.ingest.report import IngestReport
from vsplade.pages import discover
from vsplade.types import Encoder

EVERY_SECONDS = 2.0
"""Between two looks. Looking reads names, sizes and times only."""

State = dict[str, tuple[int, int]]


def watch(
    paths: Sequence[str],
    index_dir: Where,
    encoder: str | Encoder | None,
    tell: Callable[[IngestReport], None],
    every: float = EVERY_SECONDS,
    **options: Any,
) -> NoReturn:
    """Index ``paths`` now and whenever they have changed and rested for one look; ends with ctrl-C only.

    Polling, because it works on every system and on network folders.
    """
    done: State | None = None
    before: State = {}
    while True:
        now = file_states(paths, index_dir)
        if now != done and (now == before or done is None):
            try:
                tell(index_paths(paths, index_dir, encoder, **options))
                done = now
            except IndexLockedError:
                pass  # another writer: it is tried again at the next look
            except InputError:
                if done is None:
                    raise
                done = now  # nothing is left in the folder, or it is away: the next change is waited for
        before = now
        time.sleep(every)


def file_states(paths: Sequence[str], index_dir: Where) -> State:
    """Size and time of every file."""
    found: State = {}
    for path in discover(paths, exclude=[] if is_address(index_dir) else [index_dir]).files:
        try:
            state = os.stat(path)
        except OSError:
            continue  # gone since it was listed
        found[path] = (state.st_size, state.st_mtime_ns)
    return found
