"""vsplade: search pages that exist only as pictures.

The public names below are imported when they are first used, so that ``import vsplade`` stays instant and
never pulls in a compiler or a model runtime.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vsplade.encode import load_encoder
    from vsplade.errors import VspladeError
    from vsplade.ingest import index_paths
    from vsplade.reading.page_reading import PageReading
    from vsplade.reading.read_files import read
    from vsplade.reading.searchable_pdf import write_searchable_pdf
    from vsplade.search.hits import Hit
    from vsplade.search.index import Index
    from vsplade.store.writer import IndexWriter
    from vsplade.types import Box, Encoder, Page, SparseVector, TermMatch

    __version__: str

_HOME = {
    "Box": "vsplade.types",
    "Encoder": "vsplade.types",
    "Hit": "vsplade.search.hits",
    "Index": "vsplade.search.index",
    "IndexWriter": "vsplade.store.writer",
    "Page": "vsplade.types",
    "PageReading": "vsplade.reading.page_reading",
    "SparseVector": "vsplade.types",
    "TermMatch": "vsplade.types",
    "VspladeError": "vsplade.errors",
    "index_paths": "vsplade.ingest",
    "load_encoder": "vsplade.encode",
    "read": "vsplade.reading.read_files",
    "write_searchable_pdf": "vsplade.reading.searchable_pdf",
}

__all__ = [
    "Box",
    "Encoder",
    "Hit",
    "Index",
    "IndexWriter",
    "Page",
    "PageReading",
    "SparseVector",
    "TermMatch",
    "VspladeError",
    "__version__",
    "index_paths",
    "load_encoder",
    "read",
    "write_searchable_pdf",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("vsplade")
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'vsplade' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
