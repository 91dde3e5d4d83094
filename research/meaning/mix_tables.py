"""Two query tables that were learned apart, as one: the mean of both, for the pages of the first.

    python -m research.meaning.mix_tables MODEL OTHER --out OUT

MODEL and OTHER are folders that `export` wrote. Each training chooses axes of its own, so rows of both are
compared only after OTHER's are turned: by the rotation that brings them nearest to MODEL's (the orthogonal
Procrustes problem), and to the same mean length.

    rotation = U V,  where  U S V = svd(other^T model)
    row      = (1 - share) * row of MODEL + share * length * row of OTHER @ rotation

A word without a row in OTHER keeps its own. Pages, centres and the fingerprint stay MODEL's, so an index that
is there gains without being made anew.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from research.command import main
from research.meaning.export import write_table
from research.meaning.options import MixOptions
from vsplade.errors import InputError

Array = np.ndarray[Any, Any]


def load_table(model: Path) -> tuple[Array, list[str]]:
    """The rows, and the name of each: its token or its word."""
    codes, scale = np.load(model / "query.npy"), np.load(model / "query_scale.npy")
    names = (model / "vocab.txt").read_text("utf-8").splitlines()
    return codes * scale[:, None], names + (model / "words.txt").read_text("utf-8").splitlines()


def rotation(rows: Array, wanted: Array) -> Array:
    """Turns ``rows`` as near as can be to ``wanted``, and leaves every length as it is."""
    left, _, right = np.linalg.svd(rows.T @ wanted)
    turned: Array = left @ right
    return turned


def mixed(rows: Array, names: list[str], others: Array, other_names: list[str], share: float) -> Array:
    known = {name: number for number, name in enumerate(other_names)}
    at = np.array([number for number, name in enumerate(names) if name in known])
    own, other = rows[at], others[[known[names[number]] for number in at]]
    length = np.linalg.norm(own, axis=1).mean() / np.linalg.norm(other, axis=1).mean()
    out = rows.copy()
    out[at] = (1 - share) * own + share * length * (other @ rotation(other, own))
    return out


def mix_tables(options: MixOptions) -> dict[str, Any]:
    """Write a folder like MODEL with the mean of both tables."""
    (rows, names), (others, other_names) = load_table(options.model), load_table(options.other)
    if rows.shape[1] != others.shape[1]:
        raise InputError(
            f"{options.other} has {others.shape[1]} dimensions, {options.model} {rows.shape[1]}."
        )
    options.out.mkdir(parents=True, exist_ok=True)
    for name in ("page.onnx", "centroids.npy", "vocab.txt", "words.txt", "meaning.json"):
        shutil.copyfile(options.model / name, options.out / name)
    table = mixed(rows, names, others, other_names, options.share)
    return write_table(table, options.out)


if __name__ == "__main__":
    main(mix_tables, MixOptions)
