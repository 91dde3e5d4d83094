"""A folder with pages, questions and judgements, read strictly.

The layout::

    images/              one picture a page; a page's id is the file's stem
    pdfs/                (instead of images/) a page's id is ``stem_N``, N counting from 1
    queries.jsonl[.gz]   {"_id": ..., "text": ...} a line
    qrels.tsv            header ``query-id  corpus-id  score``, tab separated

A mistake here changes scores without anybody noticing, so every one is an error with its file and line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vsplade.errors import InputError
from vsplade.jsonl import read_lines, read_objects
from vsplade.pages.formats import is_supported
from vsplade.pages.naming import PICTURE_SUFFIXES, suffix
from vsplade.types import Metadata

Qrels = dict[str, dict[str, int]]
"""Query id -> page id -> how relevant (0: judged, and not relevant)."""

QRELS_HEADER = ["query-id", "corpus-id", "score"]
HIGHEST_SCORE = 1000
"""Of a judgement: trec_eval sets memory aside for every level up to the highest one (1e9: 8 GB)."""
_PDF_PAGE = re.compile(r"(?P<stem>.+)_(?P<number>[1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions, judgements and the files that hold the pages."""

    path: Path
    queries: Mapping[str, str]
    qrels: Qrels
    files: tuple[Path, ...] = ()
    """Page files in name order; empty for a set that has only texts."""
    image_ids: frozenset[str] | None = None
    """Every page id, where the file names alone tell it (images); ``None`` for PDFs and text-only sets."""
    _qrel_lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    _qrels_name: str = "qrels.tsv"

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def judged(self) -> list[str]:
        """The queries that count: those with at least one judgement, in the order of the queries file."""
        return [query for query in self.queries if query in self.qrels]

    def metadata_of(self, page_ids: Iterable[str]) -> dict[str, Metadata]:
        """Of the pages of PDFs: which document each is from, as ``vsplade index`` keeps it."""
        if self.image_ids is not None or not self.files:
            return {}
        stems = {file.stem for file in self.files}
        found = {page: match for page in page_ids if (match := _PDF_PAGE.fullmatch(page))}
        counts = Counter(match["stem"] for match in found.values())
        return {
            page: {"doc_id": match["stem"], "page_num": int(match["number"]), "pages": counts[match["stem"]]}
            for page, match in found.items()
            if match["stem"] in stems
        }

    def check_corpus(self, page_ids: Collection[str]) -> None:
        """Refuse judgements of pages that the corpus does not hold."""
        held = page_ids if isinstance(page_ids, (set, frozenset, dict)) else set(page_ids)
        for (query, page), line in self._qrel_lines.items():
            if page not in held:
                raise InputError(
                    f"{self.path / self._qrels_name}, line {line}: query {query!r} is judged against page "
                    f"{page!r}, which is not in the corpus ({len(held)} pages). "
                    f"{self._where_to_look(page)}"
                )

    def _where_to_look(self, page: str) -> str:
        if self.image_ids is not None:
            return f"Add the missing picture images/{page}.* or remove the line."
        match = _PDF_PAGE.fullmatch(page)
        if self.files and match:
            stems = {file.stem for file in self.files}
            if match["stem"] in stems:
                return f"{match['stem']}.pdf has no page {match['number']}."
            return f"There is no pdfs/{match['stem']}.pdf: add it or remove the line."
        if self.files:
            return "Pages of PDFs are named STEM_N, with N counting from 1."
        return "Add the page or remove the line."


def load_dataset(
    folder: str | Path, queries_file: Path | None = None, qrels_file: Path | None = None
) -> Dataset:
    """Read and check a folder; pages are not decoded. Queries and judgements may lie elsewhere."""
    path = Path(folder)
    if not path.is_dir():
        raise InputError(
            f"{path} is not a folder. Give a folder with images/ or pdfs/, queries.jsonl and qrels.tsv."
        )
    queries_path = queries_file or _one_of(path, "queries.jsonl", "queries.jsonl.gz")
    queries = read_queries(queries_path)
    qrels_path = qrels_file or path / "qrels.tsv"
    qrels, lines = read_qrels(qrels_path)
    for (query, _), line in lines.items():
        if query not in queries:
            raise InputError(
                f"{qrels_path}, line {line}: query {query!r} is not in {queries_path.name}. "
                "Add the query or remove the line."
            )
    files, image_ids = _page_files(path)
    dataset = Dataset(path, queries, qrels, files, image_ids, lines)
    if image_ids is not None:
        dataset.check_corpus(image_ids)
    return dataset


def read_queries(path: Path) -> dict[str, str]:
    """``{"_id", "text"}`` lines; ids must be unique and texts must say something."""
    queries: dict[str, str] = {}
    for line, query, text in _read_texts(path, "query id {!r} was used", "Ids must be unique."):
        if not text.strip():
            raise InputError(f"{path}, line {line}: query {query!r} is empty. Give it a text or remove it.")
        queries[query] = text
    if not queries:
        raise InputError(f"{path} holds no queries.")
    return queries


