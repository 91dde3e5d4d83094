"""What a segment must look like, checked before anything in it is followed.

Two depths. ``check_layout`` looks at the header and at the arrays of places (a page's start, a term's list):
it runs whenever a segment is opened, and after it no search can read outside of the file. ``array_problems``
also looks at every posting: before a merge, when verifying, and when a small segment is opened.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from vsplade.store.array_file import Array, Container
from vsplade.store.durable import damaged
from vsplade.store.postings import DENSE, MAX_PAGES, MAX_VOCABULARY, WEIGHTS, row_stride, term_type

FULL = "full."
_CODES = tuple(np.dtype(kind) for kind in ("<u1", "<u2", "<u4"))


def check_layout(container: Container) -> None:
    """Raises IndexFormatError where lengths, places or types do not fit each other."""
    pages = container.whole("pages", 1, MAX_PAGES)
    postings = container.whole("postings", 0, (1 << 31) - 1)
    vocabulary = container.whole("vocabulary", 1, MAX_VOCABULARY)
    _array(container, "forward.terms", term_type(vocabulary), postings)
    _array(container, "forward.weights", np.dtype("<f4"), postings)
    _check_starts(container, "forward.starts", pages, postings)
    for name in ("id", "metadata", "thumbnail"):
        texts = _array(container, f"{name}.bytes", np.dtype("<u1"))
        _check_starts(container, f"{name}.starts", pages, len(texts))
    hashes = _array(container, "hash.values", np.dtype("<u8"), pages)
    hashed = _array(container, "hash.pages", np.dtype("<u2"), pages)
    if int(hashed.max()) >= pages or (hashes[1:] < hashes[:-1]).any():
        raise damaged(container.path, "its table of ids does not fit its pages")
    _check_columns(container, pages)
    _check_inverted(container, pages, vocabulary)


def _array(container: Container, name: str, dtype: np.dtype[np.generic], count: int | None = None) -> Array:
    if name not in container:
        raise damaged(container.path, f"the array {name} is missing")
    array = container[name]
    if array.dtype != dtype or (count is not None and len(array) != count):
        raise damaged(container.path, f"the array {name} has a wrong type or length")
    return array


def _check_starts(container: Container, name: str, pages: int, end: int) -> None:
    starts = _array(container, name, np.dtype("<u8"), pages + 1)
    if starts[0] != 0 or int(starts[-1]) != end or (starts[1:] < starts[:-1]).any():
        raise damaged(container.path, f"the array {name} does not increase from 0 to {end}")


def _check_columns(container: Container, pages: int) -> None:
    keys = container.header.get("columns")
    if (
        not isinstance(keys, list)
        or not all(isinstance(key, str) for key in keys)
        or len(set(keys)) != len(keys)
    ):
        raise damaged(container.path, "its header does not list the metadata's keys")
    for number in range(len(keys)):
        name = f"column.{number}.codes"
        kind = container[name].dtype if name in container else _CODES[0]
        _array(container, name, kind if kind in _CODES else _CODES[0], pages)
        _array(container, f"column.{number}.values", np.dtype("<u1"))


def _check_inverted(container: Container, pages: int, vocabulary: int) -> None:
    terms = _array(container, FULL + "terms", term_type(vocabulary))
    counts = _array(container, FULL + "counts", np.dtype("<u4"), len(terms))
    places = _array(container, FULL + "places", np.dtype("<u4"), len(terms))
    tops = _array(container, FULL + "tops", np.dtype("<f4"), len(terms))
    offsets = _array(container, FULL + "offsets", np.dtype("<u2"))
    _array(container, FULL + "levels", np.dtype("<u1"), len(offsets))
    dense = _array(container, FULL + "dense", np.dtype("<u1"))
    if len(terms) == 0:
        return
    if (terms[1:] <= terms[:-1]).any() or int(terms[-1]) >= vocabulary:
        raise damaged(container.path, "the terms of 'full' do not increase")
    # Written so that a NaN fails, too.
    if not (tops.min() >= WEIGHTS[0] and tops.max() <= WEIGHTS[1]):
        raise damaged(container.path, f"the array {FULL}tops has values that no weight can have")
    if int(counts.min()) < 1 or int(counts.max()) > pages:
        raise damaged(container.path, f"the array {FULL}counts does not fit {pages} pages")
    rows = np.flatnonzero(places >= DENSE)
    ends = places.astype(np.int64)
    ends += counts
    ends[rows] = 0
    if int(ends.max()) > len(offsets):
        raise damaged(container.path, f"the array {FULL}places leads out of its lists")
    if len(rows) and (int(places[rows].max()) - DENSE + 1) * row_stride(pages) > len(dense):
        raise damaged(container.path, f"the array {FULL}places leads out of its rows")


def array_problems(container: Container) -> Iterator[str]:
    """Postings that cannot be; of a segment that ``check_layout`` has passed."""
    header = container.header
    yield from impossible_vectors(
        container["forward.starts"],
        container["forward.terms"],
        container["forward.weights"],
        header["vocabulary"],
    )
    if not _adds_up(container, header["pages"], header["postings"]):
        yield "the searchable structure does not fit the pages"


def impossible_vectors(
    starts: NDArray[np.uint64], terms: Array, weights: NDArray[np.float32], vocabulary: int
) -> Iterator[str]:
    if len(terms) == 0:
        return
    if int(terms.max()) >= vocabulary:
        yield "a page has a term beyond the vocabulary"
    falls = np.flatnonzero(terms[1:] <= terms[:-1]) + 1  # only where another page begins
    if not np.isin(falls, starts.astype(np.int64)).all():
        yield "the terms of a page do not increase"
    if not (weights.min() >= WEIGHTS[0] and weights.max() <= WEIGHTS[1]):
        yield "a page has a weight that cannot be"


def _adds_up(container: Container, pages: int, postings: int) -> bool:
    counts, places = container[FULL + "counts"], container[FULL + "places"]
    offsets, dense = container[FULL + "offsets"], container[FULL + "dense"]
    listed = places < DENSE
    rows = int(np.count_nonzero(~listed))
    return (
        int(counts.sum(dtype=np.int64)) == postings
        and int(counts[listed].sum(dtype=np.int64)) == len(offsets)
        and rows * row_stride(pages) == len(dense)
        and (not len(offsets) or int(offsets.max()) < pages)
    )
