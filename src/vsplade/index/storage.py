"""Durable files: written whole, synced, renamed into place; and the lock that admits one writer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from vsplade.errors import IndexFormatError, IndexLockedError, StorageError

Chunk = bytes | memoryview
_PIECE = 1 << 24
_SPARE = ".new"


def to_bytes(text: str) -> bytes:
    """UTF-8; lone surrogates, Python's form of file names that are not UTF-8, are kept as they are."""
    return text.encode("utf-8", "surrogatepass")


def from_bytes(body: bytes) -> str:
    return body.decode("utf-8", "surrogatepass")


def damaged(path: Path, reason: str) -> IndexFormatError:
    return IndexFormatError(
        f"{path}: this index file is damaged: {reason}. Restore the folder from a copy, or delete it and run "
        "`vsplade index` again."
    )


def unreadable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path}: cannot be read ({error.strerror or error}). Check its permissions; of a very large index, "
        "also the limit on open files (ulimit -n)."
    )


def write_durably(path: Path, chunks: Iterable[Chunk]) -> int:
    """Write ``path`` so that after a crash it is either absent (or the old one) or whole.

    Returns the number of bytes. Whatever goes wrong (a full disk, ctrl-C, an error of ``chunks``), nothing is
    left behind; what the system refuses is raised as StorageError.
    """
    spare = path.with_name(path.name + _SPARE)
    written = 0
    try:
        try:
            with open(spare, "wb") as file:
                for chunk in chunks:
                    written += _write_all(file, chunk)
                file.flush()
                os.fsync(file.fileno())
            os.replace(spare, path)
        except BaseException:
            # A folder that cannot be written to may not let us remove either: the first error is the one to
            # report.
            with suppress(OSError):
                spare.unlink()
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise StorageError(
            f"{path}: could not be written ({error.strerror or error}). What was there before is untouched "
            "(of an index: its last commit). Free some space or fix the permissions, then try again."
        ) from error
    return written


def _write_all(file: IO[bytes], chunk: Chunk) -> int:
    # Pieces keep the kernel's dirty-page burst (and a partial write) small on large segments.
    view = memoryview(chunk)
    for start in range(0, len(view), _PIECE):
        file.write(view[start : start + _PIECE])
    return len(view)


def sync_folder(folder: Path) -> None:
    """A rename is durable only when the folder itself is synced (not possible, nor needed, on Windows)."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class WriterLock:
    """An operating-system lock on ``<folder>/LOCK``: a writer that is killed releases it by dying."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "LOCK"
        self._file: IO[bytes] | None = None

    def acquire(self) -> None:
        try:
            file = open(self.path, "a+b")  # noqa: SIM115 - held open for as long as the lock is held
        except OSError as error:
            raise StorageError(
                f"{self.path}: cannot be opened for writing ({error.strerror}). Check its permissions."
            ) from error
        try:
            _lock(file)
        except OSError as error:
            file.seek(0)
            owner = file.read(32).decode("ascii", "replace").strip()
            file.close()
            raise IndexLockedError(
                f"{self.path.parent}: another process{f' (pid {owner})' if owner else ''} is writing to this "
                "index. Wait until it has finished, or stop it; searching is possible meanwhile."
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            # The file stays: removing it would let two writers lock two different files of one name.
            self._file.close()
            self._file = None

    def __enter__(self) -> WriterLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        file.seek(1 << 20)  # beyond the pid, which others must still be able to read
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)
else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
