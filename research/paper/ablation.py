"""The paper's ablation on a backbone that trains in seconds: the shipped reader's cells, small layers on top.

    python -m research.paper.ablation charts/ --dev mpdocvqa --dev slidevqa --out results/

Every row is a setting of ``MixedConfig`` and a source of captions; losses, schedules and mixing are those of
the full-size training. Pages are read once by the reader; then each row is trained and measured, several at a
time, and ``ablation.json`` grows with every row that is done.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from research.command import main
from research.paper.ablation_data import Material, Ragged, gather, load_material
from research.paper.cells import PageCells
from research.paper.mixing import MixedConfig, MixedPlan, text_losses
from research.paper.options import AblationOptions
from research.paper.small import SmallSplade
from vsplade.cli.common import note
from vsplade.encode.gpu.network import Head, NetworkConfig
from vsplade.errors import InputError
from vsplade.evaluate.measures import measure
from vsplade.train.losses import Parts, Side, flops_share, page_losses, rate_share

POINTS = 5
"""Times that a run is measured on the way, the end included."""


@dataclass(frozen=True)
class Row:
    name: str
    query: str
    captions: str
    pages: str = "charts"
    source: str = "human"


ROWS = (
    Row("bag of words", "one", "none"),
    Row("Li-LSR", "softplus", "none"),
    Row("Li-LSR, caption-gated", "softplus", "gated"),
    Row("Li-LSR, caption rank only", "softplus", "rank"),
    Row("Li-LSR, cosine alignment", "softplus", "cosine"),
    Row("ReLU table, caption-gated", "log1p_relu", "gated"),
    Row("gated by OCR text", "softplus", "gated", source="ocr"),
    Row("gated by the reader's own reading", "softplus", "gated", source="reading"),
    Row("report pages, no caption", "softplus", "none", pages="reports"),
    Row("report pages, gated by the text layer", "softplus", "gated", pages="reports"),
)


def configuration(row: Row, options: AblationOptions, seed: int) -> MixedConfig:
    """The paper's ``efficient`` point, as in its ablation, shortened."""
    return MixedConfig(
        query=row.query, captions=row.captions, page_flops=0.05, caption_rank_weight=0.5, steps=options.steps,
        batch=options.batch, accumulate=1, texts_per_image=1, hard_negatives=0,
        flops_warm_up_steps=options.steps // 8, longest_query=64, longest_text=256, longest_caption=256,
        rate=options.rate, precision="float32", seed=seed,
    )  # fmt: skip


