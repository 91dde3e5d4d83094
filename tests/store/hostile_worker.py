"""Opens, searches and changes indexes that were altered on purpose, with checksums that are right.

Whatever was altered, the answer is a VspladeError or a result; anything else ends this process with an error,
or with a signal. It prints the seed of each attempt first, so that the test can name the one that failed.
"""

from __future__ import annotations

import faulthandler
import json
import os
import shutil
import struct
import sys
import warnings
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from vsplade.errors import VspladeError, VspladeWarning
from vsplade.ingest.records import read_records
from vsplade.ingest.recover import recover
from vsplade.search.index import Index
from vsplade.store import snapshot
from vsplade.store.writer import IndexWriter
from vsplade.types import Direction, QueryVector, SparseVector

from .crash_worker import CLUSTERS, DIMENSIONS

ODD: list[Any] = [
    None, True, False, -1, 0, 1, 7, 255, 65_535, 65_536, 65_537, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**63),
    10**300, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "x", "MANIFEST", "../../etc/passwd",
    "segment-00000001.vsp", "deleted-00000001.bits", "state-00000001.json", "a\x00b", "\ud800", [], {}, [[]],
    ["path", "path"], [1, 2], {"a": 1}, "<u1", "<u8", "<f4", "|O", "text", "naver/v-splade-quality",
]  # fmt: skip
PREFIX = struct.Struct("<8sIIII")


def to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()


