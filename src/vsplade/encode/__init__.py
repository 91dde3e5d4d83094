"""I have a page, give me its words and weights: one protocol (``types.Encoder``), one loader."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from vsplade.config import make_options, parse_spec
from vsplade.errors import InputError, MissingExtraError
from vsplade.types import Encoder

_OPTIONS = re.compile(r":(?=\s*\w+\s*=)")
"""Where options may begin in a name."""
Maker = Callable[[Mapping[str, object]], Encoder]

READER_MODEL = Path(__file__).with_name("data") / "reader" / "trunk.onnx"
"""The model that ships in the package; where it is missing, ``text`` is the default encoder."""


def default_encoder() -> str:
    """The name that ``load_encoder`` uses when none is given."""
    return "reader" if READER_MODEL.is_file() else "text"


def load_encoder(name: str | None = None, **options: object) -> Encoder:
    """An encoder by name; options may also stand in the name, as in ``text:k1=0.9,b=0.4``.

    An encoder's own ``name`` loads an equal encoder again: that is how an index finds the one it was
    built with. ``FIRST+text`` keeps the text layer beside the first encoder's vectors, for fusion.
    ``reader+dense`` reads queries by a network: short for ``reader:dense=true``.
    """
    return _load(name, options, _MAKERS)


def load_index_encoder(name: str, index_dir: Path | str) -> Encoder:
    """The encoder that an index names; ``index_dir`` is its folder, or its address on another engine.

    An index may come from anybody: it can name what is installed, or a model that is on this machine and
    outside of its own folder, but it never starts a download.
    """
    first, plus, second = name.rpartition("+")
    is_model = False
    for part in (first, second) if plus else (name,):
        base, options = _parse(part)
        is_model |= "model" in options or _names_a_model(base)
        model = Path(options.get("model", base)).expanduser()
        if model.is_dir() and model.resolve().is_relative_to(Path(index_dir).resolve()):
            raise _not_trusted(name, index_dir)
    try:
        return _load(name, {}, {**_MAKERS, "modernvbert": partial(_make_modernvbert, download=False)})
    except (InputError, MissingExtraError) as error:
        if not is_model:
            raise
        raise _not_trusted(name, index_dir) from error


def as_built(encoder: Encoder, fingerprint: str) -> Encoder:
    """The encoder for an index with this fingerprint: as it is, or as it was at a former revision."""
    if encoder.fingerprint == fingerprint:
        return encoder
    former: list[Encoder] = getattr(encoder, "former", list)()
    return next((one for one in former if one.fingerprint == fingerprint), encoder)


def _not_trusted(name: str, index_dir: Path | str) -> InputError:
    return InputError(
        f"{index_dir}: this index names the encoder {name!r}, which does not come with vsplade and is not on "
        "this machine. An index never starts a download, nor brings its own model: when you trust this one, "
        f"name it yourself, as in --encoder {name}."
    )


def _load(name: str | None, options: Mapping[str, object], makers: Mapping[str, Maker]) -> Encoder:
    first, plus, second = (name or "").rpartition("+")
    if plus and second == "dense":
        return _load(first, {**options, "dense": True}, makers)
    if plus and parse_spec(second)[0] == "text" and not options:
        return _make_pair(first, second, makers)
    base, given = _parse(default_encoder() if name is None else name)
    twice = sorted(set(given) & set(options))
    if twice:
        raise InputError(f"Option {twice[0]!r} is given both in {name!r} and beside it; keep one of them.")
    if base not in makers and _names_a_model(base):
        base, given = "modernvbert", {"model": base, **given}
    if base not in makers:
        raise InputError(f"There is no encoder {base!r}; choose one of: {', '.join(sorted(makers))}.")
    return makers[base]({**given, **options})


def _parse(spec: str) -> tuple[str, dict[str, str]]:
    """As ``parse_spec``, but the ":" of a path belongs to the path."""
    ends = [found.start() for found in _OPTIONS.finditer(spec)]
    if not _names_a_model(spec[: ends[0]] if ends else spec):
        return parse_spec(spec)
    folders = [end for end in (len(spec), *reversed(ends)) if Path(spec[:end]).expanduser().is_dir()]
    end = (folders or ends or [len(spec)])[0]
    return spec[:end].strip(), parse_spec("model" + spec[end:])[1]


def _make_text(options: Mapping[str, object]) -> Encoder:
    from vsplade.encode.text import TextEncoder, TextOptions

    return TextEncoder(make_options(TextOptions, options, "encoder 'text'"))


def _make_reader(options: Mapping[str, object]) -> Encoder:
    from vsplade.encode.reader.reader import ReaderEncoder
    from vsplade.encode.reader.reader_queries import ReaderOptions

    chosen = make_options(ReaderOptions, options, "encoder 'reader'")
    if chosen.device == "cpu":
        return ReaderEncoder(chosen)
    if chosen.device == "torch":
        from vsplade.encode.gpu.lazy_reader import LaterTorchReader

        return LaterTorchReader(chosen)
    try:
        from vsplade.encode.gpu.gpu_reader import TorchReaderEncoder
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"The reader on device {chosen.device!r}", "gpu") from error
    return TorchReaderEncoder(chosen)


def _make_pair(first: str, second: str, makers: Mapping[str, Maker]) -> Encoder:
    from vsplade.encode.text import TextEncoder
    from vsplade.encode.with_text import PairedEncoder

    text = load_encoder(second)
    if first == "text" or first.startswith("text:") or not isinstance(text, TextEncoder):
        raise InputError(f"Cannot pair {first!r} with {second!r}: write READER+text, as in reader+text.")
    return PairedEncoder(_load(first, {}, makers), text)


def _names_a_model(name: str) -> bool:
    """``owner/model`` of a hub, or a path."""
    return "/" in name or "\\" in name or Path(name).is_dir()


def _make_modernvbert(options: Mapping[str, object], download: bool = True) -> Encoder:
    from vsplade.encode.modernvbert.encoder import ModernVBertEncoder, ModernVBertOptions

    if "model" not in options:
        raise InputError("Name the model: modernvbert:model=FOLDER, or just the folder or the hub name.")
    chosen = make_options(ModernVBertOptions, options, "encoder 'modernvbert'")
    return ModernVBertEncoder(chosen, download=download)


_MAKERS: dict[str, Maker] = {
    "modernvbert": _make_modernvbert,
    "reader": _make_reader,
    "text": _make_text,
}
