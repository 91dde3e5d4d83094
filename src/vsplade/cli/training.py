"""``vsplade train`` and ``vsplade query-side``: the paper's model on PDFs of one's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from vsplade.cli.common import json_option, note, print_json, printable, say
from vsplade.cli.options import FOLDER, option, takes
from vsplade.errors import MissingExtraError

_EXTRA = {"torch", "safetensors", "tokenizers", "transformers", "jinja2"}


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """A missing module of the extra becomes a sentence that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _EXTRA:
            raise MissingExtraError(f"This command (module {error.name})", extra) from error
        raise


def _report(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        for name, value in result.items():
            say(f"{name}: {printable(str(value))}")


@dataclass(frozen=True)
class TrainOptions:
    from_pdfs: Path = option(
        "The PDFs: their text layers are captions and queries.", kind=click.Path(path_type=Path, exists=True),
        metavar="DIR",
    )  # fmt: skip
    backbone: str = option(
        "The model to train further: a folder or hub name.", "naver/v-splade-quality", metavar="MODEL"
    )
    out: Path = option(
        "The folder for checkpoints, the log, and the finished model.",
        "vsplade-model",
        kind=FOLDER,
        metavar="DIR",
    )
    config: str = option("quality, efficient, or a TOML file with what differs.", "quality", metavar="NAME")
    settings: tuple[str, ...] = option(
        "Change one setting of the configuration, as in rate=1e-4. May be given several times.", (),
        flag="--set", metavar="NAME=VALUE",
    )  # fmt: skip
    device: str = option("As torch names it. Default: a GPU where there is one.", "", metavar="NAME")
    every: int = option("Steps between checkpoints.", 500, kind=click.IntRange(min=1))
    stop_after: int = option(
        "Stop at this step; the same command goes on from there later. Default: at the end.", 0,
        kind=click.IntRange(min=0), metavar="STEP",
    )  # fmt: skip


@click.command()
@takes(TrainOptions)
@json_option
def train(asked: TrainOptions, as_json: bool) -> None:
    """Adapt the paper's model to your own PDFs.

    docs/paper-model.md explains it. Under torchrun, on several GPUs. The same command goes on where it was
    interrupted.
    """
    with needs_extra("hf"):
        from vsplade.train.adapt import adapt

        given = vars(asked)
        if os.environ.get("RANK", "0") == "0":  # under torchrun all processes come here; the first one speaks
            _report(adapt(**given, say=note), as_json)
        else:
            adapt(**given)


@click.command("query-side")
@click.argument("model", metavar="MODEL")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The folder to write to; `--encoder DIR` searches with it.",
)
@click.option(
    "--name",
    default="",
    help="The encoder's name in the index. Default: as MODEL is called by `vsplade index`.",
)
@json_option
def query_side(model: str, out: Path, name: str, as_json: bool) -> None:
    """Write a model's tokenizer and query weights: enough to search, without torch and without the model.

    MODEL is a folder or hub name.
    """
    with needs_extra("hf-query"):
        from vsplade.encode.modernvbert.find_model import find_model
        from vsplade.encode.modernvbert.query import export

        given = Path(model).expanduser()
        known = name or (str(given.resolve()) if given.is_dir() else model)
        side = export(find_model(model), out, known)
    size = sum(path.stat().st_size for path in out.iterdir())
    _report({"out": str(out), "name": known, "terms": len(side.table), "bytes": size}, as_json)


COMMANDS = (train, query_side)
