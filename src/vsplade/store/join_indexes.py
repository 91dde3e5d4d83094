"""Join indexes that were built apart into a new one.

Segments are copied as they are, one at a time, and each copy is verified. So it needs little memory, whatever
the size, and pages come in the order of the indexes that they are of.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vsplade.errors import IndexFormatError, InputError
from vsplade.store import manifest as manifests
from vsplade.store.identity import EncoderIdentity
from vsplade.store.several import JoinedSnapshot
from vsplade.store.snapshot import LiveSegment, Snapshot, segment_problems
from vsplade.store.sources import damaged_segments
from vsplade.store.writer import IndexWriter
from vsplade.types import Progress


def join_indexes(
    folders: Sequence[Path], target: Path, progress: Progress = lambda done, total: None
) -> tuple[int, int]:
    """Write the pages of all ``folders`` to a new index; how many pages and segments it has.

    The indexes are left as they are. Nothing can be seen in ``target`` before all of it is there; after an
    interruption, the same call begins again.
    """
    if len(folders) < 2:
        raise InputError("Name at least two indexes to join.")
    joined = JoinedSnapshot([Snapshot.load(folder) for folder in folders])
    state = joined.state.read()
    if manifests.exists(target) and manifests.load(target).segments:
        raise InputError(f"{target}: there are pages in this index. Join into a new folder.")
    with IndexWriter(target, EncoderIdentity.named_by(joined.manifest)) as writer:
        try:
            done = 0
            for part in joined.parts:
                for live in part.segments:
                    _adopt(writer, part, live)
                    done += live.live_pages
                    progress(done, joined.pages)
            for key, value in state.items():
                writer.set_state(key, value)
            writer.commit()
        except BaseException:
            writer.rollback()  # what was copied is removed
            raise
    return joined.pages, len(manifests.load(target).segments)


def _adopt(writer: IndexWriter, part: Snapshot, live: LiveSegment) -> None:
    try:
        writer.adopt(live.segment, live.live)
    except IndexFormatError as error:
        for problem in segment_problems(live.segment):  # was it the original, or the copy?
            name = live.segment.container.path.name
            raise damaged_segments(part.folder, part.manifest, {name: problem}) from error
        raise
    live.segment.expect_random_reads()
