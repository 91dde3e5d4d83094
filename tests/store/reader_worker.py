"""Reads an index again and again while another process updates it, up to the commit it is told to await."""

from __future__ import annotations

import sys

from vsplade.search.index import Index

from . import crash_worker


def check(index: Index) -> int:
    commit = int(index.state().get("commit", 0))  # type: ignore[arg-type]
    wanted = crash_worker.contents(commit)
    found = {id: index.metadata(id)["commit"] for id in index.ids()}
    if found != wanted:
        raise SystemExit(f"a mixture at commit {commit}: {found} instead of {wanted}")
    query = crash_worker.vector("p1", 1)
    hits = index.search(query, 100)
    for hit in hits:
        written = wanted[hit.id]
        weights = dict(zip(*(part.tolist() for part in _parts(hit.id, written)), strict=True))
        for match in hit.explain():
            if weights[match.term] != match.page_weight:
                raise SystemExit(f"page {hit.id} at commit {commit} has a weight of another commit")
    return commit


def _parts(id: str, written: int):  # type: ignore[no-untyped-def]
    vector = crash_worker.vector(id, written)
    return vector.terms, vector.weights


def main(folder: str, last: int, reopen: bool) -> None:
    index = Index.open(folder)
    seen, looks = set(), 0
    while True:
        if reopen:
            index = Index.open(folder)
        else:
            index.refresh()
        commit = check(index)
        seen.add(commit)
        looks += 1
        if commit >= last:
            break
    print(len(seen), looks)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "reopen")
