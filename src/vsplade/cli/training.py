"""``vsplade train``: make the reader anew, or train the paper's model. Every step's options are a class of
``train.options`` or ``train.paper.options``.
"""

from __future__ import annotations

import dataclasses
import os
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import click

from vsplade.cli.common import Command, json_option, note, print_json, printable, progress_bar, say
from vsplade.errors import InputError, MissingExtraError
from vsplade.train import options
from vsplade.train.paper import options as paper

_EXTRA = {
    "torch", "onnx", "safetensors", "wordfreq", "tokenizers", "fontTools", "triton", "snowballstemmer",
    "transformers", "pyarrow", "jinja2",
}  # fmt: skip


@contextmanager
def needs_extra(extra: str = "train") -> Iterator[None]:
    """A missing module of the extra becomes a sentence that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _EXTRA:
            raise MissingExtraError(f"Training (module {error.name})", extra) from error
        raise


def _click_type(hint: Any) -> tuple[Any, bool]:
    """The click type of a field, and whether it may be given several times."""
    if get_origin(hint) in (Union, types.UnionType):
        return _click_type(next(kind for kind in get_args(hint) if kind is not type(None)))
    if get_origin(hint) is tuple:
        return _click_type(get_args(hint)[0])[0], True
    return (click.Path(path_type=Path) if hint is Path else hint), False


def _parameter(field: dataclasses.Field[Any], hint: Any) -> Callable[[Command], Command]:
    kind, several = _click_type(hint)
    if field.metadata.get("argument"):
        shown = field.name.upper() + ("..." if several else "")
        return click.argument(field.name, type=kind, nargs=-1 if several else 1, required=True, metavar=shown)
    flag = "--" + field.name.replace("_", "-")
    required = field.default is dataclasses.MISSING
    given: dict[str, Any] = {} if required else {"default": field.default}
    if hint is bool:
        return click.option(flag, field.name, is_flag=True, help=field.metadata["help"])
    if "choices" in field.metadata:
        kind = click.Choice(field.metadata["choices"])
    return click.option(
        flag, field.name, type=kind, required=required, multiple=several, help=field.metadata["help"],
        show_default=field.default not in (None, "", dataclasses.MISSING), **given,
    )  # fmt: skip


def options_of(*classes: type, only: Collection[str] = ()) -> Callable[[Command], Command]:
    """An argument or option for every field of the classes (or for some), in their order."""

    def decorate(command: Command) -> Command:
        for one in reversed(classes):
            hints = get_type_hints(one)
            for field in reversed(dataclasses.fields(one)):
                if not only or field.name in only:
                    command = _parameter(field, hints[field.name])(command)
        return command

    return decorate


def _build(kind: type[Any], given: Mapping[str, Any]) -> Any:
    return kind(
        **{field.name: given[field.name] for field in dataclasses.fields(kind) if field.name in given}
    )


def _report(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        for name, value in result.items():
            say(f"{name}: {printable(str(value))}")


def _train_paper(given: paper.PaperOptions, as_json: bool) -> None:
    """Under torchrun all processes come here; the first one speaks."""
    if os.environ.get("RANK", "0") == "0":
        _report(paper.train_paper(given, note), as_json)
    else:
        paper.train_paper(given)


@click.group(invoke_without_command=True, no_args_is_help=True)
@options_of(paper.PaperOptions, only=("from_pdfs", "backbone", "out", "config", "set", "device"))
@json_option
@click.pass_context
def train(context: click.Context, /, as_json: bool, **given: Any) -> None:
    """Adapt the paper's model to your own PDFs (--from-pdfs), or run one step of training a model.

    docs/paper-model.md explains the paper's model, docs/training.md the steps behind the page reader.
    """
    if context.invoked_subcommand is not None:
        if given["from_pdfs"] is not None:
            raise InputError(
                f"--from-pdfs goes after the step: vsplade train {context.invoked_subcommand} ..."
            )
        return
    if given["from_pdfs"] is None:
        raise InputError("Give --from-pdfs FOLDER, or name a step; `vsplade train --help` lists them.")
    with needs_extra("hf"):
        _train_paper(_build(paper.PaperOptions, given), as_json)


@train.command("text")
@options_of(options.TextOptions)
@json_option
def text(as_json: bool, **given: Any) -> None:
    """Gather text from dictionaries, manuals, JSON lines and PDFs."""
    from vsplade.train.gather import gather_text

    _report(gather_text(_build(options.TextOptions, given)), as_json)


@train.command("fonts")
@options_of(options.FontsOptions)
@json_option
def fonts(as_json: bool, **given: Any) -> None:
    """Cut fonts down to the characters that training pages are set in."""
    with needs_extra():
        from vsplade.train.fonts import gather_fonts

        result = gather_fonts(_build(options.FontsOptions, given))
    _report(result, as_json)


@train.command("vocabulary")
@options_of(options.VocabularyOptions)
@json_option
def vocabulary(as_json: bool, **given: Any) -> None:
    """Choose the vocabulary from text. A new one needs a new model: terms are numbered by it."""
    with needs_extra():
        from vsplade.train.vocabulary import build_vocabulary

        result = build_vocabulary(_build(options.VocabularyOptions, given))
    _report(result, as_json)


@train.command("words")
@options_of(options.WordsOptions)
@json_option
def words(as_json: bool, **given: Any) -> None:
    """Make the bank of printed words that pages are set in."""
    with needs_extra():
        from vsplade.train.words import build_words

        result = build_words(_build(options.WordsOptions, given))
    _report(result, as_json)


@train.command("query-table")
@options_of(options.QueryTableOptions)
@json_option
def query_table(as_json: bool, **given: Any) -> None:
    """Make the table of query weights and the list of related words from text."""
    with needs_extra():
        from vsplade.train.query_table import build_query_table

        result = build_query_table(_build(options.QueryTableOptions, given))
    _report(result, as_json)


@train.command("retrieval")
@options_of(options.RetrievalOptions)
@json_option
def retrieval(as_json: bool, **given: Any) -> None:
    """Learn the query weights from questions and the pages that answer them; minutes on a CPU."""
    with needs_extra():
        from vsplade.train.retrieval import train_retrieval

        result = train_retrieval(_build(options.RetrievalOptions, given), say=note)
    _report(result, as_json)


@train.command("reader")
@options_of(options.TrainingRun, options.TrainingConfig)
@json_option
def reader(as_json: bool, **given: Any) -> None:
    """Train the reader; on a GPU in practice. Progress goes to stderr and to log.jsonl."""
    with needs_extra():
        from vsplade.train.reader import train as train_reader

        run, config = _build(options.TrainingRun, given), _build(options.TrainingConfig, given)
        result = train_reader(run, config, say=note)
    _report(result, as_json)


@train.command("probe")
@options_of(options.ProbeOptions)
@json_option
def probe(as_json: bool, **given: Any) -> None:
    """Read a folder of pages with a checkpoint and keep every word cell, for trying out weightings."""
    with needs_extra():
        from vsplade.train.probe import probe as probe_pages

        result = probe_pages(_build(options.ProbeOptions, given))
    _report(result, as_json)


@train.command("narrow")
@options_of(options.NarrowOptions)
@json_option
def narrow(as_json: bool, **given: Any) -> None:
    """Make a trained reader's blocks narrower; training goes on from there."""
    with needs_extra():
        from vsplade.train.narrow import narrow as narrow_reader

        result = narrow_reader(_build(options.NarrowOptions, given), note)
    _report(result, as_json)


