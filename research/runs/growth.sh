#!/bin/sh
# Recall as the corpus grows: each set's pages among those of all other sets, then among generated ones; dense beside it
# as far as there are dense vectors.
#   DATA=... OTHER_TEXTS="a.jsonl.gz b.jsonl.gz" SIZES="2000 20000 200000" research/runs/growth.sh
# The paper's own: one index of 18.7 million pages, of which smaller corpora are samples with all relevant pages.
#   DATA=... SETS=docmatix INDEX=big.vsplade SIZES="500000 1000000 5000000 18700000" ENCODER=naver/v-splade-quality research/runs/growth.sh
. "$(dirname "$0")/common.sh"
if [ -n "${INDEX:-}" ]; then
    for set in $SETS; do
        # shellcheck disable=SC2086
        keep "$OUT/growth.$set.json" experiment growth "$DATA/$set" --encoder "$ENCODER" --index "$INDEX" $(each --sizes ${SIZES:-})
    done
    exit
fi
for set in $SETS; do vectors "$set" > /dev/null; done
for set in $SETS; do
    others="" dense=$(embeddings "$set")
    for other in $SETS; do
        [ "$other" != "$set" ] || continue
        others="$others $OUT/$other.npz"
        [ -z "$dense" ] || dense="$dense $(embeddings "$other")"
    done
    # shellcheck disable=SC2086
    keep "$OUT/growth.$set.json" experiment growth "$DATA/$set" --encoder "$ENCODER" --vectors "$OUT/$set.npz" $(each --others $others) \
        $(each --other-texts ${OTHER_TEXTS:-}) $(each --sizes ${SIZES:-}) $(each --embeddings $dense)
done
