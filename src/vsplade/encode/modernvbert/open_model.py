"""A model by folder or hub name: its query side for searching, its folder for reading pages."""

from __future__ import annotations

from pathlib import Path

from vsplade.encode.modernvbert.find_model import find_model
from vsplade.encode.modernvbert.query import QuerySide, cached, cached_side, has_side, open_side
from vsplade.errors import InputError, MissingExtraError


def open_model(model: str, download: bool, bag: bool = False) -> tuple[QuerySide, Path | None]:
    """The query side, and the model's folder unless there is the query side alone. With ``bag`` every word of
    a query weighs 1.
    """
    known = Path(model).expanduser()
    if known.is_dir() and has_side(known) and not (known / "config.json").is_file():
        return open_side(known.resolve()), None
    name = str(known.resolve()) if known.is_dir() else model
    try:
        folder = find_model(model, download=download)
    except (InputError, MissingExtraError):
        kept = cached_side(name, bag)
        if has_side(kept):  # the model is gone or out of reach; searching needs the side only
            return open_side(kept), None
        raise
    return cached(folder, name, bag), folder
