"""JSON, read strictly: lines, plain or gzipped, and files of one object. A mistake names its place."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from vsplade.errors import InputError


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, line) without blank lines; a byte that is not UTF-8 is an error with its line."""
    opener = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with opener(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if text.strip():
                    yield number, text
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist.") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: not UTF-8 ({error.reason}). Save the file as UTF-8."
        ) from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{path} is damaged or not a gzip file ({error}).") from error


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a log of ours; half a line, of a process that was killed, is passed over."""
    rows = []
    for _, line in read_lines(path):
        with suppress(ValueError):
            rows.append(json.loads(line))
    return rows


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) for each line."""
    for number, line in read_lines(path):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: expected a JSON object, found {line[:80]}")
        yield number, row


def read_object(path: Path, *, optional: bool = False) -> dict[str, Any]:
    """The one object of a file; nothing where an ``optional`` file is missing."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if optional:
            return {}
        raise InputError(f"There is no {path.name} in {path.parent}.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON: {error}.") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} does not hold a JSON object.")
    return found
