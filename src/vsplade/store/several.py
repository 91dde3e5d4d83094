"""Several indexes of one encoder, read as one: their segments one behind the other.

A search looks at segments only, so it finds in several indexes exactly what it would find in one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from vsplade.errors import InputError, ModelMismatchError
from vsplade.store.damage import Damage, damage_of
from vsplade.store.identity import EncoderIdentity
from vsplade.store.segment import Segment
from vsplade.store.snapshot import LiveSegment, Snapshot
from vsplade.store.sources import recorded_pages
from vsplade.store.state import State
from vsplade.store.verify import live_twice


def load_commit(
    folders: Sequence[Path], previous: Snapshot | None = None, *, reduced: bool = False
) -> Snapshot:
    """The newest commit of an index, or of several together; ``reduced``: without damaged segments."""
    if not folders:
        raise InputError("Name at least one index.")
    if len(folders) == 1:
        return Snapshot.load(folders[0], previous, reduced=reduced)
    before = previous.parts if isinstance(previous, JoinedSnapshot) else (None,) * len(folders)
    parts = [Snapshot.load(*both, reduced=reduced) for both in zip(folders, before, strict=True)]
    if isinstance(previous, JoinedSnapshot) and all(
        old.shows_same_as(new) for old, new in zip(previous.parts, parts, strict=True)
    ):
        return previous
    return JoinedSnapshot(parts)


class JoinedSnapshot(Snapshot):
    """The commits of several indexes as one. Refused: another encoder, an id that two of them have."""

    def __init__(self, parts: Sequence[Snapshot]) -> None:
        self.parts = tuple(parts)
        _check_folders([part.folder for part in parts])
        first = parts[0]
        for part in parts[1:]:
            _check_alike(first, part)
        manifest = first.manifest.with_changes(
            generation=sum(part.manifest.generation for part in parts),
            segments=tuple(entry for part in parts for entry in part.manifest.segments),
            state=tuple(entry for part in parts for entry in part.manifest.state),
        )
        segments: list[LiveSegment] = []
        base = 0
        for part in parts:
            segments += [replace(live, base=base + live.base) for live in part.segments]
            base += sum(live.segment.pages for live in part.segments)
        damaged_parts = [one for part in parts for one in part.damaged_parts]
        super().__init__(first.folder, manifest, segments, JoinedState(parts), damaged_parts)
        for id, one, other in live_twice(self):
            raise InputError(
                f"page {id!r} is in {one.container.path.parent} and in {other.container.path.parent}: no id "
                "may be in two indexes that are joined. Remove it from one of them with `vsplade delete`."
            )

    @cached_property
    def damage(self) -> Damage | None:
        return damage_of(self.parts)

    def without(self, problems: Mapping[Segment, str]) -> Snapshot:
        return JoinedSnapshot([part.without(problems) for part in self.parts])


class JoinedState:
    """What the jobs of all of them have kept."""

    def __init__(self, parts: Sequence[Snapshot]) -> None:
        self._parts = parts

    def read(self) -> State:
        state: State = {}
        owners: dict[str, Path] = {}
        for part in self._parts:
            own = part.state.read()
            for path in (path for path, pages in recorded_pages(own).items() if pages):
                if path in owners:
                    raise InputError(
                        f"{path}: pages of this file are in {owners[path]} and in {part.folder}: they would "
                        "be found twice. Remove them from one of them: `vsplade delete --filter path=FILE`."
                    )
                owners[path] = part.folder
            state |= own
        return state


def _check_folders(folders: Sequence[Path]) -> None:
    resolved = [folder.resolve() for folder in folders]
    for place, folder in enumerate(resolved):
        if folder in resolved[:place]:
            raise InputError(f"{folders[place]}: this index is named twice.")


def _check_alike(one: Snapshot, other: Snapshot) -> None:
    first, second = EncoderIdentity.named_by(one.manifest), EncoderIdentity.named_by(other.manifest)
    if not first.makes_same_vectors(second):
        raise ModelMismatchError(
            f"{one.folder} was built with the encoder {first.name!r} (fingerprint {first.fingerprint}), "
            f"{other.folder} with {second.name!r} (fingerprint {second.fingerprint}). Vectors of two "
            "encoders cannot be searched together: index the files of one again, with the other's encoder."
        )
