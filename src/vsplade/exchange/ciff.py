"""The Common Index File Format: protobuf messages, written by hand (four small ones need no library).

A file is a Header, then for each term (by its UTF-8 bytes) a PostingsList, then for each page a DocRecord;
each message has its length before it. Page numbers in a list are gaps from the one before, ``tf`` is the
weight.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError
from vsplade.types import Vocabulary

if TYPE_CHECKING:
    from vsplade.exchange.vector_files import VectorSource

_VARINT_BYTES = 5
"""Enough for 32 bits."""


def ciff_chunks(source: VectorSource, vocabulary: Vocabulary, scale: float) -> Iterator[bytes]:
    """The bytes of a CIFF file. Holds all postings in memory, 12 bytes each."""
    ids, lengths, terms, pages, impacts = _gather(source, scale)
    order = np.argsort(terms, kind="stable")
    terms, pages, impacts = terms[order], pages[order], impacts[order]
    present, firsts = np.unique(terms, return_index=True)
    ends = np.append(firsts[1:], len(terms))
    named = sorted((vocabulary.token(int(term)).encode(), place) for place, term in enumerate(present))
    total = int(lengths.sum())
    yield _message(
        _number(1, 1)
        + _number(2, len(present))
        + _number(3, len(ids))
        + _number(4, len(present))
        + _number(5, len(ids))
        + _number(6, total)
        + b"\x39"
        + struct.pack("<d", total / len(ids) if ids else 0.0)
        + _text(8, b"vsplade: weights times %s as tf" % str(scale).encode())
    )
    for name, place in named:
        span = slice(int(firsts[place]), int(ends[place]))
        gaps = np.diff(pages[span], prepend=np.uint32(0))
        total = int(impacts[span].sum(dtype=np.int64))
        head = _text(1, name) + _number(2, len(gaps)) + _number(3, total)
        yield _message(head + postings(gaps, impacts[span]))
    for number, page_id in enumerate(ids):
        yield _message(
            _number(1, number)
            + _text(2, page_id.encode("utf-8", "backslashreplace"))
            + _number(3, int(lengths[number]))
        )


def _gather(
    source: VectorSource, scale: float
) -> tuple[list[str], NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    ids: list[str] = []
    terms: list[NDArray[np.uint32]] = [np.zeros(0, dtype=np.uint32)]
    impacts: list[NDArray[np.uint32]] = [np.zeros(0, dtype=np.uint32)]
    for page_id, vector in source.vectors():
        scaled = np.maximum(np.rint(vector.weights.astype(np.float64) * scale), 1)
        if len(scaled) and scaled.max() >= 1 << 31:
            raise InputError(
                f"page {page_id!r}: a weight times {scale} is too large for CIFF; use a smaller scale."
            )
        ids.append(page_id)
        terms.append(vector.terms)
        impacts.append(scaled.astype(np.uint32))
    counts = [len(page) for page in terms[1:]]
    lengths = np.array([page.sum(dtype=np.int64) for page in impacts[1:]], dtype=np.int64)
    pages = np.repeat(np.arange(len(ids), dtype=np.uint32), counts)
    return ids, lengths, np.concatenate(terms), pages, np.concatenate(impacts)


def postings(gaps: NDArray[np.uint32], impacts: NDArray[np.uint32]) -> bytes:
    """``repeated Posting postings = 4``, each {docid = 1, tf = 2}; all at once, for there are very many."""
    docids, docid_used = _varints(gaps)
    tfs, tf_used = _varints(impacts)
    count = len(gaps)
    length = 2 + docid_used.sum(axis=1) + tf_used.sum(axis=1)
    one = np.ones((count, 1), dtype=bool)

    def column(value: int) -> NDArray[np.uint8]:
        return np.full((count, 1), value, dtype=np.uint8)

    cells = np.hstack(
        (column(0x22), length[:, None].astype(np.uint8), column(0x08), docids, column(0x10), tfs)
    )
    used = np.hstack((one, one, one, docid_used, one, tf_used))
    return bytes(cells[used])


def _varints(values: NDArray[np.uint32]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Seven bits a byte, lowest first, the high bit set on all but the last; and which bytes are used."""
    shifts = np.arange(_VARINT_BYTES, dtype=np.uint64) * 7
    rest = values.astype(np.uint64)[:, None] >> shifts
    used = rest > 0
    used[:, 0] = True
    more = np.hstack((used[:, 1:], np.zeros((len(values), 1), dtype=bool)))
    return ((rest & 0x7F) | (more.astype(np.uint64) << 7)).astype(np.uint8), used


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _message(body: bytes) -> bytes:
    return _varint(len(body)) + body
