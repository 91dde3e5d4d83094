"""What the ablation trains and measures on, made once and shared by its processes through one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from research.paper.cells import PageCells, read_pages
from research.paper.data import read_captions
from research.paper.options import AblationOptions
from research.paper.small import TextInputs, text_inputs
from research.reader.weights import load_weights
from vsplade.encode import READER_MODEL
from vsplade.encode.gpu.network import NetworkConfig, Reader
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.jsonl import read_objects
from vsplade.train import training_checkpoint

LONGEST_EDGE = 1408


@dataclass(frozen=True)
class Ragged:
    """Lists of terms, one after the other."""

    terms: Tensor
    starts: Tensor

    @classmethod
    def of(cls, lists: Iterable[Sequence[int]]) -> Ragged:
        rows = [np.asarray(row, np.int64) for row in lists]
        joined = np.concatenate([*rows, np.zeros(1, np.int64)])
        return cls(torch.from_numpy(joined), torch.tensor([0] + [len(row) for row in rows]).cumsum(0))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def to(self, device: torch.device) -> Ragged:
        return Ragged(self.terms.to(device), self.starts)

    def batch(self, rows: NDArray[np.int64], longest: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Ids and mask; an empty text is one term that the mask hides."""
        chosen = torch.as_tensor(rows)
        first = self.starts[chosen]
        length = (self.starts[chosen + 1] - first).clamp(max=longest)
        number = torch.arange(max(1, int(length.max())))
        mask = number[None] < length[:, None]
        index = torch.where(mask, first[:, None] + number[None], 0)
        return self.terms[index.to(self.terms.device)].to(device), mask.to(device)


@dataclass(frozen=True)
class Pairs:
    cells: PageCells
    page: NDArray[np.int64]
    """Each pair's page among the cells."""
    queries: Ragged
    captions: dict[str, Ragged]
    """By source."""


@dataclass(frozen=True)
class DevSet:
    cells: PageCells
    queries: Ragged
    relevant: list[dict[int, int]]
    """For each query: page number and how relevant it is."""


@dataclass(frozen=True)
class Material:
    pairs: dict[str, Pairs]
    texts: tuple[Ragged, Ragged] | None
    dev: dict[str, DevSet]
    network: dict[str, Any]
    head: dict[str, Tensor]
    text_inputs: TextInputs
    stop: Tensor

    def to(self, device: torch.device) -> Material:
        pairs = {
            name: Pairs(
                one.cells.to(device), one.page, one.queries.to(device),
                {source: texts.to(device) for source, texts in one.captions.items()},
            )
            for name, one in self.pairs.items()
        }  # fmt: skip
        texts = None if self.texts is None else (self.texts[0].to(device), self.texts[1].to(device))
        dev = {n: DevSet(d.cells.to(device), d.queries.to(device), d.relevant) for n, d in self.dev.items()}
        return Material(pairs, texts, dev, self.network, self.head, self.text_inputs, self.stop.to(device))


def gather(options: AblationOptions, device: torch.device, say: Callable[[str], None]) -> Path:
    """Read all pages and texts and write them to one file; a second run finds it there."""
    cache = options.out / "material.safetensors"
    if cache.is_file():
        say(f"pages as read before, in {cache}")
        return cache
    options.out.mkdir(parents=True, exist_ok=True)
    reader = load_backbone(options.reader, device)
    tensors: dict[str, Tensor] = {f"head.{n}": t.cpu() for n, t in reader.head.state_dict().items()}
    header: dict[str, Any] = {"network": reader.config.to_json(), "pairs": {}, "dev": {}}

    def read(name: str, paths: Sequence[Path]) -> PageCells:
        cells = read_pages(reader, paths, LONGEST_EDGE, options.cells, device)
        for field in fields(cells):
            tensors[f"{name}.cells.{field.name}"] = getattr(cells, field.name)
        say(f"{name}: {len(paths)} pages, {len(cells.features) / max(1, len(paths)):.0f} cells a page")
        return cells

    sources: list[tuple[str, Path]] = [("charts", options.charts)]
    if options.reports is not None:
        sources.append(("reports", options.reports))
    for name, folder in sources:
        rows = read_pairs(folder, options.pages)
        pictures = list(dict.fromkeys(row["image"] for row in rows))
        cells = read(name, [folder / picture for picture in pictures])
        number = {picture: n for n, picture in enumerate(pictures)}
        tensors[f"{name}.page"] = torch.tensor([number[row["image"]] for row in rows])
        captions = _captions(rows, options.ocr if name == "charts" else None, cells, number)
        header["pairs"][name] = list(captions)
        _put(tensors, f"{name}.queries", (row["query"] for row in rows))
        for source, texts in captions.items():
            _put(tensors, f"{name}.captions.{source}", texts)
    for folder in options.dev:
        header["dev"][folder.name] = _put_dev(tensors, folder, read)
    if options.texts:
        pairs = [row for path in options.texts for row in read_text_pairs(path)]
        _put(tensors, "texts.queries", (row["query"] for row in pairs))
        _put(tensors, "texts.passages", (row["text"] for row in pairs))
    # Texts enter with the mean logit of the terms that were read.
    inputs = text_inputs(reader.head, float(tensors["charts.cells.logit"][:-1].mean()))
    tensors |= {"text_inputs.features": inputs.features, "text_inputs.offset": inputs.offset}
    training_checkpoint.save(cache, tensors, header)
    return cache


