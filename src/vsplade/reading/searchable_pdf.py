"""A PDF that looks as the file does, and whose text can be searched, selected and copied.

Pages of a PDF stay as they are and get the reading as invisible text; a picture becomes a page. A process of
its own does it: files may be hostile.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from vsplade.errors import InputError, PageError
from vsplade.pages import Limits
from vsplade.pages.process import worker_command
from vsplade.reading.page_reading import PageReading

SECONDS_PER_PAGE = 5.0
"""That writing may take at most, beside what reading one page may."""


def write_searchable_pdf(
    readings: Sequence[PageReading], output: str | os.PathLike[str], *, limits: Limits | None = None
) -> None:
    """The file that these readings are of, with their text, as ``output``.

    Pages whose words are from the text layer have it already, so they are left as they are. ``output`` is
    complete or not there: it takes the place of an older file when it is done.
    """
    paths = {reading.path for reading in readings}
    if len(paths) != 1:
        raise InputError("A searchable PDF is made of the pages of one file: give the readings of one.")
    source, target = paths.pop(), Path(output)
    if target.exists() and os.path.samefile(source, target):
        raise InputError(f"{source} would be overwritten; choose another name for the searchable PDF.")
    limits = limits or Limits()
    job = {
        "source": os.path.abspath(source),
        "limits": asdict(limits),
        "pages": {str(reading.number): _lines_of(reading) for reading in readings},
    }
    try:
        handle, part = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except FileNotFoundError:
        raise InputError(f"{target.parent} does not exist; make the folder first.") from None
    os.close(handle)
    try:
        _run({**job, "output": os.path.abspath(part)}, limits.max_seconds + SECONDS_PER_PAGE * len(readings))
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)


def _lines_of(reading: PageReading) -> dict[str, object]:
    if reading.from_text_layer:
        return {"quarters": 0, "lines": []}
    return {
        "quarters": reading.quarters,
        "lines": [
            [[word.text, word.box.left, word.box.top, word.box.right, word.box.bottom] for word in line.words]
            for line in reading.lines()
        ],
    }


def _run(job: dict[str, object], seconds: float) -> None:
    """One job in a process of its own, which says what went wrong in one line."""
    source = job["source"]
    try:
        done = subprocess.run(
            worker_command("vsplade.reading.pdf_process"),
            input=json.dumps(job).encode(),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PageError(f"{source}: took more than {seconds:.0f} s to write as a PDF.") from None
    if done.returncode == 0:
        return
    answer = done.stdout.decode("utf-8", "replace").strip()
    raise PageError(f"{source}: {answer or 'the process that wrote the PDF died, the file may be damaged'}.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
