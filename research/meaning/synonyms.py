"""Words and their synonyms, from the thesaurus of LibreOffice (Debian's mythes-en-us, made of WordNet).

python -m research.meaning.synonyms WORK
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

from research.command import main
from research.meaning.collect.packages import Places
from research.meaning.options import SynonymsOptions

_REMARK = re.compile(r"\s*\([^)]*\)")


def read(path: Path) -> dict[str, list[str]]:
    """Each entry is `word|meanings` and then a line a meaning: `(noun)|word|word (generic term)|...`"""
    lines = iter(path.read_text("utf-8", errors="replace").splitlines()[1:])
    found: dict[str, list[str]] = {}
    for line in lines:
        word, _, count = line.partition("|")
        words: dict[str, None] = {}
        for _ in range(int(count)):
            for other in next(lines).split("|")[1:]:
                if "antonym" not in other and (plain := _REMARK.sub("", other).strip()) and plain != word:
                    words[plain] = None
        if words and " " not in word:
            found[word] = list(words)[:12]
    return found


def synonyms(options: SynonymsOptions) -> dict[str, Any]:
    """Write WORK/synonyms.json.gz from the thesaurus that `collect` unpacked."""
    found = read(Places(options.work, options.work / "data").thesaurus)
    with gzip.open(options.work / "synonyms.json.gz", "wt", encoding="utf-8") as file:
        json.dump(found, file)
    return {"words": len(found)}


if __name__ == "__main__":
    main(synonyms, SynonymsOptions)