def load_backbone(path: Path | None, device: torch.device) -> Reader:
    """Trunk and head of a reader; what only its own training needs is left out of a checkpoint."""
    if path is None or path.is_dir():
        from vsplade.encode.gpu.detect_torch import load_network

        folder = path or READER_MODEL.parent
        return load_network(folder, json.loads((folder / "reader.json").read_text("utf-8"))).to(device)
    tensors, header = load_weights(path)
    reader = Reader(NetworkConfig(**header["network"]))
    training_checkpoint.load_model(reader.trunk, tensors, "model.trunk.")
    training_checkpoint.load_model(reader.head, tensors, "model.head.")
    return reader.eval().to(device)


def load_material(cache: Path) -> Material:
    tensors, header = training_checkpoint.load(cache)

    def ragged(name: str) -> Ragged:
        return Ragged(tensors[f"{name}.terms"], tensors[f"{name}.starts"])

    def cells(name: str) -> PageCells:
        return PageCells(*(tensors[f"{name}.cells.{field.name}"] for field in fields(PageCells)))

    pairs = {
        name: Pairs(
            cells(name), tensors[f"{name}.page"].numpy(), ragged(f"{name}.queries"),
            {source: ragged(f"{name}.captions.{source}") for source in sources},
        )
        for name, sources in header["pairs"].items()
    }  # fmt: skip
    dev = {
        name: DevSet(
            cells(f"dev.{name}"), ragged(f"dev.{name}.queries"),
            [{int(page): gain for page, gain in one.items()} for one in relevant],
        )
        for name, relevant in header["dev"].items()
    }  # fmt: skip
    texts = (ragged("texts.queries"), ragged("texts.passages")) if "texts.queries.terms" in tensors else None
    head = {name.removeprefix("head."): t for name, t in tensors.items() if name.startswith("head.")}
    inputs = TextInputs(tensors["text_inputs.features"], tensors["text_inputs.offset"])
    return Material(pairs, texts, dev, header["network"], head, inputs, torch.tensor(_stop_terms()))


def read_pairs(folder: Path, most: int = 0) -> list[dict[str, Any]]:
    """``pairs.jsonl``, or .gz: ``image`` (or ``_id``, for images/ID.webp), ``query``, ``caption`` a line."""
    path = next((folder / n for n in ("pairs.jsonl", "pairs.jsonl.gz") if (folder / n).is_file()), None)
    if path is None:
        raise InputError(f"There is no pairs.jsonl or pairs.jsonl.gz in {folder}.")
    rows = []
    for number, row in read_objects(path):
        row.setdefault("image", f"images/{row.get('_id')}.webp")
        bad = [key for key in ("image", "query", "caption") if not isinstance(row.get(key), str)]
        if bad:
            raise InputError(f"{path}, line {number}: {', '.join(bad)} must be a text.")
        if (folder / row["image"]).is_file():
            rows.append(row)
    if not rows:
        raise InputError(f"None of the pictures that {path} names is there.")
    return rows[:most] if most else rows


def read_text_pairs(path: Path) -> list[dict[str, Any]]:
    rows = [row for _, row in read_objects(path)]
    if any(not isinstance(row.get(key), str) for row in rows for key in ("query", "text")):
        raise InputError(f"{path}: every line needs a text 'query' and a text 'text'.")
    return rows


def _captions(
    rows: Sequence[Mapping[str, Any]], ocr: Path | None, cells: PageCells, number: Mapping[str, int]
) -> dict[str, list[Any]]:
    """By source, texts or terms; a source that has not a text for every picture is an error."""
    found: dict[str, list[Any]] = {
        "human": [row["caption"] for row in rows],
        "reading": [cells.reading(number[row["image"]]) for row in rows],
    }
    if ocr is not None:
        known = read_captions(ocr)
        missing = [row["image"] for row in rows if row["image"] not in known]
        if missing:
            raise InputError(
                f"{ocr} has no text for {len(missing)} of {len(rows)} pictures, first {missing[0]}."
            )
        found["ocr"] = [known[row["image"]] for row in rows]
    return found


def _put(tensors: dict[str, Tensor], name: str, texts: Iterable[Any]) -> None:
    encode = Tokenizer.load().encode
    made = Ragged.of(encode(text) if isinstance(text, str) else text for text in texts)
    tensors[f"{name}.terms"], tensors[f"{name}.starts"] = made.terms, made.starts


def _put_dev(
    tensors: dict[str, Tensor], folder: Path, read: Callable[[str, Sequence[Path]], PageCells]
) -> list[dict[str, int]]:
    from vsplade.evaluate.dataset import load_dataset

    dataset = load_dataset(folder)
    paths = sorted(dataset.files)
    read(f"dev.{folder.name}", paths)
    number = {path.stem: n for n, path in enumerate(paths)}
    judged = dataset.judged
    _put(tensors, f"dev.{folder.name}.queries", (dataset.queries[query] for query in judged))
    return [
        {str(number[page]): gain for page, gain in dataset.qrels[query].items() if gain > 0}
        for query in judged
    ]


def _stop_terms() -> list[int]:
    from research.experiments.stopwords import LUCENE

    found = (Tokenizer.load().term(word) for word in sorted(LUCENE))
    return [term for term in found if term is not None]
