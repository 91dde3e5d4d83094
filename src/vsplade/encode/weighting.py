"""From how often a term stands on a page to its weight there."""

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
