"""Where a command may write: never over a file that it reads, nor text over a document."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from vsplade.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image


def check_output(output: Path, sources: Iterable[str] = ()) -> None:
    """Of text or vectors. ``-o *.pdf`` names a user's PDF, because the shell puts the first one there."""
    from vsplade.pages.naming import HTML_SUFFIXES, SUFFIXES

    if output.suffix.lower() in SUFFIXES - HTML_SUFFIXES:
        raise InputError(
            f"{output}: by its ending this is a document or a picture, and what is to be written is neither. "
            "Choose another name."
        )
    check_no_source(output, sources)


def check_no_source(output: Path, sources: Iterable[str]) -> None:
    if output.exists() and any(os.path.exists(file) and os.path.samefile(output, file) for file in sources):
        raise InputError(f"{output} is a file to be read, and would be overwritten. Choose another name.")


def write_picture(image: Image, target: Path) -> None:
    """In the format of the file's ending; whole, or what was there before stays."""
    import io

    from PIL import Image

    from vsplade.store.durable import write_output

    buffer = io.BytesIO()
    image.save(buffer, Image.registered_extensions()[target.suffix.lower()])
    write_output(target, [buffer.getbuffer()])
