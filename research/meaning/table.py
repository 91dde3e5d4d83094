"""The query table: a vector for every token, by ridge regression on MiniLM's vectors of whole queries.

    python -m research.meaning.table WORK

A query's vector is the mean of its tokens' vectors, weighted by idf. That is linear in the table, so the
table that comes nearest to the teacher is the solution of a linear system:

    minimise  | X E - Y |^2 + penalty * | E - S |^2

`X` (queries x tokens) holds each query's idf weights with sum 1, `Y` MiniLM's vectors of the queries, `S` its
vectors of the single tokens: a token that few queries have stays near what MiniLM says of it alone. The
penalty is chosen on queries that were held out. `X'X` has few entries a row, so conjugate gradients solve all
dimensions at once, in minutes on a CPU.

Why not gradient descent, as in `train.py`: for another vocabulary the held-out cosine was 0.862 after 20
seconds of this, and 0.80 after a minute of gradient descent on a GPU.

Vectors are cut to the principal axes of passages and queries, without centring: `axes` is also the last layer
of the page encoder. Reads WORK/teacher (`teach`), writes WORK/table.npz.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from research.command import main
from research.meaning.options import TableOptions
from vsplade.errors import InputError

LAST_SPECIAL = 103
"""Tokens up to this number ([PAD], [UNK], [CLS] and such) are no words: their vectors are 0."""
QUERY_SHARE = 0.2
"""What queries count beside passages when the axes are chosen."""
LEAST_IDF, SMOOTHING = 0.5, 3
Array = np.ndarray[Any, Any]


def load_queries(folder: Path) -> tuple[Array, Array]:
    """Tokens and the teacher's vectors of all queries."""
    parts = [np.load(path) for path in sorted(folder.glob("queries-*.npz"))]
    if not parts:
        raise InputError(f"{folder}: no queries-*.npz there; run research.meaning.teach first")
    return np.concatenate([p["tokens"] for p in parts]), np.concatenate([p["vectors"] for p in parts])


def principal_axes(passages: Array, queries: Array, dimensions: int) -> Array:
    """(384, dimensions): where passages, and to a lesser degree queries, differ most."""
    moment = passages.T @ passages + QUERY_SHARE * len(passages) / len(queries) * (queries.T @ queries)
    _, vectors = np.linalg.eigh(moment)
    return np.ascontiguousarray(vectors[:, -dimensions:])


def counted(tokens: Array, vocabulary: int) -> csr_matrix:
    """How often each query (row) has each token (column), without special ones."""
    rows, columns = np.nonzero(tokens > LAST_SPECIAL)
    ones = np.ones(len(rows), np.float32)
    counts = csr_matrix((ones, (rows, tokens[rows, columns])), shape=(len(tokens), vocabulary))
    counts.sum_duplicates()
    return counts


def inverse_frequency(counts: csr_matrix) -> Array:
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log((counts.shape[0] + 1) / (frequency + SMOOTHING)).astype(np.float32)
    return np.maximum(idf, LEAST_IDF)


def weighted(counts: csr_matrix, idf: Array) -> csr_matrix:
    """Every row an idf-weighted mean: its weights have the sum 1."""
    weights = counts.data * idf[counts.indices]
    totals = np.add.reduceat(weights, counts.indptr[:-1])
    shares = weights / np.repeat(totals, np.diff(counts.indptr))
    return csr_matrix((shares, counts.indices, counts.indptr), shape=counts.shape)


def ridge(x: csr_matrix, y: Array, start: Array, penalty: float, rounds: int) -> Array:
    """The table nearest to ``y``, pulled to ``start``. Conjugate gradients; each column is its own system."""
    turned = x.T.tocsr()
    change = np.zeros_like(start)
    residual = turned @ (y - x @ start)
    direction, size = residual.copy(), (residual**2).sum(axis=0)
    for _ in range(rounds):
        image = turned @ (x @ direction) + penalty * direction
        step = size / ((direction * image).sum(axis=0) + 1e-12)
        change += step * direction
        residual -= step * image
        before, size = size, (residual**2).sum(axis=0)
        direction = residual + size / (before + 1e-12) * direction
    return start + change


def mean_cosine(x: csr_matrix, y: Array, table: Array) -> float:
    """With rows of ``y``, which are of length 1."""
    vectors = x @ table
    return float(((vectors * y).sum(axis=1) / (np.linalg.norm(vectors, axis=1) + 1e-9)).mean())


def table(options: TableOptions) -> dict[str, Any]:
    """Learn the query table and write WORK/table.npz: `axes` and `table`."""
    folder = options.work / "teacher"
    single = np.load(folder / "tokens.npz")["vectors"].astype(np.float32)
    passages = np.load(folder / "passages.npz")["vectors"].astype(np.float32)
    tokens, taught = load_queries(folder)
    worded = (tokens > LAST_SPECIAL).any(axis=1)
    tokens, queries = tokens[worded], taught[worded].astype(np.float32)
    axes = principal_axes(passages, queries, options.dimensions)
    y = queries @ axes
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    counts = counted(tokens, len(single))
    idf = inverse_frequency(counts)
    x, start = weighted(counts, idf), single @ axes
    order = np.random.default_rng(options.seed).permutation(len(y))
    held, used = order[: options.held_out], order[options.held_out :]
    x_used, y_used = x[used], y[used]
    cosines = {}
    best, best_cosine = start, mean_cosine(x[held], y[held], start)
    untrained = best_cosine
    for penalty in options.penalties:
        began = time.time()
        found = ridge(x_used, y_used, start, penalty, options.rounds)
        cosines[penalty] = mean_cosine(x[held], y[held], found)
        print(f"penalty {penalty}: {cosines[penalty]:.4f}, {time.time() - began:.0f} s", file=sys.stderr)
        if cosines[penalty] > best_cosine:
            best, best_cosine = found, cosines[penalty]
    weights = best * idf[:, None]  # a query then is a plain sum of rows
    weights[: LAST_SPECIAL + 1] = 0
    partial = options.work / "table.partial.npz"
    np.savez(partial, axes=axes, table=weights.astype(np.float32))
    os.replace(partial, options.work / "table.npz")
    return {"queries": len(y), "untrained": untrained, "held-out cosine": cosines}


if __name__ == "__main__":
    main(table, TableOptions)
