"""The training loop: steps, checkpoints, resuming. A checkpoint holds what is learned and the optimizer's
state.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vsplade.encode.modernvbert import checkpoint as folders
from vsplade.encode.modernvbert.model import Pooled
from vsplade.encode.modernvbert.processor import PageProcessor
from vsplade.encode.modernvbert.query import fingerprint
from vsplade.errors import InputError, VspladeError
from vsplade.jsonl import read_log
from vsplade.train import lora
from vsplade.train import training_checkpoint as files
from vsplade.train.batches import BatchPlan, Loader, TrainingBatch
from vsplade.train.distributed import World, joined
from vsplade.train.losses import Parts, Side, flops_share, page_losses, rate_share
from vsplade.train.pairs import ImagePairs
from vsplade.train.passes import Passes, frozen_eyes
from vsplade.train.training_config import PaperConfig, differences

LAST = "last.safetensors"


class TrainingError(VspladeError):
    """A run that cannot go on; its checkpoint is kept."""


@dataclass(frozen=True)
class Run:
    """Where a run takes its material from and where it puts its results; not part of the configuration."""

    backbone: Path
    out: Path
    device: str = ""
    every: int = 500
    """Steps between checkpoints."""
    stop_after: int = 0
    """Steps after which to stop, to be resumed later; 0: at the end."""
    threads: int = 4


class Trainer:
    """One process's part of a run."""

    def __init__(self, config: PaperConfig, run: Run, images: ImagePairs, world: World | None = None) -> None:
        self.config, self.run, self.world = config, run, world or World()
        self.device = _device(run.device, self.world)
        torch.manual_seed(config.seed)
        self.source = folders.load(run.backbone, activation=config.query, query_start=config.query_start)
        if self.source.model.query_activation != config.query:
            raise InputError(
                f"The model in {run.backbone} has a query table with "
                f"{self.source.model.query_activation}, the "
                f"configuration asks for {config.query}."
            )
        self.model = self.source.model.to(self.device).train()
        self.model.repeats = config.repeats
        if config.lora_rank:
            lora.adapt(self.model, config.lora_rank, config.lora_alpha, config.lora_vision, config.seed)
            self.model.to(self.device)
        else:
            self.model.requires_grad_(True)
            lora.unfreeze_query(self.model)
        if config.gradient_checkpointing:
            self.model.body.gradient_checkpointing_enable(
                gradient_checkpointing_kwargs={"use_reentrant": False}
            )
        self.learned = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.processor = PageProcessor(run.backbone)
        self.settings = self.processor.settings
        self.passes = self.fast_passes()
        self.optimizer = torch.optim.AdamW(
            self.learned.values(), lr=config.rate, weight_decay=config.weight_decay, foreach=False,
            fused=self.pinned,
        )  # fmt: skip
        self.plan = BatchPlan(config, images.groups, self.world.size)
        self.loader = Loader(
            config, self.plan, self.processor, images, self.world.rank, run.threads, self.pinned
        )
        self.material: dict[str, str | int] = {
            "backbone": fingerprint(run.backbone),
            "image_pairs": sum(images.groups),
        }
        self.step = 0
        self.gave_up = False
        """The run ends early."""

    @property
    def kind(self) -> torch.dtype:
        """Of products."""
        return torch.bfloat16 if self.config.precision == "bfloat16" else torch.float32

    def fast_passes(self) -> Passes:
        """In place of transformers' own."""
        return Passes(self.model, frozen_eyes(self.model, self.kind, self.settings))

    @property
    def pinned(self) -> bool:
        """Whether tiles are put together where the device can fetch them by itself."""
        return self.device.type == "cuda"

    # -- running ------------------------------------------------------------------------------------

    def train(self, say: Callable[[str], None] = lambda _: None) -> None:
        """To the end of the plan, or to ``stop_after``; writes checkpoints and a line a step to log.jsonl."""
        last = min(self.plan.steps, self.run.stop_after or self.plan.steps)
        self.run.out.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        several = self.config.accumulate
        batches = self.loader.run(self.step * several, last * several)
        try:
            while self.step < last and not self.gave_up:
                facts = self.advance(list(islice(batches, several)))
                if self.world.leads:
                    self._log({**facts, "seconds": round(time.monotonic() - started, 3)})
                if self.step % self.run.every == 0 and self.step < last:
                    self.save()
                    say(f"step {self.step} of {self.plan.steps}, loss {facts['loss']:.4f}")
                self.after_step(say)
        except InputError:  # a picture that cannot be read, say: the steps before it are not lost
            self._write()
            raise
        self.save()

    def after_step(self, say: Callable[[str], None]) -> None:
        """For those who look at a model while it learns."""

    def advance(self, batches: Sequence[TrainingBatch]) -> dict[str, float]:
        """One step. A loss that is not a number changes nothing: the state is saved and the run ends."""
        share = rate_share(self.step, self.plan.steps, self.config.warm_up, self.config.decay)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.rate * share
        self.optimizer.zero_grad(set_to_none=True)
        logged: dict[str, list[float]] = {}
        for batch in batches:
            losses, active = self.losses(batch.to(self.device))
            self._check_finite(losses)
            (losses.total / len(batches)).backward()
            parts = {f"{batch.prefix}{name}": float(value.detach()) for name, value in losses.parts.items()}
            facts = {"kind": float(not batch.prefix), "loss": float(losses.total.detach()), **parts}
            for name, value in {**facts, f"{batch.prefix}active": active}.items():
                logged.setdefault(name, []).append(value)
        self.world.average_gradients(self.learned.values())
        norm = torch.nn.utils.clip_grad_norm_(self.learned.values(), self.config.clip or math.inf)
        if self.world.any(not math.isfinite(float(norm)), self.device):
            self._stop("The gradient is not a number")
        self.optimizer.step()
        self.step += 1
        means = {name: sum(values) / len(values) for name, values in logged.items()}
        return {"step": self.step, **means, "rate": self.config.rate * share, "gradient": float(norm)}

    def losses(self, batch: TrainingBatch) -> tuple[Parts, float]:
        """The losses of a batch on the device, and the mean number of active terms of its pages."""
        queries, page, active = self._forward(batch)
        pages = Side(page.weights, self.world.gather(page.weights))
        first = self.world.rank * len(page.weights)
        captions = None
        if batch.captions is not None:
            ids, mask = batch.captions.ids, batch.captions.mask
            with self._autocast(), self.passes.in_place():
                caption = self.model(ids, mask)
            masked = caption.weights * self.model.bag_of_words(ids, mask)
            captions = Side(masked, self.world.gather(masked))
        found = page_losses(self.config, queries, pages, page.logits, captions, first, self.flops_share)
        return found, active

    def _forward(self, batch: TrainingBatch) -> tuple[Tensor, Pooled, float]:
        """Query vectors, what the network makes of the pages, and how many terms they have on average."""
        tiles = batch.tiles if self.passes.eyes else self._pixels(batch.tiles)
        mask = None if self.passes.text and bool(batch.pages.mask.all()) else batch.pages.mask
        with self._autocast(), self.passes.in_place():
            page: Pooled = self.model(batch.pages.ids, mask, tiles)
        queries = self.model.encode_queries(batch.queries.ids, batch.queries.mask)
        return queries, page, float((page.weights > 0).sum(1).float().mean())

    def _autocast(self) -> AbstractContextManager[Any]:
        half = self.config.precision == "bfloat16"
        return torch.autocast(self.device.type, torch.bfloat16) if half else nullcontext()

    @property
    def flops_share(self) -> float:
        """How far the warm-up of sparsity is."""
        return flops_share(self.step, self.config.flops_warm_up_steps, self.config.flops_warm_up)

    def _pixels(self, tiles: Tensor | None) -> Tensor | None:
        if tiles is None:
            return None
        return tiles.float().div_(255).sub_(self.settings.mean).div_(self.settings.deviation)

    def _check_finite(self, losses: Parts) -> None:
        broken = not bool(torch.isfinite(losses.total.detach()))
        if self.world.any(broken, self.device):
            values = ", ".join(f"{name} {float(value.detach()):g}" for name, value in losses.parts.items())
            self._stop(f"The loss is not a number ({values})")

    def _stop(self, reason: str) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.save()
        raise TrainingError(
            f"{reason} at step {self.step}. Nothing of that step was kept; the state before it is in "
            f"{self.run.out / LAST}. Go on from there with a lower rate or in float32."
        )

    def _log(self, facts: dict[str, Any]) -> None:
        with (self.run.out / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(facts) + "\n")

    # -- keeping ------------------------------------------------------------------------------------

    def save(self) -> None:
        """What is learned so far, whole or not at all; only the first process writes."""
        self._write()
        self.world.barrier()

    def _write(self) -> None:
        if self.world.leads:
            self.run.out.mkdir(parents=True, exist_ok=True)
            header = {"step": self.step, "config": self._identity()}
            tensors = {**self._tensors(), **files.optimizer_tensors(self.optimizer)}
            files.save(self.run.out / LAST, tensors, header)

    def _tensors(self) -> dict[str, Tensor]:
        return {f"model.{name}": p for name, p in self.learned.items()}

    def resume(self, path: Path) -> None:
        """Go on where a checkpoint stopped; refused where anything that decides the run is another."""
        tensors, header = files.load(path)
        changed = differences(header.get("config", {}), self._identity())
        if changed:
            raise InputError(
                f"{path} was trained with another configuration ({'; '.join(changed)}). Resume with "
                "the same one, or "
                "start a new run in another folder."
            )
        self.take_learned(tensors, path)
        files.load_optimizer(self.optimizer, tensors)
        self.step = int(header["step"])
        if self.world.leads:
            self._trim_log()

    def take_learned(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        """What a checkpoint has learned, strictly."""
        wanted = self._tensors()
        found = {name: tensor for name, tensor in tensors.items() if name.startswith("model.")}
        if wanted.keys() != found.keys() or any(found[n].shape != p.shape for n, p in wanted.items()):
            odd = sorted(wanted.keys() ^ found.keys()) or [
                n for n, p in wanted.items() if found[n].shape != p.shape
            ]
            raise InputError(
                f"{path} does not fit the model: {', '.join(odd[:5])}. Is it of another backbone?"
            )
        with torch.no_grad():
            for name, parameter in wanted.items():
                parameter.copy_(found[name])

    def _trim_log(self) -> None:
        """Steps after the checkpoint, of a run that was killed, are about to be made again."""
        path = self.run.out / "log.jsonl"
        if not path.is_file():
            return
        kept = [json.dumps(row) + "\n" for row in read_log(path) if row["step"] <= self.step]
        partial = path.with_suffix(".partial")
        partial.write_text("".join(kept), "utf-8")
        partial.replace(path)

    def _identity(self) -> dict[str, Any]:
        """All that the next step depends on."""
        return {
            **dataclasses.asdict(self.config),
            "planned_steps": self.plan.steps,
            "processes": self.world.size,
            **self.material,
        }

    def export(self, folder: Path) -> None:
        """The finished model, in the release's layout; the run itself cannot go on."""
        lora.merge(self.model)
        self.source.model = self.model.to("cpu").eval()
        folders.save(self.source, folder)


def train(
    config: PaperConfig,
    run: Run,
    images: ImagePairs,
    say: Callable[[str], None] = lambda _: None,
    make: Callable[..., Trainer] = Trainer,
) -> dict[str, Any]:
    """Begin or go on, to the end; the model is in ``run.out / "model"`` then. Under torchrun, one of its
    processes.
    """
    with joined() as world:
        trainer = make(config, run, images, world)
        if (run.out / LAST).is_file():
            trainer.resume(run.out / LAST)
            say(f"going on at step {trainer.step} of {trainer.plan.steps}")
        trainer.train(say)
        finished = trainer.step >= trainer.plan.steps or trainer.gave_up
        if finished and world.leads:
            trainer.export(run.out / "model")
        world.barrier()
        return {"step": trainer.step, "steps": trainer.plan.steps, "finished": finished}


def _device(name: str, world: World) -> torch.device:
    if name:
        return torch.device(name)
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", world.rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device
