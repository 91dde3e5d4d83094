"""Pages and their windows as Milvus keeps them, and back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vsplade.backends.collection import FoundRow, Row
from vsplade.backends.milvus_filter import ALL_TERMS, for_filters, has_lists
from vsplade.backends.milvus_schema import MOST_TERMS, TEXT
from vsplade.errors import InputError
from vsplade.store.postings import MAX_VOCABULARY
from vsplade.types import SparseVector, Windows


def as_dict(vector: SparseVector) -> dict[int, float]:
    return dict(zip(vector.terms.tolist(), vector.weights.tolist(), strict=True))


def page_entity(row: Row) -> dict[str, Any]:
    text = json.dumps({"id": row.id, "metadata": row.metadata}, separators=(",", ":"))
    thumbnail = base64.b64encode(row.thumbnail).decode()
    for what, kept in (("its metadata", text), ("its thumbnail", thumbnail)):
        if len(kept) > TEXT:
            raise InputError(f"page {row.id!r}: {what} take {len(kept):,} bytes; Milvus keeps {TEXT:,}.")
    terms = row.vector.terms.tolist()
    return {
        "key": row.key,
        "place": row.place,
        "page": text,
        "metadata": for_filters(row.metadata),
        "lists": int(has_lists(row.metadata)),
        "terms": terms if len(terms) <= MOST_TERMS else [ALL_TERMS],
        "thumbnail": thumbnail,
        # Some versions refuse empty vectors. No query asks for this term.
        "vector": as_dict(row.vector) or {MAX_VOCABULARY: 1.0},
    }


def window_entities(row: Row) -> Iterator[dict[str, Any]]:
    windows = row.vector.meaning
    if not isinstance(windows, Windows):
        return
    for number, (codes, cluster) in enumerate(zip(windows.codes, windows.clusters.tolist(), strict=True)):
        yield {
            "key": f"{row.key}-{number}",
            "page_key": row.key,
            "cluster": cluster,
            "metadata": for_filters(row.metadata),
            "lists": int(has_lists(row.metadata)),
            "direction": codes.astype(np.float32).tolist(),
        }


def found_row(row: Mapping[str, Any], score: float) -> FoundRow:
    page = json.loads(row["page"])
    return FoundRow(row["key"], page["id"], int(row["place"]), page["metadata"], float(score))


def stored_row(row: Mapping[str, Any], windows: Windows | None) -> Row:
    page = json.loads(row["page"])
    weights = {int(term): weight for term, weight in row["vector"].items() if int(term) != MAX_VOCABULARY}
    plain = SparseVector.from_dict(weights)
    vector = SparseVector(plain.terms, plain.weights, windows)
    thumbnail = base64.b64decode(row.get("thumbnail") or "")
    return Row(page["id"], int(row["place"]), vector, page["metadata"], thumbnail)
