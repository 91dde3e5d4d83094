#!/bin/sh
# Lexical grounding (the paper's first table): do the heaviest terms of a page stand on it?
#   DATA=... research/runs/grounding.sh
# PDFs are judged by their own text layer. Pictures need REFERENCE=FILE, texts of what stands on the pages; captions then
# come from the data set. The paper's row: ENCODER=naver/v-splade-quality.
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    flags=""
    [ -d "$DATA/$set/pdfs" ] || flags="--reference ${REFERENCE:-$(texts "$set")}"
    [ -z "${CAPTIONS:-}" ] || flags="$flags --texts $CAPTIONS"
    # shellcheck disable=SC2086
    keep "$OUT/grounding.$set.json" experiment grounding "$DATA/$set" $ENCODER_FLAGS --vectors "$(vectors "$set")" $flags
done
