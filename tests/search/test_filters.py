"""Filters: every way to write one, what it lets through, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from vsplade.errors import InputError
from vsplade.search.filters import Condition, Filter
from vsplade.search.index import Index
from vsplade.store.identity import EncoderIdentity
from vsplade.store.writer import IndexWriter
from vsplade.types import Json, SparseVector


def passes(given: object, metadata: dict[str, Json]) -> bool:
    return all(one.allows(metadata.get(one.key)) for one in Filter.of(given).conditions)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "yes", "no"),
    [
        ({"lang": "en"}, [{"lang": "en"}], [{"lang": "EN"}, {"lang": "english"}, {}, {"lang": None}]),
        ({"n": 1}, [{"n": 1}, {"n": 1.0}], [{"n": True}, {"n": "1"}, {}]),
        ({"flag": True}, [{"flag": True}], [{"flag": 1}, {"flag": "true"}]),
        ({"n": {"ne": 1}}, [{"n": 2}, {}], [{"n": 1}]),
        ({"n": [1, "x"]}, [{"n": 1}, {"n": "x"}], [{"n": 2}, {}]),
        ({"n": {"in": []}}, [], [{"n": 1}, {}]),
        (
            {"n": {"gte": 2, "lt": 4}},
            [{"n": 2}, {"n": 3.9}],
            [{"n": 4}, {"n": 1}, {"n": "3"}, {"n": True}, {}],
        ),
        ({"d": {"gt": "2020-01", "lte": "2020-12"}}, [{"d": "2020-05"}], [{"d": "2020-01"}, {"d": 2020}]),
        ({"path": {"prefix": "a/"}}, [{"path": "a/b"}], [{"path": "b/a/"}, {"path": 1}, {}]),
        ("lang=en", [{"lang": "en"}], [{"lang": "de"}]),
        ("lang=en,de", [{"lang": "de"}], [{"lang": "fr"}]),
        ("n=3", [{"n": 3}, {"n": "3"}], [{"n": 4}]),
        ("flag=true", [{"flag": True}, {"flag": "true"}], [{"flag": False}, {"flag": 1}]),
        ("n=2..4", [{"n": 2}, {"n": 4}], [{"n": 5}, {"n": 1}]),
        ("n=2..", [{"n": 99}], [{"n": 1}]),
        ("n=..4", [{"n": -1}], [{"n": 5}]),
        ("n>=2", [{"n": 2}], [{"n": 1}]),
        ("n>2", [{"n": 2.5}], [{"n": 2}]),
        ("n<=2", [{"n": 2}], [{"n": 3}]),
        ("n<2", [{"n": 1}], [{"n": 2}]),
        ("lang!=en", [{"lang": "de"}, {}], [{"lang": "en"}]),
        ("path^=a/b=", [{"path": "a/b=c"}], [{"path": "a/b"}]),
        (["n>1", "lang=en"], [{"n": 2, "lang": "en"}], [{"n": 2}, {"n": 1, "lang": "en"}]),
        (None, [{}, {"n": 1}], []),
    ],
)
def test_what_passes(given: object, yes: list[dict[str, Json]], no: list[dict[str, Json]]) -> None:
    assert all(passes(given, metadata) for metadata in yes)
    assert not any(passes(given, metadata) for metadata in no)


def test_a_filter_stays_a_filter() -> None:
    one = Filter((Condition("n", "eq", 1),))
    assert Filter.of(one) is one
    assert not Filter.of({})
    assert hash(Filter.of({"n": [1, 2]})) == hash(Filter.of({"n": (1, 2)}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": {"about": 1}}, "unknown operator 'about'; use one of eq, ne, in"),
        ({"n": {"in": "abc"}}, "`in` needs a list"),
        ({"n": {"prefix": 1}}, "`prefix` needs a text"),
        ({"n": {"gt": [1]}}, "is not a text, a number"),
        ({"n": object()}, "is not a text, a number"),
        ("lang", "write key=value"),
        ("=en", "write key=value"),
    ],
)
def test_what_is_refused(given: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Filter.of(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_true_is_not_one_also_in_the_cache(tmp_path: Path, engine: str) -> None:
    """In Python True == 1: masks are kept by filter, and one must not be given for the other."""
    vector = SparseVector.from_dict({1: 1.0})
    with IndexWriter(tmp_path, EncoderIdentity("test", "1", 5)) as writer:
        for id, value in (("flag", True), ("number", 1), ("half", 0.5)):
            writer.add(id, vector, {"n": value})
    index = Index.open(tmp_path, engine=engine)
    for given, wanted in ((1, "number"), (True, "flag"), (1.0, "number"), ([1], "number"), ([True], "flag")):
        assert [hit.id for hit in index.search(vector, filter={"n": given})] == [wanted]
    assert Filter.of({"n": 1}) != Filter.of({"n": True})
    assert Filter.of({"n": 1}) == Filter.of({"n": 1})


@pytest.mark.parametrize(
    ("typed", "yes", "no"),
    [
        ("path=docs/a.pdf", ["docs/a.pdf"], ["docs/b.pdf", "a.pdf"]),
        ("path={here}/docs/a.pdf", ["docs/a.pdf"], ["docs/b.pdf"]),
        ("path=./docs/../docs/a.pdf", ["docs/a.pdf"], ["docs/b.pdf"]),
        ("path=docs/a.pdf,docs/b.pdf", ["docs/a.pdf", "docs/b.pdf"], ["docs/c.pdf"]),
        ("path=docs/a, b..c.pdf", ["docs/a, b..c.pdf"], ["docs/b"]),
        ("path!=docs/a.pdf", ["docs/b.pdf"], ["docs/a.pdf"]),
        ("path^=docs/", ["docs/a.pdf"], ["docs2/a.pdf"]),
        ("path^=docs", ["docs/a.pdf", "docs2/a.pdf"], ["other/docs"]),
        ("path^={here}/docs/", ["docs/a.pdf"], ["docs2/a.pdf"]),
    ],
)
def test_paths_are_taken_as_results_print_them(
    typed: str, yes: list[str], no: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index holds absolute paths; a result shows those below the current folder without it."""
    monkeypatch.chdir(tmp_path)
    given = typed.format(here=tmp_path)
    assert all(passes(given, {"path": str(tmp_path / name)}) for name in yes)
    assert not any(passes(given, {"path": str(tmp_path / name)}) for name in no)


def test_paths_that_are_stored_relative_still_match() -> None:
    assert passes("path=docs/a.pdf", {"path": "docs/a.pdf"})
    assert passes("path^=docs/", {"path": "docs/a.pdf"})
