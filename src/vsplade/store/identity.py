"""Which encoder an index belongs to: its vectors mean nothing to another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsplade.errors import ModelMismatchError
from vsplade.store.manifest import JsonValue, Manifest
from vsplade.types import Encoder


@dataclass(frozen=True, slots=True)
class EncoderIdentity:
    """What an index remembers of the encoder that made its vectors."""

    name: str
    fingerprint: str
    terms: int
    """Size of the vocabulary."""

    @classmethod
    def of(cls, encoder: Encoder) -> EncoderIdentity:
        return cls(encoder.name, encoder.fingerprint, len(encoder.vocabulary))

    @classmethod
    def named_by(cls, manifest: Manifest) -> EncoderIdentity:
        return cls(manifest.encoder, manifest.fingerprint, manifest.vocabulary)

    def to_json(self) -> dict[str, JsonValue]:
        """As files beside vectors say whose they are."""
        return {"encoder": self.name, "fingerprint": self.fingerprint, "vocabulary": self.terms}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> EncoderIdentity:
        """KeyError, TypeError or ValueError where it does not say so."""
        return cls(str(given["encoder"]), str(given["fingerprint"]), int(given["vocabulary"]))

    def makes_same_vectors(self, other: EncoderIdentity) -> bool:
        """Names may differ in what concerns queries alone, as ``reader`` and ``reader+dense``."""
        return (self.fingerprint, self.terms) == (other.fingerprint, other.terms)


def check_encoder(where: Path | str, stored: EncoderIdentity, identity: EncoderIdentity | None) -> None:
    """An index is searched and extended only with the encoder that began it, or one of equal vectors."""
    if identity is None:
        return
    if not stored.makes_same_vectors(identity):
        if (stored.name, stored.terms) == (identity.name, identity.terms):
            raise ModelMismatchError(
                f"{where}: this index was built with another version of the encoder {stored.name!r} "
                f"(fingerprint {stored.fingerprint}, here {identity.fingerprint}). Index the files again "
                "into a new folder: `vsplade index PATH... --index NEW`."
            )
        raise ModelMismatchError(
            f"{where}: this index was built with the encoder {stored.name!r} (fingerprint "
            f"{stored.fingerprint}, {stored.terms} terms), not with {identity.name!r} (fingerprint "
            f"{identity.fingerprint}, {identity.terms} terms). Use the encoder that built it, or index the "
            "files again into a new one."
        )
