#!/bin/sh
# Token cases: the heaviest terms of query, page and caption side by side, with the page's picture.
#   DATA=... research/runs/cases.sh
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    experiment cases "$DATA/$set" --encoder "$ENCODER" --vectors "$(vectors "$set")" --texts "$(texts "$set")" > "$OUT/cases.$set.part"
    mv "$OUT/cases.$set.part" "$OUT/cases.$set.json"
done
