"""From how often a term stands on a page to its weight there; what a term is worth when some are chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class PageWeighting:
    """``count / (count + saturation)``, times ``(shortest / length) ** damping`` for the whole page.

    The first factor says that a word is there, and a little more the more often it is; the second keeps long
    pages, which hold some word of any question, from coming first. Both in one, ``count / (count + constant
    * length)``, did well on pages of a few hundred words and lost points on dense ones (docs/log.md).
    """

    saturation: float = 0.2
    damping: float = 0.22
    shortest: float = 25.0
    """Pages with fewer pieces count as that long."""

    def weigh(self, counts: NDArray[np.floating], length: float) -> NDArray[np.float32]:
        """The weights, in (0, 1), of terms of a page with ``length`` pieces."""
        damped = (self.shortest / max(length, self.shortest)) ** self.damping
        weights: NDArray[np.float32] = (counts / (counts + self.saturation) * damped).astype(np.float32)
        return weights


DAMPING = 0.1
"""0 keeps words that no query asks for; 1 keeps the rarest pieces and misreadings, which hardly any query
asks for either, and finds less on scans than 0 does (docs/benchmarks.md)."""


def damped(query_weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """How much query weights count where only some terms of a page are kept."""
    values: NDArray[np.float32] = query_weights ** np.float32(DAMPING)
    return values
