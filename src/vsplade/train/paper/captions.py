"""Captions by any OpenAI-compatible vision endpoint (vLLM and others): concurrent, and resumed where it
stopped.

Every answer is written at once. A page that stays without one is reported at the end and asked for again in
the next run; nothing that was written is asked for twice.
"""

from __future__ import annotations

import base64
import io
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from vsplade.errors import InputError

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
    pause: float = 1.0
    """Seconds before the second attempt; doubled every time."""
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


class _Answer(Exception):
    """An answer that is no caption; ``again`` where another attempt may help."""

    def __init__(self, reason: str, again: bool) -> None:
        super().__init__(reason)
        self.again = again


Picture: TypeAlias = bytes | Callable[[], bytes]
"""An encoded picture, or what fetches it: one that has its caption need not be fetched."""


def write_captions(pages: Iterable[tuple[str, Picture]], endpoint: Endpoint, out: Path) -> CaptionReport:
    """Captions for (id, picture) pairs, appended to ``out`` as they come."""
    known = _known(out)
    report = CaptionReport()
    lock = threading.Lock()
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as file, ThreadPoolExecutor(endpoint.concurrent) as pool:

        def caption(name: str, image: bytes) -> None:
            try:
                text = _ask(endpoint, image)
            except _Answer as answer:
                with lock:
                    report.failures[name] = str(answer)
                return
            with lock:
                file.write(json.dumps({"id": name, "caption": text}, ensure_ascii=False) + "\n")
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


def _known(out: Path) -> set[str]:
    """Ids in the file; half a line at its end (a run that was killed) is cut off."""
    if not out.is_file():
        return set()
    raw = out.read_bytes()
    whole = raw[: raw.rfind(b"\n") + 1]
    if len(whole) != len(raw):
        with out.open("r+b") as file:
            file.truncate(len(whole))
    from vsplade.train.paper.data import read_captions

    return set(read_captions(out)) if whole else set()


def _ask(endpoint: Endpoint, image: bytes) -> str:
    pause = endpoint.pause
    for attempt in range(1, endpoint.attempts + 1):
        try:
            return _caption_of(_post(endpoint, image))
        except _Answer as answer:
            if not answer.again or attempt == endpoint.attempts:
                raise _Answer(f"{answer} (attempt {attempt} of {endpoint.attempts})", False) from answer
        time.sleep(pause)
        pause *= 2
    raise _Answer("no attempt was made", False)


def _post(endpoint: Endpoint, image: bytes) -> bytes:
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(endpoint.key_variable):
        headers["Authorization"] = f"Bearer {key}"
    url = endpoint.url.rstrip("/") + "/chat/completions"
    request = urllib.request.Request(url, _body(endpoint, image), headers)
    try:
        with urllib.request.urlopen(request, timeout=endpoint.seconds) as answer:
            found: bytes = answer.read()
            return found
    except urllib.error.HTTPError as error:
        again = error.code in (408, 409, 425, 429) or error.code >= 500
        raise _Answer(f"the endpoint answered {error.code} {error.reason}", again) from error
    except TimeoutError as error:
        raise _Answer(f"no answer within {endpoint.seconds:g} seconds", True) from error
    except (urllib.error.URLError, OSError, EOFError) as error:
        timed_out = isinstance(getattr(error, "reason", None), TimeoutError)
        reason = (
            f"no answer within {endpoint.seconds:g} seconds"
            if timed_out
            else f"the connection failed ({error})"
        )
        raise _Answer(reason, True) from error


def _body(endpoint: Endpoint, image: bytes) -> bytes:
    data = f"data:{_media_type(image)};base64," + base64.b64encode(image).decode()
    content = [{"type": "text", "text": endpoint.prompt}, {"type": "image_url", "image_url": {"url": data}}]
    return json.dumps({
        "model": endpoint.model, "max_tokens": endpoint.tokens, "temperature": 0,
        "messages": [{"role": "user", "content": content}],
    }).encode()  # fmt: skip


def _media_type(image: bytes) -> str:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(image)) as picture:
            return Image.MIME.get(picture.format or "", "image/png")
    except OSError as error:
        raise _Answer(f"the picture cannot be read ({error})", False) from error


def _caption_of(raw: bytes) -> str:
    try:
        answer: Any = json.loads(raw)
        choice = answer["choices"][0]
        message = choice["message"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise _Answer(f"the answer makes no sense: {raw[:80]!r}", True) from error
    if not isinstance(message, dict):
        raise _Answer(f"the answer makes no sense: {raw[:80]!r}", True)
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        raise _Answer(f"the model refused: {message.get('refusal') or 'content filter'}", False)
    text = message.get("content")
    if not isinstance(text, str) or not text.strip():
        raise _Answer("the answer is empty", True)
    return text.strip()
