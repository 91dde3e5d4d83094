"""From queries to ranked, named pages in one call without the GIL: nominate, rescore, rank, read names.

One call handles a few queries, segment by segment (lists that several of them read are then still in cache),
from the weights to the names of the pages found: no Python in between, for which several threads would have
to wait in turn. Arrays are handed over as addresses in a table, for unpacking hundreds of numpy arrays costs
more than searching them. ``engine.py`` fills the table and keeps the arrays alive.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import carray, njit

from vsplade.search.native.candidates import nominate
from vsplade.search.native.rescore import rescore, segment_of
from vsplade.search.native.segment_table import (
    BASE,
    NAME_BYTES,
    NAME_STARTS,
    NAMES,
    PAGES,
    at_u8,
    at_u64,
    helper,
    sort_best_first,
)
from vsplade.search.native.simd import fetch

NO_BOUND = 1 << 40
"""Sums of pruned pages say nothing about true scores: all that the first stage proposes are scored."""


@helper
def _answer(table, terms, weights, k, first_stage, found, pages, unit, under, numbers, scores):
    """Fill in the numbers and scores of the best of the nominated pages; returns how many there are."""
    sort_best_first(found, pages)
    if first_stage:
        found, pages, under = found[:first_stage], pages[:first_stage], NO_BOUND
    exact = rescore(table, terms, weights, found, pages, k, unit, under)
    # Scores are not negative, so they sort as their bits do.
    exact_bits, score_bits = exact.view(np.int32), scores.view(np.int32)
    for i in range(len(exact)):
        found[i] = exact_bits[i]
    sort_best_first(found[: len(exact)], pages[: len(exact)])
    count = 0
    while count < min(k, len(exact)) and found[count] > 0:
        numbers[count] = pages[count]
        score_bits[count] = found[count]
        count += 1
    return count


@helper
def _read_names(table, numbers, counts):
    """(starts, bytes) of the names of all pages found. They lie anywhere in memory, so all are asked for
    before the first is read."""
    total = 0
    for q in range(len(counts)):
        total += counts[q]
    starts = np.empty(total + 1, dtype=np.int64)
    starts[0] = 0
    sources = np.empty(total, dtype=np.int64)
    for q in range(len(counts)):
        for i in range(counts[q]):
            number = numbers[q, i]
            s = segment_of(table, number)
            fetch(table[s, NAME_STARTS] + 8 * (number - table[s, BASE]))
    at = 0
    for q in range(len(counts)):
        for i in range(counts[q]):
            number = numbers[q, i]
            s = segment_of(table, number)
            page, end = number - table[s, BASE], table[s, NAME_BYTES]
            places = carray(at_u64(table[s, NAME_STARTS]), table[s, PAGES] + 1)
            low = max(0, min(np.int64(places[page]), end))
            high = max(low, min(np.int64(places[page + 1]), end))
            sources[at] = table[s, NAMES] + low
            starts[at + 1] = starts[at] + high - low
            fetch(sources[at])
            at += 1
    names = np.empty(starts[total], dtype=np.uint8)
    for i in range(total):
        size = starts[i + 1] - starts[i]
        name = carray(at_u8(sources[i]), size)
        for j in range(size):
            names[starts[i] + j] = name[j]
    return starts, names


@njit(nogil=True, cache=True)
def answer(table, starts, terms, weights, k, first_stage, sums, numbers, scores, counts):
    """Query q has terms[starts[q]:starts[q + 1]]. Its counts[q] best pages go into rows q of ``numbers`` and
    ``scores``; returns the names of them all, one behind the other, and where each starts.

    ``sums`` (uint16 for at most SHORT_QUERY terms, else uint32) is scratch memory for 65,536 pages.
    ``first_stage`` > 0: only so many pages, those with the largest sums, are scored.
    """
    found, pages, found_counts, units, unders = nominate(
        table, starts, terms, weights, first_stage if first_stage else k, first_stage == 0, sums
    )
    for q in range(len(counts)):
        low, high, size = starts[q], starts[q + 1], found_counts[q]
        counts[q] = _answer(
            table,
            terms[low:high],
            weights[low:high],
            k,
            first_stage,
            found[q, :size],
            pages[q, :size],
            units[q],
            unders[q],
            numbers[q],
            scores[q],
        )
    return _read_names(table, numbers, counts)
