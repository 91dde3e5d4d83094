#!/bin/sh
# Union of the picture's and the caption's 30 heaviest terms: Hit@1.
#   DATA=... research/runs/union.sh
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    keep "$OUT/union.$set.json" experiment union "$DATA/$set" --encoder "$ENCODER" --vectors "$(vectors "$set")" --texts "$(texts "$set")"
done
