"""What both teachers say, MiniLM and MPNet: the vectors that `remap` learns from.

    python -m research.meaning.second_teacher WORK --minilm FOLDER

MPNet finds pages in other words far better than MiniLM, and pages in their own words a little less well. Both
together are better than either at both. A text's vector is both of them, one behind the other:

    (sqrt(share) * MPNet, sqrt(1 - share) * MiniLM)

so that the cosine of two texts is the mean of the two cosines, weighted by ``share``.

MPNet takes five times as long as MiniLM, so it reads only some of the queries and passages of WORK/teacher
(`teach`), and the word of every row of the query table alone (WORK/trained.npz has them). Writes WORK/both:
rows.npz, queries-*.npz and passages-*.npz (`numbers` in WORK/teacher, `vectors`). A file that is there is not
made again.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from research.command import main
from research.meaning.collect.packages import fetch_mpnet
from research.meaning.mpnet import MPNet
from research.meaning.options import SecondTeacherOptions
from research.meaning.prepare import TEACHER_PASSAGE, teacher_tokens
from research.meaning.query_words import LONGEST
from research.meaning.teach import QUERY, Teacher, save_arrays, taught_passages, taught_queries
from vsplade.encode.meaning.wordpiece import WordPiece
from vsplade.errors import InputError

PART = {"queries": 25_000, "passages": 2_500}
"""Texts of one file."""
Array = np.ndarray[Any, Any]


def joined(mpnet: Array, minilm: Array, share: float) -> Array:
    """Of length 1, as both are."""
    parts = (np.sqrt(share) * mpnet.astype(np.float32), np.sqrt(1 - share) * minilm.astype(np.float32))
    return np.concatenate(parts, axis=1).astype(np.float16)


def load_both(folder: Path, kind: str) -> tuple[Array, Array]:
    """The numbers of the queries, or passages, that both teachers read, and the joint vectors."""
    parts = [np.load(path) for path in sorted(folder.glob(f"{kind}-*.npz"))]
    if not parts:
        raise InputError(f"{folder}: no {kind}-*.npz there; run research.meaning.second_teacher first")
    return np.concatenate([p["numbers"] for p in parts]), np.concatenate([p["vectors"] for p in parts])


def second_teacher(options: SecondTeacherOptions) -> dict[str, Any]:
    """Write the joint vectors of rows, queries and passages into WORK/both."""
    folder = options.work / "both"
    folder.mkdir(exist_ok=True)
    pieces = WordPiece.load(options.minilm / "vocab.txt")
    minilm = Teacher(options.minilm, options.work / "teacher" / "minilm.onnx", options.threads)
    mpnet = MPNet(options.mpnet or fetch_mpnet(options.work), pieces)

    def vectors(tokens: Array) -> Array:
        return joined(mpnet.vectors(tokens), minilm.vectors(tokens), options.share)

    if not (folder / "rows.npz").exists():
        words = np.load(options.work / "trained.npz")["words"].tolist()
        alone = teacher_tokens(options.minilm, words, LONGEST + 2)
        both = [vectors(minilm.single_tokens()), vectors(alone)]
        save_arrays(folder / "rows.npz", vectors=np.concatenate(both))
    began, rng = time.time(), np.random.default_rng(options.seed)
    texts = {"queries": taught_queries(options.work), "passages": taught_passages(options.work)}
    wanted = {"queries": options.queries, "passages": options.passages}
    for kind, size in PART.items():
        order = rng.permutation(len(texts[kind]))[: wanted[kind]]
        for number, first in enumerate(range(0, len(order), size)):
            path = folder / f"{kind}-{number:03d}.npz"
            if not path.exists():
                chosen = order[first : first + size]
                some = [texts[kind][n] for n in chosen.tolist()]
                tokens = teacher_tokens(options.minilm, some, QUERY if kind == "queries" else TEACHER_PASSAGE)
                save_arrays(path, numbers=chosen, vectors=vectors(tokens))
                print(f"{time.time() - began:5.0f} s  {path.name}", file=sys.stderr)
    return {"folder": str(folder)} | wanted


if __name__ == "__main__":
    main(second_teacher, SecondTeacherOptions)
