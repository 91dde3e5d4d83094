"""Which files are encoded together, and which are done already.

Files are put into groups in their order, each of about so many bytes. A group is one task and becomes one
shard. The groups depend on the files alone, so a run that is begun again makes the same shards.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vsplade.errors import InputError, ModelMismatchError
from vsplade.exchange.shard_folder import FINISHED, Committed, ShardFolder, open_place, unreachable
from vsplade.pages import FileProblem, discover, name_files
from vsplade.pages.formats import is_supported
from vsplade.store.identity import EncoderIdentity

TASK_BYTES, TASK_FILES = 32 << 20, 128


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of a task."""

    path: str
    """Absolute, or an address such as ``s3://bucket/report.pdf``."""
    doc_id: str
    size: int
    stamp: str
    """Another one: the file has changed."""

    @property
    def remote(self) -> bool:
        return "://" in self.path


@dataclass(frozen=True, slots=True)
class EncodeTask:
    stem: str
    """Of the shard's name; told by the files, their stamps and the encoder."""
    files: tuple[InputFile, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    tasks: tuple[EncodeTask, ...]
    files: int
    done_files: int
    """Files that earlier runs have encoded."""
    problems: tuple[FileProblem, ...]
    """Paths that could not be used at all."""


def make_plan(
    paths: Sequence[str], folder: ShardFolder, identity: EncoderIdentity, retry_failed: bool = False
) -> Plan:
    """What is left to do so that ``folder`` holds the pages of all these files.

    A shard with a file that has changed since is withdrawn, and all its files are done again. So are shards
    that no list names. ``retry_failed`` tries files again of which no page could be encoded.
    """
    found, problems = _find(paths)
    if not found:
        raise InputError(
            f"{problems[0].path} {problems[0].reason}." if problems else "There are no pages in these paths."
        )
    stamps = dict(found)
    done: set[str] = set()
    names: dict[str, str] = {}
    committed = folder.committed()
    for shard in committed:
        _check_encoder(folder, shard, identity)
    folder.check_free()
    folder.remove(FINISHED)  # not before it is sure that the run begins
    for shard in committed:
        lines = {line["path"]: line for line in shard.files}
        if any(path in stamps and stamps[path][1] != line["stamp"] for path, line in lines.items()):
            folder.withdraw(shard.stem)
            rest, gone = _find([path for path in lines if path not in stamps])
            stamps |= dict(rest)
            problems += gone
        else:
            names |= {path: str(line["doc_id"]) for path, line in lines.items()}
            done |= {path for path, line in lines.items() if line["rows"] or not retry_failed}
    folder.remove_unfinished()
    files = [InputFile(file.path, file.doc_id, *stamps[file.path]) for file in name_files(stamps, names)]
    tasks = [
        EncodeTask(_stem(number, left, identity), tuple(left))
        for number, group in enumerate(_groups(files))
        if (left := [file for file in group if file.path not in done])
    ]
    return Plan(tuple(tasks), len(files), sum(file.path in done for file in files), tuple(problems))


def _check_encoder(folder: ShardFolder, shard: Committed, identity: EncoderIdentity) -> None:
    if shard.identity != identity:
        raise ModelMismatchError(
            f"{folder.where}/{shard.stem}.parquet: its vectors are of the encoder {shard.identity.name!r} "
            f"(fingerprint {shard.identity.fingerprint}), not of {identity.name!r} (fingerprint "
            f"{identity.fingerprint}). Encode into a new folder."
        )


def _groups(files: Iterable[InputFile]) -> Iterator[list[InputFile]]:
    group: list[InputFile] = []
    size = 0
    for file in files:
        if group and (size + file.size > TASK_BYTES or len(group) >= TASK_FILES):
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield group


def _stem(number: int, files: Sequence[InputFile], identity: EncoderIdentity) -> str:
    parts = [identity.fingerprint, *(f"{file.path}\0{file.doc_id}\0{file.stamp}" for file in files)]
    return f"part-{number:06d}-{hashlib.sha256(chr(1).join(parts).encode()).hexdigest()[:12]}"


def _find(paths: Sequence[str]) -> tuple[list[tuple[str, tuple[int, str]]], list[FileProblem]]:
    """Each file with its size and its stamp."""
    found: dict[str, tuple[int, str]] = {}
    local = discover([path for path in paths if "://" not in path])
    problems = list(local.problems)
    for path in local.files:
        try:
            status = os.stat(path)
        except OSError as error:
            problems.append(FileProblem(path, f"cannot be read: {error.strerror}"))
            continue
        found[path] = status.st_size, f"{status.st_size}:{status.st_mtime_ns}"
    for address in paths:
        if "://" in address:
            found |= _remote(address, problems)
    return list(found.items()), problems


def _remote(address: str, problems: list[FileProblem]) -> dict[str, tuple[int, str]]:
    fs, root = open_place(address)
    try:
        listed = fs.find(root, detail=True)
    except Exception as error:
        raise unreachable(address, error) from error
    if not listed:
        problems.append(FileProblem(address, "does not exist, or holds no files"))
    found = {}
    for path, info in sorted(listed.items()):
        if is_supported(path):
            size = int(info.get("size") or 0)
            changed = next(
                (info[key] for key in ("ETag", "etag", "mtime", "LastModified", "created") if key in info), ""
            )
            found[str(fs.unstrip_protocol(path))] = size, f"{size}:{changed}"
    return found
