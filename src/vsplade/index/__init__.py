"""I have vectors, keep them: add, replace, delete, commit, search. The format: docs/index-format.md.

The names are imported when first used: ``query`` reads segments and ``Index`` uses ``query``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vsplade.index.backend import SearchBackend, WriteBackend
    from vsplade.index.identity import EncoderIdentity
    from vsplade.index.reader import Index
    from vsplade.index.writer import IndexWriter
    from vsplade.query.filters import Filter
    from vsplade.query.two_stage import TwoStage

__all__ = ["EncoderIdentity", "Filter", "Index", "IndexWriter", "SearchBackend", "TwoStage", "WriteBackend"]

_HOME = {
    "EncoderIdentity": "vsplade.index.identity",
    "Filter": "vsplade.query.filters",
    "Index": "vsplade.index.reader",
    "IndexWriter": "vsplade.index.writer",
    "SearchBackend": "vsplade.index.backend",
    "TwoStage": "vsplade.query.two_stage",
    "WriteBackend": "vsplade.index.backend",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'vsplade.index' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
