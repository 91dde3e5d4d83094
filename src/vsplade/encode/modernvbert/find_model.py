"""The folder of a model, by path or by its name on the hub."""

from __future__ import annotations

import re
from pathlib import Path

from vsplade.errors import InputError, MissingExtraError

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def find_model(name: str, *, download: bool = True) -> Path:
    """The folder of a model: as given, or from the hub's cache, downloaded when it is not there yet."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if not _HUB_NAME.fullmatch(name):
        raise InputError(
            f"There is no folder {name}. Give a folder with a model, or a hub name such as "
            "naver/v-splade-quality."
        )
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"Downloading {name}", "hf") from error
    try:
        files = ["*.json", "*.jinja", "*.safetensors"]
        return Path(snapshot_download(name, allow_patterns=files, local_files_only=not download))
    except Exception as error:  # the hub's client raises its own, its transport's and the system's errors
        raise InputError(
            f"{name} is neither a folder nor could it be fetched from the hub "
            f"({type(error).__name__}: {next(iter(str(error).splitlines()), '')}). "
            "Check the name and the connection, or download the model and give its folder."
        ) from error
