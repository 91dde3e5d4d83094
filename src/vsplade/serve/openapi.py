"""The description of the API."""

from __future__ import annotations
from typing import Any
from vsplade.serve.settings import Settings

def describe(settings: Settings) -> dict[str, Any]:
    return {}
