"""The hot loop of search by meaning, compiled: cosines of the windows of some clusters with a query.

A window is 256 bytes and they lie one behind the other, so the loop is bound by memory: each byte is read
once, turned into a float in a register and multiplied. numpy would write the floats to memory first: four
times the time at 100,000 pages.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, fastmath=True)
def scan(codes, lengths, pages, starts, clusters, vector):
    """The pages of all windows of these clusters, and their cosines."""
    total = 0
    for cluster in clusters:
        total += starts[cluster + 1] - starts[cluster]
    found = np.empty(total, dtype=pages.dtype)
    cosines = np.empty(total, dtype=np.float32)
    at = 0
    size = len(vector)
    for cluster in clusters:
        for row in range(starts[cluster], starts[cluster + 1]):
            sum_ = np.float32(0)
            window = codes[row]
            for place in range(size):
                sum_ += np.float32(window[place]) * vector[place]
            found[at] = pages[row]
            cosines[at] = sum_ / lengths[row]
            at += 1
    return found, cosines
