"""Files for engines that vsplade does not speak to: OpenSearch (mapping, bulk lines), Vespa (schema, feed).

They follow the engines' documented forms. They were not run against a server here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from vsplade.errors import InputError
from vsplade.exchange.vector_files import VectorSource
from vsplade.store.durable import write_durably
from vsplade.types import Metadata, SparseVector

FIELD = "words"
"""The field of terms and weights. A term is its number: names may hold dots, which engines refuse."""

_PAGE = {
    "page_id": {"type": "keyword"},
    "doc_id": {"type": "keyword"},
    "path": {"type": "keyword"},
    "page_num": {"type": "integer"},
    "metadata": {"type": "object", "enabled": False},
}
"""As text, so that a page's own values need no mapping of their own."""

_SCHEMA = """schema page {
  document page {
    field page_id type string { indexing: summary | attribute }
    field doc_id type string { indexing: summary | attribute }
    field page_num type int { indexing: summary | attribute }
    field metadata type string { indexing: summary }
    field terms type weightedset<int> {
      indexing: attribute
      attribute: fast-search
    }
    field words type tensor<float>(term{}) { indexing: summary | attribute }
  }
  rank-profile words {
    inputs { query(words) tensor<float>(term{}) }
    first-phase { expression: sum(query(words) * attribute(words)) }
  }
}
"""
"""``wand`` over ``terms`` proposes pages by whole numbers; the rank profile scores them by float32."""


def export_engine_files(source: VectorSource, folder: Path, format: str, scale: float) -> int:
    """Two files in a new folder; returns the number of pages."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder}: there are files in this folder. Export into a new one.")
    folder.mkdir(parents=True, exist_ok=True)
    if format == "vespa":
        write_durably(folder / "page.sd", [_SCHEMA.encode()])
        write_durably(folder / "feed.jsonl", _lines(source, partial(_vespa, scale)))
    else:
        write_durably(folder / "mapping.json", [json.dumps(mapping(format), indent=2).encode()])
        write_durably(folder / "bulk.ndjson", _lines(source, _opensearch))
    return source.pages


def mapping(format: str) -> dict[str, Any]:
    """What an index is made with: ``PUT /pages``."""
    if format == "opensearch":
        return {"mappings": {"properties": {**_PAGE, FIELD: {"type": "rank_features"}}}}
    field = {"type": "sparse_vector", "method": {"name": "seismic"}}
    return {"settings": {"index": {"sparse": True}}, "mappings": {"properties": {**_PAGE, FIELD: field}}}


Documents = Callable[[str, SparseVector, Metadata], list[Mapping[str, Any]]]


def _lines(source: VectorSource, documents: Documents) -> Iterator[bytes]:
    for page in source.pages_with_metadata():
        for document in documents(*page):
            yield json.dumps(document).encode() + b"\n"  # ASCII: whatever the id is made of


def _page(page_id: str, metadata: Metadata) -> dict[str, Any]:
    kept = {key: metadata[key] for key in ("doc_id", "path", "page_num") if metadata.get(key) is not None}
    return {"page_id": page_id, **kept}


def _weights(vector: SparseVector) -> dict[str, float]:
    return {
        str(term): weight for term, weight in zip(vector.terms.tolist(), vector.weights.tolist(), strict=True)
    }


def _opensearch(page_id: str, vector: SparseVector, metadata: Metadata) -> list[Mapping[str, Any]]:
    page = {**_page(page_id, metadata), "metadata": dict(metadata)}
    if len(vector):
        page[FIELD] = _weights(vector)
    return [{"index": {"_id": page_id}}, page]


def _vespa(scale: float, page_id: str, vector: SparseVector, metadata: Metadata) -> list[Mapping[str, Any]]:
    page = _page(page_id, metadata)
    page.pop("path", None)
    weights = _weights(vector)
    fields = {
        **page,
        "metadata": json.dumps(dict(metadata)),
        "terms": {term: max(1, round(weight * scale)) for term, weight in weights.items()},
        FIELD: {"cells": weights},
    }
    return [{"put": f"id:pages:page::{quote(page_id, safe='', errors='surrogatepass')}", "fields": fields}]
