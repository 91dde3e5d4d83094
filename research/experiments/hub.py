"""Benchmarks as the hub keeps them, turned into the folder that ``vsplade eval`` reads.

    vsplade eval "$(python -m research.experiments.hub vidore-v2:biomedical)"

Three layouts are known, by what the files are called and which columns they have:

- three tables (ViDoRe v2 and v3, the ``_beir`` copies of v1, VisRAG, VisDoc-OOD): files or folders named
  ``corpus``,
  ``queries`` and ``qrels``, with ``corpus-id`` and ``image``, ``query-id`` and ``query``, ``query-id``,
  ``corpus-id`` and ``score``
- one table (ViDoRe v1): ``query``, ``image``, ``image_filename``; each row's picture answers its question
- IRPAPERS: ``irpapers-docs.csv`` with ``dataset_id`` and ``base64_str``, ``irpapers-queries.csv`` with
  ``question`` and
  ``dataset_id``

The result is kept in a cache, so that pictures are unpacked once. Anything that does not fit is an error
with its file and row.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from research.command import main, option
from research.experiments.benchmarks import is_benchmark, repository
from research.experiments.tables import SUFFIXES, Located, read_rows
from vsplade.cache import cache_folder
from vsplade.errors import InputError
from vsplade.evaluate.dataset import QRELS_HEADER, Dataset, load_dataset

ENGLISH = {"en", "eng", "english"}
_PICTURES = {b"\x89PNG": ".png", b"\xff\xd8\xff": ".jpg", b"RIFF": ".webp", b"GIF8": ".gif"}


def open_dataset(
    name: str | Path,
    data: str | Path | None = None,
    queries: Path | None = None,
    qrels: Path | None = None,
) -> Dataset:
    """A data set by folder (ours or the hub's layout) or by a benchmark's name.

    A named benchmark is looked for below ``data`` as OWNER/NAME or NAME; without it, it is fetched with
    ``huggingface_hub`` where that is installed. ``queries`` and ``qrels`` stand for the set's own.
    """
    text = str(name)
    folder = Path(name)
    if not folder.exists() and is_benchmark(text):
        folder = _local_copy(repository(text), Path(data) if data is not None else None)
        return load_dataset(convert(folder), queries, qrels)
    if folder.is_dir() and not _is_ours(folder) and _tables(folder):
        return load_dataset(convert(folder), queries, qrels)
    return load_dataset(folder, queries, qrels)


def convert(folder: Path, cache: Path | None = None) -> Path:
    """Unpack a folder in a hub layout; the second time, what was unpacked before is used."""
    target = (cache or cache_folder() / "datasets") / f"{folder.resolve().name}-{_state_of(folder)}"
    if (target / "qrels.tsv").is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: another run must never find half a corpus.
    work = Path(tempfile.mkdtemp(prefix="unpack-", dir=target.parent))
    try:
        contents = _read(folder, work)
        contents.write(work)
        work.replace(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


@dataclass
class _Contents:
    """Questions and judgements; pictures are written as they come."""

    images: Path
    pages: dict[str, str] = field(default_factory=dict)
    """Page id -> where it was found."""
    queries: dict[str, str] = field(default_factory=dict)
    qrels: dict[tuple[str, str], int] = field(default_factory=dict)

    def add_page(self, page: str, image: object, where: str) -> None:
        if page in self.pages:
            raise InputError(
                f"{where}: page id {page!r} was used before, at {self.pages[page]}. Ids must be unique."
            )
        self.pages[page] = where
        self.images.mkdir(exist_ok=True)
        write_picture(self.images, file_safe(page), image, where)

    def add_query(self, query: str, text: str, where: str) -> None:
        if query in self.queries:
            raise InputError(f"{where}: query id {query!r} was used before. Ids must be unique.")
        if not text.strip():
            raise InputError(f"{where}: query {query!r} is empty.")
        self.queries[query] = text

    def add_judgement(self, query: str, page: str, score: int, where: str) -> None:
        if page not in self.pages:
            raise InputError(f"{where}: page {page!r} is not in the corpus ({len(self.pages)} pages).")
        known = self.qrels.setdefault((query, page), score)
        if known != score:  # the same line twice happens in published sets and changes nothing
            raise InputError(
                f"{where}: query {query!r} and page {page!r} are judged {score} here and {known} before."
            )

    def write(self, folder: Path) -> None:
        if not self.pages or not self.queries or not self.qrels:
            raise InputError(
                f"{self.images.parent.name}: {len(self.pages)} pages, {len(self.queries)} queries and "
                f"{len(self.qrels)} judgements were found; none of them may be missing."
            )
        judged = {query for query, _ in self.qrels}
        if not judged <= set(self.queries):
            raise InputError(
                f"query {min(judged - set(self.queries))!r} is judged, but there is no such query."
            )
        rows = ((query, file_safe(page), score) for (query, page), score in self.qrels.items())
        write_questions(folder, self.queries, rows)


def write_questions(
    folder: Path, queries: Mapping[str, str], judgements: Iterable[tuple[str, str, int]]
) -> None:
    """``queries.jsonl`` and ``qrels.tsv``, as they are read here; judgements are (query, page, score)."""
    lines = [json.dumps({"_id": query, "text": text}) + "\n" for query, text in queries.items()]
    rows = [QRELS_HEADER, *([query, page, str(score)] for query, page, score in judgements)]
    tsv = "".join("\t".join(row) + "\n" for row in rows)
    (folder / "queries.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "qrels.tsv").write_text(tsv, encoding="utf-8")


def file_safe(page: str) -> str:
    """A page id that can be a file's name; plain ids stay as they are."""
    return quote(page, safe=" ()+,;=@!$&'~#")


def _read(folder: Path, work: Path) -> _Contents:
    contents = _Contents(work / "images")
    tables = _tables(folder)
    if {"corpus", "queries", "qrels"} <= set(tables):
        _read_three_tables(tables, contents)
    elif {"docs", "queries"} <= set(tables):
        _read_irpapers(tables, contents)
    elif set(tables) == {"rows"}:
        _read_one_table(tables["rows"], contents)
    else:
        raise InputError(
            f"{folder} has tables for {', '.join(sorted(tables))}. Expected corpus, queries and qrels, "
            "docs and queries (IRPAPERS), or one table with query and image (ViDoRe v1)."
        )
    return contents


def _read_three_tables(tables: dict[str, list[Path]], contents: _Contents) -> None:
    for row in _rows(tables["corpus"]):
        contents.add_page(row.text("corpus_id", "_id", "id"), row.get("image"), row.where)
    other_languages = set()
    for row in _rows(tables["queries"]):
        query = row.text("query_id", "_id", "id")
        if str(row.get("language") or "english").strip().lower() not in ENGLISH:
            other_languages.add(query)
            continue
        contents.add_query(query, row.text("query", "text"), row.where)
    for row in _rows(tables["qrels"]):
        query = row.text("query_id")
        if query in other_languages:
            continue
        if query not in contents.queries:
            raise InputError(f"{row.where}: query {query!r} is not in the queries.")
        contents.add_judgement(query, row.text("corpus_id"), _score(row), row.where)


def _read_one_table(files: list[Path], contents: _Contents) -> None:
    for number, row in enumerate(_rows(files)):
        page = row.text("image_filename", "corpus_id")
        if page not in contents.pages:
            contents.add_page(page, row.get("image"), row.where)
        if row.get("query") is None:  # a page that is only there to be found by mistake
            continue
        contents.add_query(f"q{number}", row.text("query"), row.where)
        contents.add_judgement(f"q{number}", page, 1, row.where)


def _read_irpapers(tables: dict[str, list[Path]], contents: _Contents) -> None:
    for row in _rows(tables["docs"]):
        contents.add_page(row.text("dataset_id"), row.get("base64_str"), row.where)
    for number, row in enumerate(_rows(tables["queries"])):
        contents.add_query(f"q{number}", row.text("question", "query"), row.where)
        contents.add_judgement(f"q{number}", row.text("dataset_id"), 1, row.where)


def _rows(files: Iterable[Path]) -> Iterator[Located]:
    for file in files:
        yield from read_rows(file)


def _score(row: Located) -> int:
    text = row.text("score", "relevance")
    try:
        value = float(text)
    except ValueError as error:
        raise InputError(f"{row.where}: the score {text!r} is not a number.") from error
    if value < 0 or value != int(value):
        raise InputError(f"{row.where}: the score must be a whole number from 0 up, found {text!r}.")
    return int(value)


def write_picture(folder: Path, stem: str, image: object, where: str) -> None:
    """Of a row at ``where``, under the ending of its kind."""
    body = _picture(image, where)
    suffix = next((end for magic, end in _PICTURES.items() if body.startswith(magic)), None)
    if suffix is None:
        raise InputError(f"{where}: the picture of page {stem!r} is no PNG, JPEG, WebP or GIF.")
    (folder / f"{stem}{suffix}").write_bytes(body)


def _picture(image: object, where: str) -> bytes:
    """The hub's image column is ``{"bytes", "path"}``; IRPAPERS has base64."""
    if isinstance(image, dict):
        image = image.get("bytes")
    if isinstance(image, str):
        try:
            return base64.b64decode(image, validate=True)
        except binascii.Error as error:
            raise InputError(f"{where}: the picture is not base64 ({error}).") from error
    if not isinstance(image, bytes) or not image:
        raise InputError(f"{where}: the picture is missing.")
    return image


def _tables(folder: Path) -> dict[str, list[Path]]:
    """Data files by the table they belong to; ``rows`` for those that are named after a split only."""
    tables: dict[str, list[Path]] = {}
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and Path(path.name.removesuffix(".gz")).suffix in SUFFIXES
    )
    for path in files:
        parts = path.relative_to(folder).parts
        if any(part.startswith(".") for part in parts):
            continue
        name = next((table for part in reversed(parts) if (table := _table(part))), "rows")
        if name != "ignored":
            tables.setdefault(name, []).append(path)
    return tables


