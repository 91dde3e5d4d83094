#!/bin/sh
# Lexical grounding (the paper's first table): do the heaviest terms of a page stand on it?
#   DATA=... research/runs/grounding.sh
# PDFs are judged by their own text layer, pictures by the set's texts, or by REFERENCE=FILE. The rows of captions and
# gate need captions.jsonl.gz in the data set, or CAPTIONS=FILE. The paper's row: ENCODER=naver/v-splade-quality.
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    flags=""
    [ -d "$DATA/$set/pdfs" ] || flags="--reference ${REFERENCE:-$(texts "$set")}"
    [ -z "$(captions "$set")" ] || flags="$flags --texts $(captions "$set")"
    # shellcheck disable=SC2086
    keep "$OUT/grounding.$set.json" experiment grounding "$DATA/$set" --encoder "$ENCODER" --vectors "$(vectors "$set")" $flags
done
