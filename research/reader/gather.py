"""Public sources to plain text: dictionaries, man pages, HTML, JSON lines and PDFs, known by their names."""

from __future__ import annotations

import gzip
import html
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from research.command import main
from research.reader.options import TextOptions
from vsplade.errors import InputError

FIELDS = ("title", "query", "text", "caption", "tsv")
_SCRIPTS = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
_TAGS = re.compile(r"<[^>]+>")
_TROFF = re.compile(r"\\f[A-Z]|\\|^\.\w+", re.MULTILINE)
_MAN = re.compile(r"\.[1-9][a-z]*$")


def files_of(sources: Iterable[Path]) -> Iterator[Path]:
    """Files as they are given, folders with all that lies below them, in order of name."""
    for source in sources:
        if source.is_dir():
            yield from sorted(path for path in source.rglob("*") if path.is_file())
        elif source.is_file():
            yield source
        else:
            raise InputError(f"There is no file or folder {source}.")


def _line_texts(line: str) -> Iterator[str]:
    """The FIELDS of a JSON line; ids, file names and numbers are no text."""
    row = json.loads(line)
    return (row[name] for name in FIELDS if isinstance(row.get(name), str))


def _pdf_text(path: Path) -> Iterator[str]:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(str(path))
    except pypdfium2.PdfiumError as error:
        raise InputError(f"{path} cannot be read as a PDF: {error}.") from error
    for page in document:
        yield page.get_textpage().get_text_range().replace("\ufffe", "").replace("\r\n", "\n")
    document.close()


def texts_of(path: Path) -> Iterator[str] | None:
    """The texts of one file; None for kinds of files that are passed over."""
    name = path.name.lower()
    if name.endswith(".pdf"):
        return _pdf_text(path)
    packed = name.endswith((".gz", ".dz"))
    plain = name[:-3] if packed else name
    wanted = plain.endswith((".dict", ".html", ".htm", ".jsonl", ".txt")) or _MAN.search(plain)
    if not wanted:
        return None
    raw = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    text = raw.decode("utf-8", errors="ignore")
    if plain.endswith((".html", ".htm")):
        return iter([html.unescape(_TAGS.sub("", _SCRIPTS.sub("", text)))])
    if plain.endswith(".jsonl"):
        return (part for line in text.splitlines() if line.strip() for part in _line_texts(line))
    if _MAN.search(plain):
        return iter([_TROFF.sub("", text)])
    return iter([text])


def gather_text(options: TextOptions) -> dict[str, Any]:
    """Gather text from dictionaries, manuals, JSON lines and PDFs."""
    used = skipped = characters = 0
    with open(options.out, "w", encoding="utf-8") as out:
        for path in files_of(options.sources):
            texts = texts_of(path)
            if texts is None:
                skipped += 1
                continue
            used += 1
            for text in texts:
                characters += out.write(text + "\n")
    if not used:
        raise InputError(f"None of the {skipped} files is of a kind that text can be taken from.")
    return {"out": str(options.out), "files": used, "skipped": skipped, "characters": characters}


if __name__ == "__main__":
    main(gather_text, TextOptions)
