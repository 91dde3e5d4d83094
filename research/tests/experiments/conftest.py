"""The small data set that the package's own tests of evaluation use."""

from __future__ import annotations

from tests.evaluate.conftest import *  # noqa: F403
