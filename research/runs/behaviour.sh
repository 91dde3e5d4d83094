#!/bin/sh
# Masking robustness, margin of the first hit, stop words, active terms; beside BM25 on the set's texts.
#   DATA=... research/runs/behaviour.sh
# The paper's rows: ENCODER=naver/v-splade-efficient.
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    flags=""
    [ -z "$(texts "$set")" ] || flags="--texts $(texts "$set")"
    # shellcheck disable=SC2086
    keep "$OUT/behaviour.$set.json" experiment behaviour "$DATA/$set" --encoder "$ENCODER" --vectors "$(vectors "$set")" $flags
done
