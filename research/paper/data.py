"""The paper's training pairs: ColPali's train set and RLHN in their hub layouts, and captions."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from research.paper.mixing import MixedConfig, TextPair
from vsplade.errors import InputError, MissingExtraError
from vsplade.jsonl import read_objects
from vsplade.train.pairs import FolderPairs, ImagePair

_GROUPS_KEPT = 4
_SIDES = ("positive_passages", "negative_passages")


def picture_id(image: bytes) -> str:
    """Captions are kept by what a picture shows, not by where it lay."""
    return hashlib.blake2b(image, digest_size=12).hexdigest()


class ParquetTable:
    """Rows of all parquet files of a folder that have a value in ``needed`` and a query of some length. A few
    row groups are in memory.
    """

    def __init__(self, folder: Path, columns: Sequence[str], needed: str, shortest_query: int = 0) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ModuleNotFoundError as error:
            raise MissingExtraError("Reading parquet files", "hf") from error
        files = sorted(folder.rglob("*.parquet"))
        if not files:
            raise InputError(
                f"There are no parquet files in {folder}. Give the folder of the downloaded data set."
            )
        self._columns = list(columns)
        self._places: list[tuple[Path, int]] = []
        self._kept: list[list[int]] = []
        self._cache: OrderedDict[int, list[dict[str, Any]]] = OrderedDict()
        for path in files:
            try:
                file = parquet.ParquetFile(path)
            except (ArrowException, OSError) as error:
                raise InputError(f"{path} cannot be read as parquet ({error}). Download it again.") from error
            missing = [name for name in columns if name not in file.schema_arrow.names]
            if missing:
                raise InputError(
                    f"{path} has no column {', '.join(missing)}; it has {', '.join(file.schema_arrow.names)}."
                )
            for group in range(file.num_row_groups):
                part = file.read_row_group(group, columns=list({needed, "query"}))
                values = zip(part.column(needed).to_pylist(), part.column("query").to_pylist(), strict=True)
                self._places.append((path, group))
                self._kept.append(
                    [
                        row
                        for row, (value, query) in enumerate(values)
                        if value and len(str(query or "").strip()) >= shortest_query
                    ]
                )
        self._count()
        if not self._starts[-1]:
            raise InputError(f"No row of {folder} has a value in the column {needed!r}.")

    def _count(self) -> None:
        self.groups = [len(rows) for rows in self._kept]
        self._starts = np.concatenate([[0], np.cumsum(self.groups)])

    def sample(self, count: int, seed: int) -> None:
        """Keep so many rows, drawn once; all where there are no more."""
        total = int(self._starts[-1])
        if not 0 < count < total:
            return
        drawn = np.sort(np.random.default_rng([seed, 11]).choice(total, count, replace=False))
        bounds = np.searchsorted(drawn, self._starts)
        self._kept = [
            [self._kept[group][int(row - self._starts[group])] for row in drawn[start:end]]
            for group, (start, end) in enumerate(itertools.pairwise(bounds))
        ]
        self._count()

    def __getitem__(self, number: int) -> dict[str, Any]:
        group = int(np.searchsorted(self._starts, number, side="right")) - 1
        return self._group(group)[self._kept[group][number - int(self._starts[group])]]

    @property
    def stamp(self) -> list[list[object]]:
        """Changes when a file does: names, sizes, times, and rows in use."""
        facts = [(path.name, path.stat()) for path in dict.fromkeys(path for path, _ in self._places)]
        return [*([name, stat.st_size, stat.st_mtime_ns] for name, stat in facts), [*self.groups]]

    def map_column(self, column: str, work: Callable[[Any], str], threads: int = 8) -> list[str]:
        """``work`` on the values of one column, row by row in order; other columns are not read."""
        from pyarrow import parquet

        def one(group: int) -> list[str]:
            path, number = self._places[group]
            values = parquet.ParquetFile(path).read_row_group(number, columns=[column]).column(column)
            return [work(values[row].as_py()) for row in self._kept[group]]

        with ThreadPoolExecutor(threads) as pool:
            return [made for part in pool.map(one, range(len(self._places))) for made in part]

    def _group(self, group: int) -> list[dict[str, Any]]:
        if group in self._cache:
            self._cache.move_to_end(group)
            return self._cache[group]
        from pyarrow import parquet

        path, number = self._places[group]
        rows: list[dict[str, Any]] = (
            parquet.ParquetFile(path).read_row_group(number, columns=self._columns).to_pylist()
        )
        self._cache[group] = rows
        while len(self._cache) > _GROUPS_KEPT:
            self._cache.popitem(last=False)
        return rows


class ColpaliPairs:
    """``vidore/colpali_train_set``: an image and a query a row."""

    def __init__(
        self,
        folder: Path,
        captions: Mapping[str, str] | None = None,
        shortest_query: int = MixedConfig.shortest_query,
    ) -> None:
        self._table = ParquetTable(folder, ("image", "query"), "query", shortest_query)
        self._captions = captions
        self.groups: Sequence[int] = self._table.groups

    def __getitem__(self, number: int) -> ImagePair:
        row = self._table[number]
        image = _picture(row["image"])
        name = picture_id(image)
        return ImagePair(name, str(row["query"]), image, _caption(self._captions, name))

    def ids(self, beside: Path) -> list[str]:
        """The picture id of every row. All pictures must be read for it, once: the list is kept in a file
        beside the captions, and made anew when the data set's files change.
        """
        path = beside.with_name(beside.name + ".rows")
        stamp = json.loads(json.dumps(self._table.stamp))
        if path.is_file():
            try:
                kept = json.loads(path.read_text("utf-8"))
                if kept["stamp"] == stamp:
                    return [str(name) for name in kept["ids"]]
            except (ValueError, KeyError, TypeError):
                pass  # half a file: it is made again
        ids = self._table.map_column("image", lambda value: picture_id(_picture(value)))
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")  # under torchrun, several write it
        partial.write_text(json.dumps({"stamp": stamp, "ids": ids}) + "\n", "utf-8")
        os.replace(partial, path)
        return ids


class LongQueryPairs(FolderPairs):
    """A folder of pairs without those whose query is shorter than so many characters."""

    def __init__(self, folder: Path, with_captions: bool, shortest_query: int) -> None:
        super().__init__(folder, with_captions)
        self._rows = [row for row in self._rows if len(row["query"].strip()) >= shortest_query]
        if not self._rows:
            raise InputError(
                f"All queries of {folder / 'pairs.jsonl'} are shorter than {shortest_query} characters; "
                "set shortest_query to keep them."
            )
        self.groups = [len(self._rows)]


class RlhnPairs:
    """``rlhn/rlhn-680K`` and its sisters: a query, right passages and hard negatives a row.

    Rows are a sample of the source, and passages are drawn, as the configuration says.
    """

    def __init__(self, folder: Path, config: MixedConfig) -> None:
        columns = ("query", "positive_passages", "negative_passages")
        needed = "negative_passages" if config.hard_negatives else "positive_passages"
        self._table = ParquetTable(folder, columns, needed, config.shortest_query)
        self._table.sample(config.text_sample, config.seed)
        self._config = config
        self.groups: Sequence[int] = self._table.groups

    def take(self, number: int, epoch: int) -> TextPair:
        row = self._table[number]
        right, wrong = ([_passage(p, self._config.text_titles) for p in row[name] or []] for name in _SIDES)
        if not right:
            raise InputError(f"Row {number} of the text pairs has no right passage.")
        if self._config.random_passages:
            random = np.random.default_rng([self._config.seed, 13, epoch, number])
            right, wrong = ([side[n] for n in random.permutation(len(side))] for side in (right, wrong))
        # Fewer than wished for: they come again, so that every query has as many.
        chosen = [wrong[n % len(wrong)] for n in range(self._config.hard_negatives)]
        return TextPair(str(row["query"]), (right[0], *chosen))


def read_captions(path: Path, name: str = "id", text: str = "caption") -> dict[str, str]:
    """``{"id": ..., "caption": ...}`` a line, as ``captions`` writes them."""
    found = {}
    for number, row in read_objects(path):
        if not isinstance(row.get(name), str) or not isinstance(row.get(text), str):
            raise InputError(f"{path}, line {number}: a caption needs a text {name!r} and a text {text!r}.")
        found[row[name]] = row[text]
    return found


def check_captions(ids: Sequence[str], captions: Mapping[str, str]) -> None:
    """All pictures have a caption: better known before a run than in the middle of it."""
    missing = [name for name in ids if name not in captions]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(ids)} pictures have no caption (first {missing[0]}). "
            "The captions belong to other pictures, or captioning has not finished: run it again."
        )


def _picture(value: Any) -> bytes:
    """Of the column ``image``: the bytes themselves, or the hub's structure around them."""
    image = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(image, bytes):
        raise InputError("A row of the image pairs holds no picture in its column 'image'.")
    return image


def _caption(captions: Mapping[str, str] | None, name: str) -> str | None:
    if captions is None:
        return None
    if name not in captions:
        raise InputError(
            f"There is no caption for the picture {name}: the captions belong to other pictures."
        )
    return captions[name]


def _passage(passage: Mapping[str, Any], with_title: bool) -> str:
    title, text = str(passage.get("title") or "").strip(), str(passage.get("text") or "").strip()
    return f"{title} {text}".strip() if with_title else text
