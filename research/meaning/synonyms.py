"""Words and their synonyms, from the thesaurus of LibreOffice (Debian's mythes-en-us, made of WordNet).

python -m research.meaning.synonyms th_en_US_v2.dat WORK/synonyms.json.gz
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

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


if __name__ == "__main__":
    synonyms = read(Path(sys.argv[1]))
    with gzip.open(sys.argv[2], "wt", encoding="utf-8") as file:
        json.dump(synonyms, file)
    print(f"{len(synonyms):,} words")
