"""Named JSON values on Milvus, cut into pieces: a text field there holds 65,535 bytes."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vsplade.store.manifest import JsonValue

PIECE = 60_000
"""Bytes of a piece; names are kept whole with each."""


def pieces(changes: Mapping[str, JsonValue]) -> Iterator[dict[str, Any]]:
    """Rows; those of one value have one stamp, so that a half-written value is noticed."""
    for name, value in changes.items():
        if value is None:
            continue
        text = json.dumps(value)  # ASCII: a byte a character
        parts = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
        stamp = f"{len(parts)}:{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"
        for number, part in enumerate(parts):
            yield {
                "key": f"{name_key(name)}-{number}",
                "name": json.dumps(name),
                "part": number,
                "stamp": stamp,
                "text": part,
                "nothing": [1.0, 0.0],
            }


def name_key(name: str) -> str:
    return hashlib.blake2b(json.dumps(name).encode(), digest_size=16).hexdigest()


def joined(rows: Iterable[Mapping[str, Any]]) -> dict[str, JsonValue]:
    """The values whose pieces are all there. A writer that was killed leaves others: they do not count."""
    parts: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for row in rows:
        parts[row["name"], row["stamp"]][int(row["part"])] = row["text"]
    found: dict[str, JsonValue] = {}
    for (name, stamp), texts in parts.items():
        count, _, digest = stamp.partition(":")
        text = "".join(texts[number] for number in sorted(texts))
        if len(texts) == int(count) and hashlib.blake2b(text.encode(), digest_size=8).hexdigest() == digest:
            found[json.loads(name)] = json.loads(text)
    return found
