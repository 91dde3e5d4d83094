"""Questions about documents of many pages, as a data set: does a page profit from its document?

    python -m research.meaning.document_questions SET --pdfs DATA/reports [--pdfs MANUALS] [--kind finance]
    vsplade eval SET --json

`document_questions.tsv` was written for this project: the kind of a question, the pages that answer it, and
its text. The PDFs are the training reports, and manuals of Debian's packages under the names that the page
ids begin with. Questions about PDFs that are not there are left out. Kinds:

    finance       names a company and asks for a detail of its report; many pages that answer do not name it
    long          means the document by its topic: "the installation guide", "the Kansas bank's report"
    plain-own     names no document, in words of the page
    plain-other   names no document, in other words

The constants of `vsplade.search.by_document` were chosen by these and by `questions.tsv`, with both halves in
sight.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from research.command import main
from research.experiments.hub import write_questions
from research.meaning.options import DocumentQuestionsOptions
from vsplade.errors import InputError

WRITTEN = Path(__file__).with_name("document_questions.tsv")


def document_questions(options: DocumentQuestionsOptions) -> dict[str, Any]:
    """Write the folder SET: links to the PDFs, queries.jsonl and qrels.tsv."""
    found = {path.stem: path.resolve() for folder in options.pdfs for path in sorted(folder.glob("*.pdf"))}
    rows = [line.split("\t") for line in WRITTEN.read_text("utf-8").splitlines()]
    asked = [
        (text, pages.split(","))
        for kind, pages, text in rows
        if (not options.kind or kind in options.kind) and _documents(pages) <= found.keys()
    ]
    if not asked:
        raise InputError(
            "None of the questions is about these PDFs. Name the folder with r00.pdf to r27.pdf."
        )
    pdfs = options.out / "pdfs"
    pdfs.mkdir(parents=True)
    for stem, path in found.items():
        (pdfs / f"{stem}.pdf").symlink_to(path)
    judged = [(f"q{number}", page, 1) for number, (_, pages) in enumerate(asked) for page in pages]
    write_questions(options.out, {f"q{number}": text for number, (text, _) in enumerate(asked)}, judged)
    return {"questions": len(asked), "left_out": len(rows) - len(asked), "pdfs": len(found)}


def _documents(pages: str) -> set[str]:
    return {page.rsplit("_", 1)[0] for page in pages.split(",")}


if __name__ == "__main__":
    main(document_questions, DocumentQuestionsOptions)
