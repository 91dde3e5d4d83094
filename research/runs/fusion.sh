#!/bin/sh
# Fusion with BM25 on texts (0.7 and 0.3), with a dense retriever (0.6 and 0.4), with both (0.5, 0.3, 0.2): the paper's weights.
# Then the best weights of each set, which are tuned on it and labelled so.
#   DATA=... research/runs/fusion.sh
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    pages=$(vectors "$set")
    text=$OUT/$set.bm25.run
    dense=${DENSE:-$OUT/$set.minilm.run}
    if [ -n "$(texts "$set")" ]; then
        vsplade eval "$DATA/$set" --texts "$(texts "$set")" --run "$text" --json > "$OUT/$set.bm25.json"
        [ -s "$dense" ] || "$PYTHON" -m research.experiments.dense "$DATA/$set" --texts "$(texts "$set")" --run "$dense"
    else
        vsplade eval "$DATA/$set" --encoder text --run "$text" --json > "$OUT/$set.bm25.json"
    fi
    judge() {
        # shellcheck disable=SC2086
        vsplade eval "$DATA/$set" $ENCODER_FLAGS --vectors "$pages" --json "$@" |
            "$PYTHON" -c 'import json, sys; d = json.load(sys.stdin); print(json.dumps({"dataset": d["dataset"], "system": d["encoder"], **d["fusion"]}))'
    }
    {
        judge --fuse-with "$text" --weights 0.7,0.3
        judge --fuse-with "$text" --fusion rrf
        judge --fuse-with "$text" --tune
        if [ -s "$dense" ]; then
            judge --fuse-with "$dense" --weights 0.6,0.4
            judge --fuse-with "$dense" --fuse-with "$text" --weights 0.5,0.3,0.2
        fi
    } | tee "$OUT/fusion.$set.jsonl"
done
