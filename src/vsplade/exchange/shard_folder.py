"""A folder of Parquet shards, on a disk or in a bucket, and which of them count.

Beside ``part-X.parquet`` stands ``part-X.jsonl``: a first line about the shard, then one line for each input
file. It is written after the shard, so a shard without it is unfinished. Every file is written under another
name and then renamed. So whoever dies in between, a shard counts once or not at all.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from vsplade.errors import InputError, MissingExtraError, StorageError
from vsplade.exchange.parquet import Shard, damaged_shard, write_shard
from vsplade.store.durable import write_durably
from vsplade.store.identity import EncoderIdentity
from vsplade.store.segment import StoredPage

Line = dict[str, Any]
_UNFINISHED = ".unfinished"
STATE, FINISHED = "state.json", "finished.json"
"""What an index keeps beside its pages; what a run that came to its end says of itself."""
DEAD_LETTERS = "dead-letters.parquet"
_OWN = re.compile(r"part-[0-9]{6}(-[0-9a-f]{12}(-[0-9]{3})?)?\.(parquet|jsonl)")
"""Only what has exactly such a name is ever removed."""


@dataclass(frozen=True, slots=True)
class Committed:
    """One shard that counts: what its first line says, and a line for each input file."""

    stem: str
    rows: int
    bytes: int
    identity: EncoderIdentity
    files: tuple[Line, ...]


class ShardFolder:
    """``where`` is a path, or anything that fsspec knows: ``s3://bucket/folder``, ``memory://x``."""

    def __init__(self, where: str | os.PathLike[str]) -> None:
        self.where = os.fspath(where).rstrip("/")
        self._fs, self._root = open_place(self.where)
        self._local = Path(self._root) if "file" in _protocols(self._fs) else None

    # -- files -----------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Names of the files, sorted; unfinished ones left out. An empty list where there is no folder."""
        try:
            found = [str(path).rsplit("/", 1)[-1] for path in self._fs.ls(self._root, detail=False)]
        except FileNotFoundError:
            return []
        except Exception as error:
            raise unreachable(self.where, error) from error
        return sorted(name for name in found if not name.endswith((_UNFINISHED, ".new")))

    def put(self, name: str, body: bytes) -> None:
        """Write a file so that it is there as a whole or not at all."""
        try:
            self._fs.makedirs(self._root, exist_ok=True)
            if self._local is not None:
                write_durably(self._local / name, [body])
                return
            self._fs.pipe_file(f"{self._root}/{name}{_UNFINISHED}", body)
            self._fs.mv(f"{self._root}/{name}{_UNFINISHED}", f"{self._root}/{name}")
        except StorageError:
            raise
        except Exception as error:
            raise unreachable(f"{self.where}/{name}", error) from error

    def open(self, name: str) -> IO[bytes]:
        try:
            file: IO[bytes] = self._fs.open(f"{self._root}/{name}", "rb")
            return file
        except FileNotFoundError as error:
            raise InputError(
                f"{self.where}/{name}: this file is missing. Restore it, or encode its pages again."
            ) from error
        except Exception as error:
            raise unreachable(f"{self.where}/{name}", error) from error

    def read(self, name: str) -> bytes:
        with self.open(name) as file:
            return file.read()

    def remove(self, name: str) -> None:
        try:
            self._fs.rm_file(f"{self._root}/{name}")
        except FileNotFoundError:
            return
        except Exception as error:
            raise unreachable(f"{self.where}/{name}", error) from error

    # -- shards ----------------------------------------------------------------------------------------

    def commit(
        self, stem: str, pages: Sequence[StoredPage], identity: EncoderIdentity, files: Sequence[Line] = ()
    ) -> None:
        """Write a shard, then the lines that make it count."""
        body = write_shard(pages, identity)
        self.put(f"{stem}.parquet", body)
        first = {
            "shard": f"{stem}.parquet",
            "rows": len(pages),
            "bytes": len(body),
            **identity.to_json(),
        }
        lines = [json.dumps(line) for line in (first, *files)]
        self.put(f"{stem}.jsonl", "".join(f"{line}\n" for line in lines).encode())

    def withdraw(self, stem: str) -> None:
        """Make a shard not count any more, and remove it."""
        self.remove(f"{stem}.jsonl")
        self.remove(f"{stem}.parquet")

    def committed(self) -> list[Committed]:
        """All shards that count, in the order of their names."""
        lists = [name for name in self.names() if name.startswith("part-") and name.endswith(".jsonl")]
        return [self._committed(name.removesuffix(".jsonl")) for name in lists]

    def _committed(self, stem: str) -> Committed:
        try:
            first, *lines = map(json.loads, self.read(f"{stem}.jsonl").splitlines())
            files = tuple(line for line in lines if isinstance(line["path"], str))
            return Committed(
                stem, int(first["rows"]), int(first["bytes"]), EncoderIdentity.from_json(first), files
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{self.where}/{stem}.jsonl: this list of input files is damaged. Delete it and run the same "
                "`vsplade encode` again: its pages are encoded anew."
            ) from error

    def check_free(self) -> None:
        """A run begins only in a folder of its own: it removes what an interrupted one has left there."""
        names = self.names()
        finished = FINISHED in names and self._is_ours()
        own = (FINISHED, DEAD_LETTERS) if finished or self.committed() else ()
        others = [name for name in names if not (_OWN.fullmatch(name) or name in own or name.startswith("."))]
        if others and not self.committed():
            raise InputError(
                f"{self.where}: there are other things in this folder, such as {others[0]!r}. Write the "
                "shards into a folder of their own: one that is empty, or does not exist yet."
            )

    def _is_ours(self) -> bool:
        try:
            return "rows" in self.get_json(FINISHED)
        except InputError:
            return False

    def remove_unfinished(self) -> None:
        for name in self.unfinished():
            if _OWN.fullmatch(name):
                self.remove(name)

    def unfinished(self) -> list[str]:
        """Shards that no list names: of a run that died, or that is still at work."""
        names = self.names()
        listed = {name.removesuffix(".jsonl") for name in names if name.endswith(".jsonl")}
        shards = [name for name in names if name.endswith(".parquet") and name != DEAD_LETTERS]
        return [name for name in shards if name.removesuffix(".parquet") not in listed]

    def shards(self) -> Iterator[Shard]:
        """Every shard that counts, opened and of the length that its list tells. A folder without any list
        is one that another tool wrote: then all its Parquet files count."""
        committed = self.committed()
        for one in committed:
            yield self._open_shard(f"{one.stem}.parquet", one)
        if not committed:
            for name in self.unfinished():
                yield self._open_shard(name, None)

    def _open_shard(self, name: str, completed: Committed | None) -> Shard:
        shown = f"{self.where}/{name}"
        file = self.open(name)
        if completed is not None and file.seek(0, 2) != completed.bytes:
            raise damaged_shard(shown, f"it has {file.tell():,} bytes and should have {completed.bytes:,}")
        file.seek(0)
        shard = Shard(file, shown)
        if completed is not None and (len(shard), shard.identity) != (completed.rows, completed.identity):
            raise damaged_shard(shown, "it is not the file that its list describes")
        return shard

    def put_json(self, name: str, document: Mapping[str, Any]) -> None:
        self.put(name, json.dumps(document).encode())

    def get_json(self, name: str) -> dict[str, Any]:
        """Empty where there is none."""
        if name not in self.names():
            return {}
        try:
            document = json.loads(self.read(name))
        except ValueError as error:
            raise InputError(
                f"{self.where}/{name}: this file is not JSON. Restore it, or delete it."
            ) from error
        return document if isinstance(document, dict) else {}


def open_place(where: str) -> tuple[Any, str]:
    """fsspec's file system of a path or an address, and the path in it."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtraError("A folder of Parquet shards", "parquet") from error
    try:
        fs, root = fsspec.core.url_to_fs(where)
        return fs, str(root)
    except ImportError as error:
        raise InputError(f"{where}: {error}. Install the package for this kind of storage.") from error
    except Exception as error:
        raise unreachable(where, error) from error


def unreachable(where: str, error: Exception) -> StorageError:
    return StorageError(
        f"{where}: cannot be reached ({type(error).__name__}: {str(error).strip() or 'no reason given'}). "
        "Check the address, your access to it, and the network; then run the same command again."
    )


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