def ablate(options: AblationOptions, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Read the pages, train every row with every seed, keep what was measured."""
    device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    options.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    cache = gather(options, device, say)
    say(f"pages read in {time.monotonic() - began:.0f} s")
    material = load_material(cache)
    rows = [
        row for row in ROWS if _possible(row, material) and (not options.rows or row.name in options.rows)
    ]
    if not rows:
        raise InputError(f"None of the rows {', '.join(options.rows)} can be trained with this material.")
    results: list[dict[str, Any]] = []
    if not options.rows or "before training" in options.rows:
        results.append(measure_untrained(material, options, device))
        _keep(options.out / "ablation.json", options, results)
    del material
    jobs = [(row, seed) for seed in range(options.seeds) for row in rows]
    for result in _run_all(jobs, options, str(cache), str(device)):
        results.append(result)
        facts = result.get("failed") or json.dumps(result["final"])
        say(f"{result['row']}, seed {result['seed']}: {facts} ({result['seconds']:.0f} s)")
        _keep(options.out / "ablation.json", options, results)
    failed = sum("failed" in result for result in results)
    return {"rows": len(rows), "runs": len(jobs), "failed": failed, "out": str(options.out / "ablation.json")}


def _run_all(
    jobs: list[tuple[Row, int]], options: AblationOptions, cache: str, device: str
) -> Iterator[dict[str, Any]]:
    """Results as they come."""
    if options.processes == 0:
        for row, seed in jobs:
            yield train_row(row, seed, options, cache, device)
        return
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        running = {
            pool.submit(train_row, row, seed, options, cache, device): (row, seed) for row, seed in jobs
        }
        for done in as_completed(running):
            row, seed = running[done]
            try:
                yield done.result()
            except Exception as error:  # the other runs are worth having all the same
                failed = f"{type(error).__name__}: {error}"
                yield {"row": row.name, "seed": seed, "seconds": 0.0, "failed": failed, "final": {}}


def _possible(row: Row, material: Material) -> bool:
    return row.pages in material.pairs and (
        row.captions == "none" or row.source in material.pairs[row.pages].captions
    )


def _keep(path: Path, options: AblationOptions, results: list[dict[str, Any]]) -> None:
    settings = {"steps": options.steps, "batch": options.batch, "rate": options.rate}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"settings": settings, "results": results}) + "\n", "utf-8")
    os.replace(partial, path)


@lru_cache(maxsize=1)
def _material(cache: str, device: str) -> Material:
    """Loaded once in each process."""
    return load_material(Path(cache)).to(torch.device(device))


def build_model(material: Material, config: MixedConfig, device: torch.device) -> SmallSplade:
    head = Head(NetworkConfig(**material.network))
    head.load_state_dict(material.head)
    return SmallSplade(head, material.text_inputs, config).to(device)


def measure_untrained(material: Material, options: AblationOptions, device: torch.device) -> dict[str, Any]:
    model = build_model(material, configuration(ROWS[0], options, 0), device)
    facts = evaluate(model, material.to(device))
    return {"row": "before training", "seed": 0, "seconds": 0.0, "final": facts, "curve": [], "measured": []}


def train_row(row: Row, seed: int, options: AblationOptions, cache: str, device: str) -> dict[str, Any]:
    torch.set_num_threads(1)  # batches are put together on the CPU; the processes share it
    torch.set_float32_matmul_precision("high")
    material = _material(cache, device)
    began = time.monotonic()
    run = RowRun(row, configuration(row, options, seed), material, torch.device(device))
    curve, measured = [], []
    every = max(1, run.plan.steps // POINTS)
    for step in range(run.plan.steps):
        facts = run.advance(step)
        if facts is None:
            break
        if step % 10 == 0 or step == run.plan.steps - 1:
            curve.append({"step": step, **{name: round(float(value), 5) for name, value in facts.items()}})
        if (step + 1) % every == 0:
            measured.append({"step": step + 1, **evaluate(run.model, material)})
    final = measured[-1] if measured else evaluate(run.model, material)
    return {
        "row": row.name, "seed": seed, "seconds": time.monotonic() - began, "stopped": facts is None,
        "curve": curve, "measured": measured, "final": final,
        "table": table_facts(run.model.query().detach()),
    }  # fmt: skip


def table_facts(weights: Tensor) -> dict[str, float]:
    """Of the query weights; a table that has collapsed is zero nearly everywhere."""
    facts = {"least": weights.min(), "mean": weights.mean(), "largest": weights.max()}
    facts["zero"] = (weights == 0).float().mean()
    return {name: round(float(value), 4) for name, value in facts.items()}


class RowRun:
    """One row of the table with one seed: the model, its optimizer, and which pairs come when."""

    def __init__(self, row: Row, config: MixedConfig, material: Material, device: torch.device) -> None:
        self.row, self.config, self.material, self.device = row, config, material, device
        self.model = build_model(material, config, device)
        self.pairs = material.pairs[row.pages]
        texts = [len(material.texts[0])] if material.texts is not None else None
        self.plan = MixedPlan(config, [len(self.pairs.queries)], texts)
        self.learned = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.learned, lr=config.rate, weight_decay=config.weight_decay)

    def advance(self, step: int) -> dict[str, Tensor] | None:
        """One step; None where the loss is not a number any more."""
        config = self.config
        for group in self.optimizer.param_groups:
            group["lr"] = config.rate * rate_share(step, self.plan.steps, config.warm_up, config.decay)
        self.optimizer.zero_grad(set_to_none=True)
        rows = self.plan.rows(step)
        ramp = flops_share(step, config.flops_warm_up_steps, config.flops_warm_up)
        pages = self.plan.kind(step) == "image"
        losses, active = self._page_batch(rows, ramp) if pages else self._text_batch(rows, ramp)
        losses.total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.learned, config.clip)
        if not bool(torch.isfinite(norm)) or not bool(torch.isfinite(losses.total)):
            return None
        self.optimizer.step()
        parts = {name: value.detach() for name, value in losses.parts.items()}
        return {"pages": torch.tensor(float(pages)), "loss": losses.total.detach(), **parts, "active": active}

    def _tokens(self, texts: Ragged, rows: NDArray[np.int64], longest: int) -> tuple[Tensor, Tensor]:
        return texts.batch(rows, longest, self.device)

    def _page_batch(self, rows: NDArray[np.int64], ramp: float) -> tuple[Parts, Tensor]:
        config, model, pairs = self.config, self.model, self.pairs
        page = model(*pairs.cells.batch(pairs.page[rows]))
        queries = model.encode_queries(*self._tokens(pairs.queries, rows, config.longest_query))
        captions = None
        if config.captions != "none":
            ids, mask = self._tokens(pairs.captions[self.row.source], rows, config.longest_caption)
            masked = model.read_texts(ids, mask).weights * model.bag_of_words(ids, mask)
            captions = Side(masked, masked)
        active = (page.weights > 0).sum(1).float().mean()
        side = Side(page.weights, page.weights)
        return page_losses(config, queries, side, page.logits, captions, 0, ramp), active

    def _text_batch(self, rows: NDArray[np.int64], ramp: float) -> tuple[Parts, Tensor]:
        config, model = self.config, self.model
        if self.material.texts is None:
            raise InputError("There are no text pairs.")
        asked, passages = self.material.texts
        queries = model.encode_queries(*self._tokens(asked, rows, config.longest_query))
        passage = model.read_texts(*self._tokens(passages, rows, config.longest_text))
        active = (passage.weights > 0).sum(1).float().mean()
        return text_losses(config, queries, Side(passage.weights, passage.weights), 0, ramp), active


@torch.no_grad()
def evaluate(model: SmallSplade, material: Material, batch: int = 32) -> dict[str, Any]:
    """NDCG@5, FLOPS, active terms and the stop words' share of matched terms, on every dev set."""
    found = {}
    for name, dev in material.dev.items():
        pages = page_vectors(model, dev.cells, batch)
        queries = model.encode_queries(*dev.queries.batch(np.arange(len(dev.queries)), 64, pages.device))
        best = (queries @ pages.T).topk(min(5, len(pages)), 1)
        scores, ranked = best.values.tolist(), best.indices.tolist()
        run = {
            str(query): {str(page): score for page, score in zip(*row, strict=True) if score > 0}
            for query, row in enumerate(zip(ranked, scores, strict=True))
        }
        judged = {
            str(query): {str(page): grade for page, grade in pages.items()}
            for query, pages in enumerate(dev.relevant)
        }
        asked, active = (queries > 0).float(), (pages > 0).float()
        found[name] = {
            "ndcg@5": round(measure(judged, run, ["ndcg@5"])["ndcg@5"], 4),
            "flops": round(float(asked.mean(0) @ active.mean(0)), 3),
            "active": round(float(active.sum(1).mean()), 1),
            "stop_share": round(_stop_share(asked, active, dev.relevant, material.stop), 4),
        }
    return found


def page_vectors(model: SmallSplade, cells: PageCells, batch: int) -> Tensor:
    parts = [
        model(*cells.batch(range(at, min(at + batch, len(cells))))).weights
        for at in range(0, len(cells), batch)
    ]
    return torch.cat(parts)


def _stop_share(asked: Tensor, active: Tensor, relevant: list[dict[int, int]], stop: Tensor) -> float:
    """Of the terms that queries share with their relevant pages: how many are stop words."""
    query = [n for n, pages in enumerate(relevant) for _ in pages]
    page = [number for pages in relevant for number in pages]
    matched = stopped = 0.0
    for at in range(0, len(query), 512):
        shared = asked[query[at : at + 512]] * active[page[at : at + 512]]
        matched += float(shared.sum())
        stopped += float(shared[:, stop].sum())
    return stopped / matched if matched else 0.0


if __name__ == "__main__":
    main(ablate, AblationOptions, say=note)
