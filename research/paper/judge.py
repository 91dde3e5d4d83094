"""How good the paper's model is while it trains: ranking, cost and stop words on a data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from research.experiments.behaviour import stop_share
from research.experiments.lexicon import stop_terms
from research.paper.judging import Judge
from vsplade.encode.modernvbert.model import SpladeModel
from vsplade.encode.modernvbert.processor import PageProcessor
from vsplade.encode.modernvbert.query import QuerySide
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.evaluator import evaluate_dataset
from vsplade.train.batches import padded
from vsplade.types import Page, SparseVector, TermStatistics

BATCH = 4


class ModelInTraining:
    """The model as it is now, as an encoder. Its adapters are not merged."""

    name, fingerprint = "in-training", "in-training"
    reads_grey = on_gpu = latin_only = False

    def __init__(self, model: SpladeModel, processor: PageProcessor, device: torch.device, folder: Path):
        self._model, self._processor, self._device = model, processor, device
        table = model.query_table().detach().float().cpu().numpy()
        self.longest_edge = processor.settings.longest_edge
        self.vocabulary = QuerySide(
            folder, self.name, self.fingerprint, self.longest_edge, np.maximum(table, 0), model.repeats
        )

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        return self.vocabulary.encode(text)

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        waiting = iter(pages)
        while some := list(islice(waiting, BATCH)):
            for row in self._weights(some):
                terms = np.flatnonzero(row > 0)
                yield SparseVector(terms.astype(np.uint32), row[terms])

    def _weights(self, pages: list[Page]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        settings = self._processor.settings
        cut = [self._processor.tiles(page.image) for page in pages]
        prompts = [list(self._processor.prompt_ids(grid)) for _, grid in cut]
        tokens = padded(prompts, self._processor).to(self._device)
        tiles = torch.from_numpy(np.concatenate([tiles for tiles, _ in cut])).to(self._device)
        pixels = tiles.float().div_(255).sub_(settings.mean).div_(settings.deviation)
        with torch.no_grad():
            pooled = self._model(tokens.ids, tokens.mask, pixels)
        weights: np.ndarray[tuple[int, int], np.dtype[np.float32]] = pooled.weights.float().cpu().numpy()
        return weights


def dataset_judge(dataset: Dataset, backbone: Path) -> Judge:
    """NDCG@5, FLOPS, active terms, and stop words' share of the terms that queries share with their pages."""

    def judge(model: SpladeModel, processor: PageProcessor, device: torch.device) -> dict[str, float]:
        encoder = ModelInTraining(model, processor, device, backbone)
        report = evaluate_dataset(dataset, encoder)
        assert report.vectors is not None
        return {
            "ndcg@5": round(report.measures["ndcg@5"], 4),
            "flops": round(report.flops, 3),
            "active": round(report.active_terms, 1),
            "stop_share": round(stop_share(dataset, encoder, report.vectors, stop_terms(encoder)), 4),
        }

    return judge