def read_page_texts(path: str | Path, page_ids: Collection[str] | None = None) -> dict[str, str]:
    """Texts of pages (captions, OCR); a text may be empty, but every page must be one of ``page_ids``."""
    texts: dict[str, str] = {}
    held = None if page_ids is None else set(page_ids)
    for line, page, text in _read_texts(Path(path), "page {!r} was given", "Keep one text a page."):
        if held is not None and page not in held:
            raise InputError(f"{path}, line {line}: page {page!r} is not in the corpus ({len(held)} pages).")
        texts[page] = text
    return texts


def _read_texts(path: Path, again: str, advice: str) -> Iterator[tuple[int, str, str]]:
    """(line number, id, text) for each line of a jsonl file, plain or gzipped; an id stands once."""
    first_seen: dict[str, int] = {}
    for line, record in read_objects(path):
        if "_id" not in record or "text" not in record:
            raise InputError(
                f'{path}, line {line}: expected {{"_id": ..., "text": ...}}, found {str(record)[:80]}'
            )
        identifier, text = record["_id"], record["text"]
        if isinstance(identifier, bool) or not isinstance(identifier, (str, int)) or identifier == "":
            raise InputError(f'{path}, line {line}: "_id" must be a text, found {identifier!r}.')
        if not isinstance(text, str):
            raise InputError(f'{path}, line {line}: "text" must be a text, found {text!r}.')
        before = first_seen.setdefault(str(identifier), line)
        if before != line:
            said = again.format(str(identifier))
            raise InputError(f"{path}, line {line}: {said} before, on line {before}. {advice}")
        yield line, str(identifier), text


def read_qrels(path: Path) -> tuple[Qrels, dict[tuple[str, str], int]]:
    """Judgements, and the line on which each (query, page) stands."""
    qrels: Qrels = {}
    lines: dict[tuple[str, str], int] = {}
    rows = read_lines(path)
    _, header = next(rows, (1, ""))
    if header.split("\t") != QRELS_HEADER:
        raise InputError(
            f"{path}, line 1: expected the header 'query-id<TAB>corpus-id<TAB>score', found {header[:80]!r}."
        )
    for line, content in rows:
        columns = content.split("\t")
        if len(columns) != 3:
            raise InputError(
                f"{path}, line {line}: expected 3 columns separated by tabs, found {len(columns)}."
            )
        query, page, score = (column.strip() for column in columns)
        if not score.isdecimal() or int(score) > HIGHEST_SCORE:
            raise InputError(
                f"{path}, line {line}: the score must be a whole number from 0 to {HIGHEST_SCORE:,}, "
                f"found {score!r}."
            )
        if (query, page) in lines:
            raise InputError(
                f"{path}, line {line}: query {query!r} and page {page!r} were judged before, on line "
                f"{lines[query, page]}. Keep one of the two lines."
            )
        lines[query, page] = line
        qrels.setdefault(query, {})[page] = int(score)
    if not qrels:
        raise InputError(f"{path} holds no judgements, only the header.")
    return qrels, lines


def _one_of(folder: Path, *names: str) -> Path:
    present = [folder / name for name in names if (folder / name).exists()]
    if not present:
        raise InputError(f"{folder} has no {' or '.join(names)}.")
    if len(present) > 1:
        raise InputError(
            f"{folder} has both {' and '.join(p.name for p in present)}: keep one, they might differ."
        )
    return present[0]


def _page_files(folder: Path) -> tuple[tuple[Path, ...], frozenset[str] | None]:
    """The page files, and the page ids where file names tell them."""
    kinds = [kind for kind in ("images", "pdfs") if (folder / kind).is_dir()]
    if len(kinds) == 2:
        raise InputError(f"{folder} has both images/ and pdfs/: keep the one that the judgements speak of.")
    if not kinds:
        return (), None
    files = sorted(p for p in (folder / kinds[0]).iterdir() if p.is_file() and not p.name.startswith("."))
    if not files:
        raise InputError(f"{folder / kinds[0]} is empty.")
    by_stem: dict[str, Path] = {}
    for file in files:
        if not is_supported(str(file)):
            raise InputError(f"{file} is not a picture or PDF that can be read. Move it out of the folder.")
        other = by_stem.setdefault(file.stem, file)
        if other is not file:
            raise InputError(
                f"{file} and {other.name} would both be page {file.stem!r}: ids come from the file's name "
                "without its ending. Rename or remove one."
            )
    # A TIFF may hold several pages, and a PDF does: their ids are known only when they are opened.
    one_page_each = all(suffix(str(file)) in PICTURE_SUFFIXES for file in files)
    return tuple(files), frozenset(by_stem) if one_page_each else None
