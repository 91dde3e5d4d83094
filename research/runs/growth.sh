#!/bin/sh
# Recall as the corpus grows: each set's pages among those of all other sets, then among generated ones.
#   DATA=... OTHER_TEXTS="a.jsonl.gz b.jsonl.gz" SIZES="2000 20000 200000" research/runs/growth.sh
# The paper's own: a corpus of PDFA pages and DocMatix questions (research/experiments/docmatix.py writes the set), ENCODER=naver/v-splade-quality.
. "$(dirname "$0")/common.sh"
for set in $SETS; do vectors "$set" > /dev/null; done
for set in $SETS; do
    others=""
    for other in $SETS; do [ "$other" = "$set" ] || others="$others $OUT/$other.npz"; done
    # shellcheck disable=SC2086
    keep "$OUT/growth.$set.json" experiment growth "$DATA/$set" $ENCODER_FLAGS --vectors "$OUT/$set.npz" --others $others \
        --other-texts ${OTHER_TEXTS:-} ${SIZES:+--sizes $SIZES}
done
