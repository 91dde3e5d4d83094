"""Errors for people: each message says what happened, to which file, and what to do next."""

from __future__ import annotations

from pathlib import Path


class VspladeError(Exception):
    """Base of every error that vsplade raises on purpose. ``exit_code`` is the CLI's."""

    exit_code = 2


class InputError(VspladeError):
    """A file, folder, query or option that cannot be used."""


class PageError(InputError):
    """One file or page that cannot be turned into pictures; the rest of a job goes on."""


class IndexFormatError(VspladeError):
    """The index on disk is missing, damaged, or of another version."""


class DamagedFileError(IndexFormatError):
    """One file of an index that cannot be read. ``reason`` says why, without the file's name."""

    def __init__(self, message: str, path: Path, reason: str) -> None:
        super().__init__(message)
        self.path, self.reason = path, reason


class DamagedSegmentError(IndexFormatError):
    """Segments that fail their checksums. ``sources`` are the files whose pages they held, where known."""

    def __init__(self, message: str, sources: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.sources = sources


class VspladeWarning(UserWarning):
    """Something that was left out, and that people should know of; nothing was lost."""


class IndexLockedError(VspladeError):
    """Another process is writing to the index."""


class StorageError(VspladeError):
    """The index could not be written (full disk, permissions); its last commit is untouched."""


class EngineError(VspladeError):
    """An outside engine that keeps an index cannot be reached, or refuses what it is asked for."""


class ModelMismatchError(VspladeError):
    """The index was built with another model than the one asked for."""


class MissingExtraError(VspladeError):
    """A heavy, optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs an extra that is not installed. Run: pip install 'vsplade[{extra}]'"
        )
