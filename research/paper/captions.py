"""Captions by any OpenAI-compatible vision endpoint (vLLM and others): concurrent, and resumed where it
stopped.

Every answer is written at once. A page that stays without one is reported at the end and asked for again in
the next run; nothing that was written is asked for twice. The client tries again what may
pass: a busy server, a lost connection, an answer that does not come in time.
"""

from __future__ import annotations

import base64
import io
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import openai

from research.command import main
from research.experiments.benchmarks import is_benchmark
from research.experiments.hub import open_dataset
from research.paper.data import ColpaliPairs, read_captions
from research.paper.options import CaptionOptions
from vsplade.cli.common import note
from vsplade.errors import InputError
from vsplade.pages import SourceFile, render, usable

LONGEST_EDGE = 2048
"""Of pages that are rendered for the model."""
PROMPT = (
    "You are an assistant specialized in document analysis. Given a table or a figure, provide a "
    "detailed summary "
    "(maximum 3000 characters). Your summary should be qualitative and not quantitative. Here is the "
    "table/figure: "
    "Answer ONLY with the caption."
)
"""ColPali's, as the paper uses it."""


@dataclass(frozen=True)
class Endpoint:
    url: str
    """Up to and with ``/v1``."""
    model: str
    concurrent: int = 16
    seconds: float = 120.0
    """For one answer."""
    attempts: int = 4
    tokens: int = 1024
    key_variable: str = "OPENAI_API_KEY"
    """The environment variable with the key, where the endpoint wants one."""
    prompt: str = PROMPT

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise InputError(f"The endpoint {self.url!r} must begin with http:// or https://.")
        if min(self.concurrent, self.attempts, self.tokens) < 1 or not self.seconds > 0:
            raise InputError("The endpoint's concurrent, attempts, tokens and seconds must be above 0.")


@dataclass
class CaptionReport:
    written: int = 0
    skipped: int = 0
    """Pages that had a caption already."""
    failures: dict[str, str] = field(default_factory=dict)
    """Page id: why it has no caption."""


class _NoCaption(Exception):
    """Why a page has none."""


Picture: TypeAlias = bytes | Callable[[], bytes]
"""An encoded picture, or what fetches it: one that has its caption need not be fetched."""


PAIRS, PAGES = ("id", "caption"), ("_id", "text")
"""Keys of a line: as training reads captions, and as evaluation reads page texts."""


def write_captions(
    pages: Iterable[tuple[str, Picture]], endpoint: Endpoint, out: Path, keys: tuple[str, str] = PAIRS
) -> CaptionReport:
    """Captions for (id, picture) pairs, appended to ``out`` as they come."""
    client = openai.OpenAI(
        base_url=endpoint.url, api_key=os.environ.get(endpoint.key_variable) or "none",
        timeout=endpoint.seconds, max_retries=endpoint.attempts - 1,
    )  # fmt: skip
    known = _known(out, keys)
    report = CaptionReport()
    lock = threading.Lock()
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as file, ThreadPoolExecutor(endpoint.concurrent) as pool:

        def caption(name: str, image: bytes) -> None:
            try:
                text = _ask(client, endpoint, image)
            except _NoCaption as reason:
                with lock:
                    report.failures[name] = str(reason)
                return
            with lock:
                line = dict(zip(keys, (name, text), strict=True))
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                file.flush()
                report.written += 1

        waiting: set[Future[None]] = set()
        for name, image in _new(pages, known, report):
            waiting.add(pool.submit(caption, name, image))
            if len(waiting) >= 2 * endpoint.concurrent:  # pictures wait in memory: not all of them
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                _raise_first(done)
                _give_up_early(report)
        _raise_first(wait(waiting).done)
    return report


def _new(
    pages: Iterable[tuple[str, Picture]], known: set[str], report: CaptionReport
) -> Iterator[tuple[str, bytes]]:
    for name, image in pages:
        if name in known:
            report.skipped += 1
        else:
            known.add(name)
            yield name, image() if callable(image) else image


def _give_up_early(report: CaptionReport) -> None:
    """An endpoint that never answers is not asked a hundred thousand times."""
    if len(report.failures) >= 50 and report.written == 0:
        reason = next(iter(report.failures.values()))
        raise InputError(
            f"The caption endpoint failed {len(report.failures)} times and never succeeded: {reason}."
        )


def _raise_first(done: Iterable[Future[None]]) -> None:
    for future in done:
        future.result()


