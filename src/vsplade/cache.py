"""Where files are kept that can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``$VSPLADE_CACHE``; else a folder in systemd's cache for a service, or in the user's."""
    if chosen := os.environ.get("VSPLADE_CACHE"):
        return Path(chosen)
    place = os.environ.get("CACHE_DIRECTORY") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(place).expanduser() / "vsplade"
