"""The 33 stop words of Lucene's English analyser, as the paper counts them."""

from __future__ import annotations

_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these "
    "they this to was will with"
)
LUCENE = frozenset(_WORDS.split())