def _known(out: Path, keys: tuple[str, str]) -> set[str]:
    """Ids in the file; half a line at its end (a run that was killed) is cut off."""
    if not out.is_file():
        return set()
    raw = out.read_bytes()
    whole = raw[: raw.rfind(b"\n") + 1]
    if len(whole) != len(raw):
        with out.open("r+b") as file:
            file.truncate(len(whole))
    return set(read_captions(out, *keys)) if whole else set()


def _ask(client: openai.OpenAI, endpoint: Endpoint, image: bytes) -> str:
    picture = f"data:{_media_type(image)};base64," + base64.b64encode(image).decode()
    content: list[Any] = [
        {"type": "text", "text": endpoint.prompt},
        {"type": "image_url", "image_url": {"url": picture}},
    ]
    try:
        answer = client.chat.completions.create(
            model=endpoint.model, max_tokens=endpoint.tokens, temperature=0,
            messages=[{"role": "user", "content": content}],
        )  # fmt: skip
        choice = answer.choices[0]
        refusal, text = choice.message.refusal, choice.message.content
    except openai.APITimeoutError as error:
        raise _NoCaption(f"no answer within {endpoint.seconds:g} seconds") from error
    except openai.APIConnectionError as error:
        raise _NoCaption(f"the connection failed ({error.__cause__ or error})") from error
    except openai.APIStatusError as error:
        raise _NoCaption(f"the endpoint answered {error.status_code}: {error.message[:80]}") from error
    except (openai.OpenAIError, ValueError, AttributeError, IndexError, TypeError) as error:
        raise _NoCaption(f"the answer makes no sense ({error})") from error
    if refusal or choice.finish_reason == "content_filter":
        raise _NoCaption(f"the model refused: {refusal or 'content filter'}")
    if not isinstance(text, str) or not text.strip():
        raise _NoCaption("the answer is empty")
    return text.strip()


def _media_type(image: bytes) -> str:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(image)) as picture:
            return Image.MIME.get(picture.format or "", "image/png")
    except OSError as error:
        raise _NoCaption(f"the picture cannot be read ({error})") from error


def training_pictures(folder: Path, out: Path) -> Iterator[tuple[str, Picture]]:
    """Of ColPali's parquet files, by what they show."""
    pairs = ColpaliPairs(folder)

    def picture(number: int) -> bytes:
        return pairs[number].image

    return ((name, partial(picture, number)) for number, name in enumerate(pairs.ids(out)))


def dataset_pictures(name: str, data: Path | None = None) -> Iterator[tuple[str, Picture]]:
    """Of a data set's pages, by page id; pages of PDFs are rendered."""
    dataset = open_dataset(name, data)
    if dataset.image_ids is not None:
        yield from ((file.stem, file.read_bytes) for file in dataset.files)
        return
    sources = [SourceFile(str(file.resolve()), file.stem) for file in dataset.files]
    with closing(render(sources, LONGEST_EDGE)) as results:
        for result in usable(results):
            stream = io.BytesIO()
            result.page.image.save(stream, "PNG")
            yield result.page.id, stream.getvalue()


def is_dataset(name: str) -> bool:
    """A data set as ``vsplade eval`` takes it, and not ColPali's parquet files."""
    folder = Path(name)
    return is_benchmark(name) or any((folder / part).is_dir() for part in ("images", "pdfs"))


def make_captions(options: CaptionOptions, say: Callable[[str], None] = note) -> dict[str, Any]:
    """Have a vision model behind an OpenAI-compatible endpoint describe training pages, or the pages of a
    data set: those are written as ``vsplade eval --texts`` reads them.
    """
    endpoint = Endpoint(options.url, options.model, options.concurrent, options.seconds, options.attempts)
    if is_dataset(options.pages):
        report = write_captions(dataset_pictures(options.pages, options.data), endpoint, options.out, PAGES)
    else:
        pictures = training_pictures(Path(options.pages), options.out)
        report = write_captions(pictures, endpoint, options.out)
    for name, reason in list(report.failures.items())[:20]:
        say(f"{name}: {reason}")
    if report.failures:
        raise InputError(
            f"{len(report.failures)} pages have no caption, for example: "
            f"{next(iter(report.failures.values()))}. "
            f"{report.written + report.skipped} are in {options.out}; run the same command again for "
            "the rest."
        )
    return {"written": report.written, "there before": report.skipped}


if __name__ == "__main__":
    main(make_captions, CaptionOptions)
