"""The progress of a job: the pages in all and the time left hold early, also for mixed files."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pages.encoder import WordEncoder
from pages.samples import drawing, write_pdf
from vsplade.ingest import index_paths, job, progress
from vsplade.ingest.progress import Estimate
from vsplade.pages import Limits, PageCounter

PICTURE_SECONDS, PDF_PAGE_SECONDS = 0.05, 0.08


def simulate(
    order: str, seed: int, counted_per_s: float, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[float, ...]]:
    """A job with a made-up clock: (share done, pages expected over true, time left over true) a page."""
    rng = random.Random(seed)
    files = [(f"{number}.png", 1, rng.randint(20_000, 4_000_000)) for number in range(300)]
    for number in range(60):
        pages = min(400, max(1, round(rng.lognormvariate(2, 1.3))))
        files.append((f"{number}.pdf", pages, pages * rng.randint(3_000, 600_000)))
    if order == "mixed":
        rng.shuffle(files)
    elif order == "pdfs first":
        files.reverse()
    sizes, pages_of = {path: size for path, _, size in files}, {path: pages for path, pages, _ in files}
    monkeypatch.setattr(progress, "_size", sizes.__getitem__)
    told: list[tuple[int, int]] = []
    estimate = Estimate(lambda done, expected: told.append((done, expected)))
    to_count = estimate.begin([path for path, _, _ in files], {})
    total = sum(pages_of.values())
    cost = {".png": PICTURE_SECONDS, ".pdf": PDF_PAGE_SECONDS}
    whole = sum(pages * cost[path[-4:]] for path, pages in pages_of.items())
    now, counted, seen = 0.0, 0, []
    for path, pages, _ in files:
        for _ in range(pages):
            now += cost[path[-4:]]
            while counted < min(len(to_count), now * counted_per_s):
                estimate.count(to_count[counted], pages_of[to_count[counted]])
                counted += 1
            estimate.done(path, pages)
            done, expected = told[-1]
            left = (expected - done) * now / done
            seen.append((done / total, expected / total, left / max(whole - now, 1e-9)))
    assert told[-1] == (total, total)
    return seen


@pytest.mark.parametrize("order", ["mixed", "pictures first", "pdfs first"])
@pytest.mark.parametrize("seed", range(5))
def test_total_and_time_left_hold_after_the_first_tenth(
    order: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for share, expected, left in simulate(order, seed, 50, monkeypatch):
        if 0.1 <= share < 0.99:
            assert 0.5 <= expected <= 2, share
            assert 0.5 <= left <= 2, share


def test_pages_are_counted_by_the_counter(tmp_path: Path) -> None:
    files = [write_pdf(tmp_path / f"{pages}.pdf", *["x"] * pages) for pages in (3, 1, 7)]
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 and no more")
    found: dict[str, int] = {}
    counter = PageCounter(
        [str(files[0]), str(tmp_path / "broken.pdf"), *map(str, files[1:])], Limits(), found.__setitem__
    )
    counter._threads[0].join(60)
    counter.close()
    assert {Path(path).name: pages for path, pages in found.items()} == {"3.pdf": 3, "1.pdf": 1, "7.pdf": 7}


def test_a_job_knows_its_pages_before_it_opens_the_last_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty pictures, then PDFs of a hundred pages: by bytes, the PDFs would count next to nothing."""

    class AtOnce(PageCounter):
        def __init__(self, paths: Sequence[str], limits: Limits, tell: Callable[[str, int], None]) -> None:
            super().__init__(paths, limits, tell)
            self._threads[0].join(60)

    monkeypatch.setattr(job, "PageCounter", AtOnce)
    for number in range(30):
        drawing((8, 8)).save(tmp_path / f"a{number:03}.png")
    for number in range(2):
        write_pdf(tmp_path / f"z{number}.pdf", *["x"] * 100)
    told: list[tuple[int, int]] = []
    encoder = WordEncoder()
    index_paths([tmp_path], tmp_path / "i", encoder, workers=1, progress=lambda *pair: told.append(pair))
    assert {whole for _, whole in told} == {230}
    again: list[tuple[int, int]] = []
    index_paths([tmp_path], tmp_path / "i", encoder, workers=1, progress=lambda *pair: again.append(pair))
    assert again == [(0, 0)]
