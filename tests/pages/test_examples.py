"""The sample files are what their README says."""

from __future__ import annotations

from pathlib import Path

import pytest

from vsplade.pages import RenderedPage, name_files, render

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "pages", "landscape", "words"),
    [
        ("report", 3, False, "Maintenance of the turbine"),
        ("slides", 4, True, "Saturn with its rings"),
        ("paper", 1, False, "rye sourdough"),
        ("table", 1, False, "Gannet Island"),
        ("scan", 1, False, None),
    ],
)
def test_sample(name: str, pages: int, landscape: bool, words: str | None) -> None:
    results = list(render(name_files([str(EXAMPLES / f"{name}.pdf")]), 300, workers=1))
    rendered = [result for result in results if isinstance(result, RenderedPage)]
    assert len(rendered) == len(results) == pages
    for result in rendered:
        width, height = result.page.image.size
        assert (width > height) == landscape
        assert len(set(result.page.image.resize((40, 40)).convert("L").tobytes())) > 3, "something is drawn"
    text = "\n".join(result.page.text or "" for result in rendered)
    if words is None:
        assert text == ""
    else:
        assert words in text.replace("\n", " ")


def test_samples_are_small() -> None:
    assert sum(path.stat().st_size for path in EXAMPLES.glob("*.pdf")) < 1_000_000
