"""Durable files: written whole, synced, renamed into place; and the lock that admits one writer.

A folder may come from a stranger. So links and pipes are not followed, and nothing is overwritten that is not
one of our own unfinished files.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from vsplade.errors import DamagedFileError, IndexFormatError, IndexLockedError, StorageError
from vsplade.store import file_names

Chunk = bytes | memoryview
_PIECE = 1 << 24
_SPARE = ".new"
_SPARES = 1000
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_PLAIN |= getattr(os, "O_BINARY", 0)
"""How files of an index are opened: a link is not followed, a pipe does not wait for its other end."""


def to_bytes(text: str) -> bytes:
    """UTF-8; lone surrogates, Python's form of file names that are not UTF-8, are kept as they are."""
    return text.encode("utf-8", "surrogatepass")


def from_bytes(body: bytes) -> str:
    return body.decode("utf-8", "surrogatepass")


def damaged(path: Path, reason: str) -> DamagedFileError:
    return DamagedFileError(
        f"{path}: this index file is damaged: {reason}. Restore the folder from a copy, or run "
        f"`vsplade index --recover --index {path.parent}`: it keeps what is sound and says what is missing.",
        path,
        reason,
    )


def missing(folder: Path, error: FileNotFoundError) -> IndexFormatError:
    return IndexFormatError(
        f"{error.filename}: this file of the index is missing. Restore the folder from a copy, or run "
        f"`vsplade index --recover --index {folder}`: it keeps what is there and says what is missing."
    )


def unreadable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{path}: cannot be read ({error.strerror or error}). Check its permissions; of a very large index, "
        "also the limit on open files (ulimit -n)."
    )


def not_plain(path: Path) -> DamagedFileError:
    what = "this is a link, a pipe or a folder, not a plain file"
    return DamagedFileError(
        f"{path}: {what}. The files of an index must lie in its own folder: put the file itself there.",
        path,
        what,
    )


def open_plain(path: Path, flags: int = os.O_RDONLY) -> IO[bytes]:
    """Open a file of an index. Where it does not exist, or is to be written to, OSErrors are the caller's to
    explain."""
    try:
        handle = os.open(path, flags | _PLAIN, 0o666)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO):
            raise not_plain(path) from error
        if flags != os.O_RDONLY:
            raise
        raise unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode) or (sys.platform == "win32" and path.is_symlink()):
        os.close(handle)
        raise not_plain(path)
    return os.fdopen(handle, "rb" if flags == os.O_RDONLY else "r+b")


def read_plain(path: Path, most: int) -> bytes:
    """The content of a side file of at most ``most`` bytes."""
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise damaged(path, f"it has {size} bytes, more than such a file can have")
        try:
            return file.read()
        except OSError as error:
            raise unreadable(path, error) from error


def write_durably(path: Path, chunks: Iterable[Chunk]) -> int:
    """Write ``path`` so that after a crash it is either absent (or the old one) or whole.

    Returns the number of bytes. Whatever goes wrong (a full disk, ctrl-C, an error of ``chunks``), nothing is
    left behind; what the system refuses is raised as StorageError.
    """
    written = 0
    try:
        spare, handle = _open_spare(path)
        try:
            with os.fdopen(handle, "wb") as file:
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


def write_output(path: Path, chunks: Iterable[Chunk]) -> int:
    """The same for a file that somebody named: where a link leads, and straight into a pipe or a device."""
    if not path.exists() or path.is_file() or path.is_dir():  # into a folder cannot be, and is told there
        return write_durably(Path(os.path.realpath(path)), chunks)
    with open(path, "wb") as file:
        return sum(_write_all(file, chunk) for chunk in chunks)


def _open_spare(path: Path) -> tuple[Path, int]:
    """A new file beside ``path``. One that a killed writer of an index left is removed first; whatever else
    has that name stays, and another name is taken."""
    for number in range(_SPARES):
        spare = path.with_name(f"{path.name}.{number}{_SPARE}" if number else path.name + _SPARE)
        if file_names.is_spare(spare.name) and file_names.is_plain_file(spare):
            spare.unlink(missing_ok=True)
        try:
            return spare, os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o666)
        except FileExistsError:
            continue
    raise FileExistsError(errno.EEXIST, f"too many files named {path.name}*{_SPARE}", str(path))


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
        self.path = folder / file_names.LOCK
        self._file: IO[bytes] | None = None

    def acquire(self) -> None:
        try:
            file = open_plain(self.path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StorageError(
                f"{self.path}: cannot be opened for writing ({error.strerror}). Check its permissions."
            ) from error
        try:
            _lock(file)
        except OSError as error:
            owner = _owner(file)
            file.close()
            raise IndexLockedError(
                f"{self.path.parent}: another process{f' (pid {owner})' if owner else ''} is writing to this "
                "index. Wait until it has finished, or stop it; searching is possible meanwhile."
            ) from error
        if _owner(file) is None:
            file.close()
            raise StorageError(
                f"{self.path}: this file is not one of vsplade's, so it is not overwritten. Move it away, or "
                "give the index a folder of its own."
            )
        file.seek(0)
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


def _owner(file: IO[bytes]) -> str | None:
    """The process id in a lock file; empty where there is none, None where there is something else."""
    file.seek(0)
    match = re.fullmatch(rb"([0-9]{0,20})\s{0,2}", file.read(64))
    return match[1].decode() if match else None


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
