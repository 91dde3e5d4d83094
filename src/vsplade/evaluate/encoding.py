"""Pages of a data set's files, through the one renderer, to vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

from vsplade.encode.keyed import encode_keyed
from vsplade.errors import PageError
from vsplade.evaluate.dataset import Dataset
from vsplade.pages import FileProblem, SourceFile, render_for
from vsplade.types import Encoder, Page, SparseVector, TermStatistics


def encode_files(
    dataset: Dataset,
    encoder: Encoder,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[str, SparseVector]]:
    """(page id, vector) for every page, in order.

    A page that cannot be read stops the evaluation: leaving it out would change the score silently.
    ``progress`` is called with (files done, files in all).
    """
    if not dataset.files:
        raise PageError(f"{dataset.path} has neither images/ nor pdfs/: give page texts or page vectors.")
    sources = [SourceFile(str(file.resolve()), file.stem) for file in dataset.files]

    def pages() -> Iterator[tuple[str, Page]]:
        done = 0
        # A generator abandoned on an error must not leave worker processes behind.
        with closing(render_for(encoder, sources, workers=workers)) as results:
            for result in results:
                if isinstance(result, FileProblem):
                    where = result.path if result.page is None else f"{result.path}, page {result.page}"
                    raise PageError(
                        f"{where}: {result.reason}. Repair or replace the file, then evaluate again."
                    )
                yield result.page.id, result.page
                if result.page.number == result.pages:
                    done += 1
                    if progress is not None:
                        progress(done, len(sources))

    yield from encode_keyed(encoder, pages())


Weigh = Callable[[str, TermStatistics | None], SparseVector]


class WithQueries:
    """An encoder that weighs queries in another way."""

    def __init__(self, encoder: Encoder, weigh: Weigh) -> None:
        self._encoder, self._weigh = encoder, weigh
        self.name, self.fingerprint = encoder.name, encoder.fingerprint
        self.vocabulary, self.longest_edge = encoder.vocabulary, encoder.longest_edge
        self.reads_grey, self.on_gpu = encoder.reads_grey, encoder.on_gpu
        self.latin_only = encoder.latin_only

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        return self._encoder.encode_pages(pages)

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        return self._weigh(text, statistics)
