"""Vectors with the keys of their pages, through encoders that take pages ahead of their answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

from vsplade.errors import VspladeError
from vsplade.pages import RenderedPage
from vsplade.types import Encoder, Page, SparseVector

Key = TypeVar("Key")


def encode_rendered(
    encoder: Encoder, rendered: Iterable[RenderedPage]
) -> Iterator[tuple[RenderedPage, SparseVector]]:
    return encode_keyed(encoder, ((item, item.page) for item in rendered))


def encode_keyed(encoder: Encoder, items: Iterable[tuple[Key, Page]]) -> Iterator[tuple[Key, SparseVector]]:
    """Each page's key, then its vector; memory is bounded as that of ``encode_pages``."""
    waiting: deque[Key] = deque()

    def pages() -> Iterator[Page]:
        for key, page in items:
            waiting.append(key)
            yield page

    for vector in encoder.encode_pages(pages()):
        if not waiting:
            raise VspladeError(f"The encoder {encoder.name!r} made more vectors than pages.")
        yield waiting.popleft(), vector
    if waiting:
        raise VspladeError(f"The encoder {encoder.name!r} made no vector for some pages.")