def _table(part: str) -> str | None:
    word = part.lower().removeprefix("irpapers-").split(".")[0]
    for table in ("corpus", "queries", "qrels", "docs"):
        if word == table or word.startswith((f"{table}-", f"{table}_")):
            return table
    # IRPAPERS' plots, and ViDoRe v3's PDFs and their details, are no part of the task.
    return "ignored" if "visual-queries" in word or word.startswith(("documents_metadata", "pdfs")) else None


def _is_ours(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("qrels.tsv", "images", "pdfs"))


def _state_of(folder: Path) -> str:
    """Changes when a file does."""
    digest = hashlib.sha256()
    for files in sorted(_tables(folder).values()):
        for path in files:
            stat = path.stat()
            digest.update(f"{path.relative_to(folder)}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _local_copy(repo: str, data: Path | None) -> Path:
    if data is not None:
        for candidate in (data / repo, data / repo.split("/")[1]):
            if candidate.is_dir():
                return candidate
        raise InputError(
            f"{data} has no {repo}. Fetch it: "
            f"hf download --repo-type dataset {repo} --local-dir {data / repo}"
        )
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise InputError(
            f"{repo} is on the Hugging Face hub. Give --data DIR where a copy of it lies, or install "
            "huggingface_hub to fetch it: pip install 'vsplade[hub]'"
        ) from error
    try:
        return Path(snapshot_download(repo, repo_type="dataset"))
    except Exception as error:  # the hub's client raises a dozen kinds, of several libraries
        raise InputError(
            f"{repo} could not be fetched from the hub ({type(error).__name__}). Check the network, "
            "or give --data DIR where a copy of it lies."
        ) from error


@dataclass(frozen=True)
class HubOptions:
    dataset: str = option(
        "A folder in the hub's layout, or a benchmark's name (visrag:mpdocvqa).", argument=True
    )
    data: Path | None = option(
        "Where copies of the hub's data sets lie, as OWNER/NAME; default: fetch them.", None
    )


def unpack(options: HubOptions) -> str:
    """Make a folder for `vsplade eval` of a public benchmark; its path is printed."""
    return str(open_dataset(options.dataset, options.data).path)


if __name__ == "__main__":
    main(unpack, HubOptions)
