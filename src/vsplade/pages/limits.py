"""How much one input file may cost before it is refused."""

from __future__ import annotations

from dataclasses import dataclass, fields

from vsplade.errors import InputError


@dataclass(frozen=True, slots=True)
class Limits:
    """A file beyond one of these is reported with its name and the limit; the job goes on without it."""

    max_bytes: int = 1 << 30
    """Size of one file."""
    max_pages: int = 20_000
    """Pages in one file."""
    max_pixels: int = 150_000_000
    """Pixels of one decoded picture, checked before decoding. A worker may use 2 GiB and 12 bytes each."""
    max_seconds: float = 60.0
    """Time for one page; opening the file counts to its first page."""

    @property
    def memory(self) -> int:
        """Bytes of address space: 2 GiB for everything that is not one decoded picture, 12 bytes a pixel for
        that (an RGBA picture, its copy while it is shrunk, and room).
        """
        return (2 << 30) + 12 * self.max_pixels

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:  # written so that NaN fails too
                raise InputError(f"The limit {field.name} must be above zero, not {value}.")