@train.command("revive")
@options_of(options.ReviveOptions)
@json_option
def revive(as_json: bool, **given: Any) -> None:
    """Wake the units of a trained reader's head that never fire; training goes on from there."""
    with needs_extra():
        from vsplade.train.revive import revive as revive_reader

        result = revive_reader(_build(options.ReviveOptions, given), note)
    _report(result, as_json)


@train.command("export")
@options_of(options.ExportOptions)
@json_option
def export(as_json: bool, **given: Any) -> None:
    """Turn a checkpoint into the 8-bit ONNX files that ship."""
    with needs_extra():
        from vsplade.train.export import export as export_model

        result = export_model(_build(options.ExportOptions, given))
    _report(result, as_json)


@train.command("certainty")
@options_of(options.CertaintyOptions)
@json_option
def certainty(as_json: bool, **given: Any) -> None:
    """Measure how often each term stands on the page where it was read."""
    from vsplade.train.certainty import measure_certainty

    with progress_bar(None, "files") as progress:
        result = measure_certainty(_build(options.CertaintyOptions, given), progress)
    _report(result, as_json)


@train.command("paper")
@options_of(paper.PaperOptions)
@json_option
def paper_model(as_json: bool, **given: Any) -> None:
    """Train the paper's model; under torchrun, on several GPUs. docs/paper-model.md explains it."""
    with needs_extra("hf"):
        _train_paper(_build(paper.PaperOptions, given), as_json)


@train.command("query-side")
@options_of(paper.QuerySideOptions)
@json_option
def query_side(as_json: bool, **given: Any) -> None:
    """Write a model's tokenizer and query weights: enough to search, without torch and without the model."""
    with needs_extra("hf-query"):
        result = paper.write_query_side(_build(paper.QuerySideOptions, given))
    _report(result, as_json)


@train.command("captions")
@options_of(paper.CaptionOptions)
@json_option
def captions(as_json: bool, **given: Any) -> None:
    """Have a vision model behind an OpenAI-compatible endpoint describe the training pages."""
    with needs_extra("hf"):
        result = paper.make_captions(_build(paper.CaptionOptions, given), note)
    _report(result, as_json)


@train.command("ablation")
@options_of(paper.AblationOptions)
@json_option
def ablation(as_json: bool, **given: Any) -> None:
    """Train and measure the rows of the paper's ablation on the shipped reader's features."""
    with needs_extra():
        from vsplade.train.paper.ablation import ablate

        result = ablate(_build(paper.AblationOptions, given), note)
    _report(result, as_json)


COMMANDS = (train,)
