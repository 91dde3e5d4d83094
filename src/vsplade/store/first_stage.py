"""The first stage of two-stage search: an inverted structure of the few terms that say most of each page.

Page weights alone choose badly where they are nearly flat and the query weights say what matters: common
words then take the places. So an index keeps what its encoder says each term is worth, if it does, and a
term's page weight counts times that. The places are shared out by the square root of the pages' numbers of
terms: dense pages need more of them. What that finds is in docs/benchmarks.md.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError
from vsplade.store.array_file import Array
from vsplade.store.durable import damaged, read_plain, write_durably
from vsplade.store.identity import EncoderIdentity
from vsplade.store.manifest import Manifest
from vsplade.store.postings import WEIGHTS, Inverted, invert


def first_stage(
    starts: NDArray[np.uint64],
    terms: Array,
    weights: NDArray[np.float32],
    vocabulary: int,
    average: int,
    term_values: NDArray[np.float32] | None,
    plain: bool = False,
) -> Inverted:
    """Invert only the terms of each page that count most (ties go to the smaller term). ``plain``: by page
    weight alone, ``average`` of every page.
    """
    lengths = np.diff(starts).astype(np.int64)
    keep = np.minimum(average, lengths) if plain else _places(lengths, average)
    kept = _largest(lengths, _values(terms, weights, None if plain else term_values), keep)
    kept_starts = np.concatenate(([0], np.cumsum(keep))).astype(np.uint64)
    return invert(kept_starts, terms[kept], weights[kept], vocabulary)


def _places(lengths: NDArray[np.int64], average: int) -> NDArray[np.int64]:
    """How many terms each page keeps: at least one, at most all."""
    roots = np.sqrt(lengths)
    shares = np.rint(average * roots / max(float(roots.mean()), 1e-9)).astype(np.int64)
    return np.minimum(np.maximum(shares, 1), lengths)


def _values(
    terms: Array, weights: NDArray[np.float32], term_values: NDArray[np.float32] | None
) -> NDArray[np.float32]:
    """What each posting counts: its page weight times what its term is worth."""
    if term_values is None:
        return weights
    counted: NDArray[np.float32] = weights * term_values[terms]
    return counted


def _largest(
    lengths: NDArray[np.int64], values: NDArray[np.float32], keep: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which postings are among the ``keep`` largest of their page; of equal ones at the limit, the first.

    One plain sort of (page, value) gives each page's limit: floats from 0 on sort as their bits do.
    """
    pages = np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths)
    ends = np.cumsum(lengths)
    keys = np.sort(pages << np.uint64(32) | values.view(np.uint32))
    long_enough = lengths > keep
    limits = np.zeros(len(lengths), dtype=np.uint64)
    limits[long_enough] = keys[(ends - keep)[long_enough]] & np.uint64(0xFFFFFFFF)
    limit = np.repeat(limits.astype(np.uint32).view(np.float32), lengths)
    above, level = values > limit, values == limit
    counted = np.concatenate(([0], np.cumsum(level)))
    room = keep - np.add.reduceat(np.append(above, False), ends - lengths, dtype=np.int64) * (lengths > 0)
    place_among_equal = counted[1:] - np.repeat(counted[ends - lengths], lengths)
    kept: NDArray[np.bool_] = above | (level & (place_among_equal <= np.repeat(room, lengths)))
    return kept


def checked_term_values(identity: EncoderIdentity | None) -> NDArray[np.float32] | None:
    """The encoder's table; None where it has none."""
    if identity is None or identity.term_values is None:
        return None
    table = np.asarray(identity.term_values, dtype=np.float32)
    if table.shape != (identity.terms,):
        raise InputError(
            f"the encoder {identity.name!r} has {identity.terms} terms but values of the shape "
            f"{table.shape}; it must have one for each term."
        )
    if not values_can_be(table):
        raise InputError(
            f"the encoder {identity.name!r} has values of terms outside 0 to {WEIGHTS[1]}; correct its table."
        )
    return np.abs(table)  # -0 would sort above everything


def values_can_be(table: NDArray[np.float32]) -> bool:
    return bool(len(table) == 0 or (table.min() >= 0 and table.max() <= WEIGHTS[1]))  # a NaN fails, too


def write_term_values(path: Path, table: NDArray[np.float32]) -> int:
    """Written once in the life of an index; returns the CRC-32."""
    body = table.astype("<f4").tobytes()
    write_durably(path, [body])
    return zlib.crc32(body)


def read_term_values(folder: Path, manifest: Manifest) -> NDArray[np.float32] | None:
    if manifest.term_values is None:
        return None
    path = folder / manifest.term_values
    body = read_plain(path, 4 * manifest.vocabulary)
    if zlib.crc32(body) != manifest.term_values_crc32 or len(body) != 4 * manifest.vocabulary:
        raise damaged(path, "it fails its checksum")
    table = np.frombuffer(body, dtype="<f4")
    if not values_can_be(table):
        raise damaged(path, "it has values that no term can have")
    return table
