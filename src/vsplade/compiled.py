"""Functions that numba compiles, without the interpreter's lock; kept on disk where there is a place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """numba's ``njit``. Without a folder to write to, a process compiles for itself, in some seconds.

    numba looks beside the module, in ``$NUMBA_CACHE_DIR`` and in the user's cache, and gives up elsewhere.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:
            return njit(nogil=True, **options)(function)

    return decorate