class Altered:
    """An index in memory: altered in parts, then written with the right checksums."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        body = (folder / "MANIFEST").read_bytes().split(b"\n", 1)[1]
        self.manifest: Any = json.loads(body)
        self.sides = {
            path.name: path.read_bytes()
            for path in folder.iterdir()
            if path.name.startswith(("deleted", "state", "weights"))
        }
        self.headers: dict[str, Any] = {}
        self.arrays: dict[str, dict[str, Any]] = {}
        self.table: list[tuple[str, str, str, Any]] = []
        for entry in self.manifest["segments"]:
            data = (folder / entry["file"]).read_bytes()
            length = PREFIX.unpack_from(data)[2]
            header = json.loads(data[24 : 24 + length])
            self.arrays[entry["file"]] = {
                name: np.frombuffer(data, one["dtype"], one["count"], 24 + length + one["offset"]).copy()
                for name, one in header.pop("arrays").items()
            }
            self.headers[entry["file"]] = header
        self.sizes = {file: header["data_bytes"] for file, header in self.headers.items()}

    def pick(self, options: Any) -> Any:
        options = list(options)
        return options[int(self.rng.integers(len(options)))]

    def odd(self) -> Any:
        return self.pick(ODD)

    def alter(self) -> str:
        name = self.pick([name for name in dir(self) if name.startswith("alter_")])
        try:
            return f"{name}: {getattr(self, name)()}"
        except (KeyError, TypeError, IndexError, AttributeError):
            return f"{name}: not possible after the alteration before"

    def _alter_object(self, given: dict[str, Any]) -> str:
        key = self.pick(given)
        what = self.pick(["set", "set", "set", "drop", "add"])
        if what == "drop":
            del given[key]
        else:
            given[key if what == "set" else "more"] = self.odd()
        return f"{what} {key}"

    def alter_manifest(self) -> str:
        return self._alter_object(self.manifest)

    def alter_segment_entry(self) -> str:
        return self._alter_object(self.pick(self.manifest["segments"]))

    def alter_state_entry(self) -> str:
        return self._alter_object(self.pick(self.manifest["state"]))

    def alter_list(self) -> str:
        entries = self.pick([self.manifest["segments"], self.manifest["state"]])
        what = self.pick(["twice", "drop", "reverse", "odd"])
        if what == "twice":
            entries.append(dict(entries[0]))
        elif what == "drop":
            entries.pop()
        elif what == "reverse":
            entries.reverse()
        else:
            entries.append(self.odd())
        return what

    def alter_header(self) -> str:
        return self._alter_object(self.headers[self.pick(self.headers)])

    def alter_table(self) -> str:
        file = self.pick(self.arrays)
        name = self.pick(self.arrays[file])
        key = self.pick(["dtype", "count", "offset", "crc32"])
        self.table.append((file, name, key, self.odd()))
        return f"{name} {key}"

    def alter_values(self) -> str:
        arrays = self.arrays[self.pick(self.arrays)]
        name = self.pick([name for name in arrays if len(arrays[name])])
        array = arrays[name]
        for _ in range(int(self.rng.integers(1, 4))):
            place = self.pick([0, len(array) - 1, int(self.rng.integers(len(array)))])
            if array.dtype.kind == "f":
                array[place] = self.pick([0, -1, np.nan, np.inf, -np.inf, 1e30, 1e-40, 3])
            else:
                largest = np.iinfo(array.dtype).max
                array[place] = self.pick(
                    [0, 1, largest, largest // 2 + 1, int(self.rng.integers(min(largest, 2**62)))]
                )
        return name

    alter_values_more = alter_values_again = alter_values_often = alter_values

    def alter_meaning(self) -> str:
        """Windows that fit each other, but are of other models or of no direction."""
        arrays = self.arrays[self.pick(self.arrays)]
        codes, count = arrays["meaning.codes"], len(arrays["meaning.pages"])
        what = self.pick(["narrower", "wider", "clusters", "one cluster", "zero", "lengths", "pages", "rows"])
        if what == "narrower":
            arrays["meaning.codes"] = codes.reshape(count, -1)[:, : int(self.rng.integers(1, 16))].reshape(-1)
        elif what == "wider":
            arrays["meaning.codes"] = np.repeat(codes, self.pick([2, 3, 200, 300]))
        elif what == "clusters":
            more = np.full(int(self.pick([1, 50, 65_000])), count, np.uint32)
            arrays["meaning.starts"] = np.append(arrays["meaning.starts"], more)
        elif what == "one cluster":
            arrays["meaning.starts"] = np.array([0, count], np.uint32)
        elif what == "zero":
            codes[:] = 0
        elif what == "lengths":
            arrays["meaning.lengths"][:] = self.pick([1.0, 3e38, 1e-40, np.nan])
        else:
            name = {"pages": "meaning.pages", "rows": "meaning.by_page"}[what]
            arrays[name][:] = self.pick([0, int(arrays[name].max())])
        return what

    alter_meaning_more = alter_meaning_again = alter_meaning

    def alter_shape(self) -> str:
        arrays = self.arrays[self.pick(self.arrays)]
        name = self.pick(arrays)
        what = self.pick(["drop", "shorter", "longer", "reverse", "empty", "wider"])
        if what == "drop":
            del arrays[name]
        elif what == "wider":
            arrays[name] = arrays[name].astype("<u8" if arrays[name].dtype.kind == "u" else "<f4")
        else:
            array = arrays[name]
            longer = np.concatenate((array, array, array[:1]))
            arrays[name] = {
                "shorter": array[:-1],
                "longer": longer,
                "reverse": array[::-1],
                "empty": array[:0],
            }[what]
        return f"{what} {name}"

    def alter_texts(self) -> str:
        arrays = self.arrays[self.pick(self.arrays)]
        name = self.pick(
            [one for one in arrays if one.endswith(("bytes", "values")) and arrays[one].dtype == np.uint8]
        )
        if len(arrays[name]):
            arrays[name] = np.frombuffer(
                (self.pick([b"NaN", b"[", b"1e999,", b"\xff\xfe"]) * len(arrays[name]))[: len(arrays[name])],
                np.uint8,
            )
        return name

    def alter_side(self) -> str:
        name = self.pick(self.sides)
        body = bytearray(self.sides[name])
        what = self.pick(["flip", "cut", "grow", "json", "deep", "empty"])
        if what == "flip" and body:
            body[int(self.rng.integers(len(body)))] ^= 255
        elif what == "cut":
            body = body[: len(body) // 2]
        elif what == "grow":
            body += body + b"x"
        elif what == "json":
            record = {
                "doc_id": self.odd(),
                "hash": self.odd(),
                "pages": self.odd(),
                "done": self.odd(),
                "metadata": self.odd(),
            }
            ranges = {"doc_id": "a", "hash": "1", "pages": self.odd(), "done": [[1, 10**12]], "metadata": {}}
            body = bytearray(
                to_json(
                    self.pick([self.odd(), {"file:a": record}, {"file:a": ranges}, {"file:a": self.odd()}])
                )
            )
        elif what == "deep":
            body = bytearray(b"[" * 50_000)
        else:
            body = bytearray()
        self.sides[name] = bytes(body)
        return f"{what} {name}"

    def write(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        checksums: dict[str, tuple[int, int]] = {}
        for file, arrays in self.arrays.items():
            data, header_crc32 = self._segment(file, arrays)
            (folder / file).write_bytes(data)
            checksums[file] = len(data), header_crc32
        for name, body in self.sides.items():
            (folder / name).write_bytes(body)
        for entry in self._entries("segments"):
            self._correct(entry, checksums)
        for entry in self._entries("state"):
            if entry.get("file") in self.sides and type(entry.get("crc32")) is int:
                entry["crc32"] = zlib.crc32(self.sides[entry["file"]])
        body = to_json(self.manifest)
        (folder / "MANIFEST").write_bytes(b"vsplade-index 2 %08x\n" % zlib.crc32(body) + body)

    def _entries(self, key: str) -> list[dict[str, Any]]:
        entries = self.manifest.get(key)
        found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        return [entry for entry in found if isinstance(entry.get("file"), str)]

    def _correct(self, entry: dict[str, Any], checksums: dict[str, tuple[int, int]]) -> None:
        if entry["file"] in checksums:
            entry["bytes"], entry["header_crc32"] = checksums[entry["file"]]
        if isinstance(entry.get("tombstones"), str) and entry["tombstones"] in self.sides:
            entry["tombstones_crc32"] = zlib.crc32(self.sides[entry["tombstones"]])

    def _segment(self, file: str, arrays: dict[str, Any]) -> tuple[bytes, int]:
        table: dict[str, Any] = {}
        parts, position = [], 0
        for name, array in arrays.items():
            body = np.ascontiguousarray(array).tobytes()
            dtype = f"<{array.dtype.kind}{array.dtype.itemsize}"
            table[name] = {"dtype": dtype, "count": len(array), "offset": position, "crc32": zlib.crc32(body)}
            parts.append(body + bytes(-len(body) % 64))
            position += len(parts[-1])
        for one, name, key, value in self.table:
            if one == file and name in table:
                table[name][key] = value
        header = {**self.headers[file], "arrays": table}
        if self.headers[file].get("data_bytes") == self.sizes[file]:  # else it was altered
            header["data_bytes"] = position
        text = to_json(header)
        text += b" " * (-(24 + len(text)) % 64)
        prefix = PREFIX.pack(b"VSPLADE\0", 1, len(text), zlib.crc32(text), 0)
        return prefix + text + b"".join(parts), zlib.crc32(text)


def meant(seed: int) -> Direction:
    rng = np.random.default_rng(seed)
    vector = rng.normal(size=DIMENSIONS).astype(np.float32)
    return Direction(vector / np.linalg.norm(vector), rng.permutation(CLUSTERS).astype(np.uint16), 40)


QUERIES = [
    SparseVector(np.arange(50, dtype=np.uint32), np.ones(50, np.float32)),
    SparseVector.from_dict({3: 2.0, 17: 0.5, 49: 1.0}),
    SparseVector(np.arange(0, 50, 1, dtype=np.uint32), np.linspace(0.1, 9, 50).astype(np.float32)),
    SparseVector(np.arange(50, dtype=np.uint32), np.ones(50, np.float32), meant(1)),
    SparseVector(np.arange(3, dtype=np.uint32), np.ones(3, np.float32), meant(2)),
    SparseVector(np.zeros(0, np.uint32), np.zeros(0, np.float32), meant(3)),
    QueryVector(
        np.arange(30, dtype=np.uint32), np.ones(30, np.float32), meant(4), np.arange(30, dtype=np.int32) - 5
    ),
]


def read(folder: Path, engine: str) -> str:
    """As much as there is of it is looked at; whether that is all."""
    index = Index.open(folder, engine=engine)
    for query in QUERIES:
        for condition in (None, {"commit": 2}, "commit>=1"):
            for hit in index.search(query, 10, condition):
                shown = {"id": hit.id, "score": hit.score, "doc": hit.doc_id, "page": hit.page_num}
                json.dumps({**shown, "metadata": dict(hit.metadata)}, allow_nan=False)
                sum(match.product for match in hit.explain())
    for id in list(index.ids())[:5]:
        index.thumbnail(id)
    list(index.pages_with_metadata())
    index.metadata_keys(), index.statistics(), index.state(), index.check()
    index.document_frequency(np.arange(60, dtype=np.uint32))
    if index.damage is None:
        return "done"
    json.dumps(index.damage.to_json(), allow_nan=False)
    return "in part"


def change(folder: Path) -> None:
    with IndexWriter(folder) as writer:
        read_records(writer)
        writer.add("new", QUERIES[1], {"commit": 9})
        writer.delete("p3")
        writer.commit()
        writer.compact()


def attempt(name: str, action: Any, *arguments: Any, outcomes: Counter[str]) -> None:
    try:
        outcome = action(*arguments)
        outcomes[f"{name}: {outcome if isinstance(outcome, str) else 'done'}"] += 1
    except VspladeError:
        outcomes[f"{name}: refused"] += 1


def main(base: str, work: str, first: int, last: int) -> None:
    faulthandler.enable()
    os.fsync = lambda handle: None  # type: ignore[assignment]
    outcomes: Counter[str] = Counter()
    folder = Path(work) / "i"
    for seed in range(first, last):
        altered = Altered(Path(base), seed)
        what = [altered.alter() for _ in range(1 + seed % 2)]
        print(seed, what, file=sys.stderr, flush=True)
        altered.write(folder)
        # A segment of up to 16 MiB is read whole when it is opened; a larger one is not.
        snapshot.VERIFY_UP_TO = 1 << 24 if seed % 3 == 0 else 0
        warnings.simplefilter("ignore", VspladeWarning)
        attempt("numpy", read, folder, "numpy", outcomes=outcomes)
        attempt("numba", read, folder, "numba", outcomes=outcomes)
        if seed % 4 == 0:
            attempt("change", change, folder, outcomes=outcomes)
            altered.write(folder)
            attempt("recover", recover, folder, outcomes=outcomes)
            attempt("after", lambda: Index.open(folder).check(), outcomes=outcomes)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
