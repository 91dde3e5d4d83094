"""Our index as a search model of mteb, and mteb's models on our data sets.

    import mteb
    from research.experiments.mteb_model import VspladeSearch

    mteb.evaluate(VspladeSearch(), tasks=mteb.get_tasks(tasks=["Vidore2BioMedicalLecturesRetrieval"]))

The other way round, ``mteb_run`` gives the run of any model in mteb's registry on a data set of ours, alone
or as a reranker of another run; such a run can be judged, compared and fused like every other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.command import main, option
from research.experiments.hub import open_dataset
from vsplade.encode import load_encoder
from vsplade.encode.keyed import encode_keyed
from vsplade.errors import InputError, MissingExtraError
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.measures import measure, rounded
from vsplade.evaluate.runs import Run, ranked, read_run, write_run
from vsplade.pages import NO_PIXELS, fit, to_grey_or_rgb
from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter
from vsplade.types import Encoder, Page


class VspladeSearch:
    """mteb's ``SearchProtocol`` on an index in a temporary folder. Arguments that it passes for encoders of
    its own kind (batch sizes, worker counts) have no meaning here.
    """

    def __init__(self, encoder: Encoder | str | None = None) -> None:
        self.encoder = load_encoder(encoder) if encoder is None or isinstance(encoder, str) else encoder
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._index: Index | None = None

    @property
    def mteb_model_meta(self) -> Any:
        return _mteb().models.ModelMeta.create_empty(
            {
                "name": f"vsplade/{self.encoder.name.replace('/', '_')}",
                "revision": self.encoder.fingerprint,
                "modalities": ["image", "text"],
                "model_type": ["sparse"],
                "languages": ["eng-Latn"],
                "license": "apache-2.0",
                "open_weights": True,
            }
        )

    def index(
        self,
        corpus: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any = None,
        hf_split: str = "",
        hf_subset: str = "",
        encode_kwargs: Any = None,
        num_proc: int | None = None,
    ) -> None:
        """Encode and keep a corpus; the one before it is forgotten."""
        self.close()
        self._folder = tempfile.TemporaryDirectory(prefix="vsplade-mteb-")
        with IndexWriter(self._folder.name, self.encoder) as writer:
            for page, vector in encode_keyed(self.encoder, self._pages(corpus)):
                writer.add(page, vector)
        self._index = Index.open(self._folder.name, self.encoder)

    def search(
        self,
        queries: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any = None,
        hf_split: str = "",
        hf_subset: str = "",
        top_k: int = 100,
        encode_kwargs: Any = None,
        top_ranked: Mapping[str, list[str]] | None = None,
        num_proc: int | None = None,
    ) -> Run:
        """Query id -> page id -> score; with ``top_ranked`` only of those pages."""
        if self._index is None:
            raise InputError("There is nothing to search yet: call index() with the corpus first.")
        run: Run = {}
        for row in queries:
            query = str(row["id"])
            allowed = None if top_ranked is None else set(top_ranked.get(query, ()))
            # Reranking asks for the scores of given pages, however deep they stand.
            depth = top_k if allowed is None else max(1, self._index.pages)
            vector = self._index.encode_query(str(row["text"]))
            (ranking,) = self._index.rank([vector], depth)
            found = zip(self._index.page_ids(ranking), ranking.scores.tolist(), strict=True)
            run[query] = {page: score for page, score in found if allowed is None or page in allowed}
        return run

    def close(self) -> None:
        """Remove the temporary index."""
        self._index = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _pages(self, corpus: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Page]]:
        edge = self.encoder.longest_edge
        for row in corpus:
            page, image = str(row["id"]), row.get("image")
            text = " ".join(str(row[part]) for part in ("title", "text") if row.get(part)) or None
            if image is None and edge:
                raise InputError(
                    f"Page {page!r} of the task has no picture, and {self.encoder.name!r} reads pictures. "
                    "Use VspladeSearch('text') for tasks on texts."
                )
            pixels = fit(to_grey_or_rgb(image), edge) if image is not None and edge else NO_PIXELS
            yield page, Page(id=page, image=pixels, path=page, text=text)


def mteb_run(
    dataset: Dataset,
    model: Any,
    k: int = 100,
    first_stage: Mapping[str, Mapping[str, float]] | None = None,
    depth: int = 100,
    batch_size: int = 8,
) -> Run:
    """A data set's judged queries by a model of mteb's registry (a name, or a loaded model).

    With ``first_stage`` only the ``depth`` best pages of that run are scored: reranking.
    """
    mteb = _mteb()
    if dataset.image_ids is None or not dataset.files:
        raise InputError(f"{dataset.path} has no images/: mteb's models are given pictures.")
    search = _searcher(mteb.get_model(model) if isinstance(model, str) else model)
    common = {
        "task_metadata": _task(mteb),
        "hf_split": "test",
        "hf_subset": "default",
        "encode_kwargs": {"batch_size": batch_size},
        "num_proc": None,
    }
    top_ranked = None
    if first_stage is not None:
        top_ranked = {q: [page for page, _ in ranked(pages)[:depth]] for q, pages in first_stage.items()}
    search.index(_corpus(dataset), **common)
    found = search.search(_queries(dataset), top_k=k, top_ranked=top_ranked, **common)
    return {str(q): {str(page): float(s) for page, s in pages.items()} for q, pages in found.items()}


def _corpus(dataset: Dataset) -> Any:
    datasets = _datasets()
    rows = {"id": [file.stem for file in dataset.files], "image": [str(file) for file in dataset.files]}
    return datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image())


def _queries(dataset: Dataset) -> Any:
    rows = [{"id": query, "text": dataset.queries[query]} for query in dataset.judged]
    return _datasets().Dataset.from_list(rows)


def _searcher(model: Any) -> Any:
    """Models that only encode are searched by mteb's own wrapper."""
    from mteb.models import SearchEncoderWrapper

    return model if hasattr(model, "index") else SearchEncoderWrapper(model)


def _task(mteb: Any) -> Any:
    """What mteb's models are told about the task: pictures of pages, asked for in words."""
    return mteb.get_task("Vidore2BioMedicalLecturesRetrieval").metadata


def _mteb() -> Any:
    try:
        import mteb
    except ImportError as error:
        raise MissingExtraError("mteb", "mteb") from error
    return mteb


def _datasets() -> Any:
    import datasets  # comes with mteb

    return datasets


@dataclass(frozen=True)
class MtebModelOptions:
    dataset: str = option("A folder, or a benchmark's name (visrag:mpdocvqa).", argument=True)
    model: str = option("A name in mteb's registry.", argument=True)
    data: Path | None = option("Where copies of the hub's data sets lie, as OWNER/NAME.", None)
    run: Path | None = option("Write the results as a TREC run.", None)
    first_stage: Path | None = option("A TREC run: rerank its first 100 instead of searching.", None)


def judge_model(options: MtebModelOptions) -> dict[str, Any]:
    """Judge a model of mteb's registry on a data set."""
    dataset = open_dataset(options.dataset, options.data)
    first = read_run(options.first_stage, dataset.queries, dataset.image_ids) if options.first_stage else None
    run = mteb_run(dataset, options.model, first_stage=first)
    if options.run:
        write_run(options.run, run, tag=options.model.split("/")[-1])
    scores = rounded(measure(dataset.qrels, run))
    return {"dataset": options.dataset, "model": options.model, **scores}


if __name__ == "__main__":
    main(judge_model, MtebModelOptions)
