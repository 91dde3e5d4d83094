"""What every framework gets of a hit: words for the language model, and the page as a picture on request."""

from __future__ import annotations

import base64
import io
from typing import Any

from vsplade.errors import VspladeError
from vsplade.search.hits import Hit
from vsplade.search.page_view import place_of, shared_page_views
from vsplade.search.summary import word_facts

IMAGE_EDGE = 1200


def page_text(hit: Hit, whole_page: bool) -> str:
    """The words around the best place, or the page's whole reading; empty where its file is gone."""
    try:
        if not whole_page:
            return hit.snippet()
        words, _ = shared_page_views().words(*place_of(hit.id, hit.metadata))
        return " ".join(word.text for word in words)
    except VspladeError:
        return ""


def page_metadata(hit: Hit, images: bool) -> dict[str, Any]:
    """The page's own values, where it is, its score, which of the query's words it holds (``words``) and by
    what others are meant (``meant_by``); and, if asked for, its picture as base64 PNG.
    """
    facts = {**hit.metadata, "id": hit.id, "doc_id": hit.doc_id, "page_num": hit.page_num, "score": hit.score}
    facts |= word_facts(hit)
    if images:
        try:
            buffer = io.BytesIO()
            hit.image(IMAGE_EDGE).save(buffer, "PNG")
            facts["image"] = base64.b64encode(buffer.getvalue()).decode("ascii")
            facts["image_mime_type"] = "image/png"
        except VspladeError:
            facts["image"] = None
    return facts
