#!/bin/sh
# Rerank the first 100 with a late-interaction model; without MODEL only the first stage's ceiling is reported.
#   DATA=... MODEL=ModernVBERT/colmodernvbert-merged research/runs/reranking.sh
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    # shellcheck disable=SC2086
    vsplade eval "$DATA/$set" $ENCODER_FLAGS --vectors "$(vectors "$set")" ${MODEL:+--rerank $MODEL} --json |
        "$PYTHON" -c 'import json, sys
d = json.load(sys.stdin)
row = {"dataset": d["dataset"], "system": d["encoder"], "recall@5": d["recall@5"], "ndcg@5": d["ndcg@5"]}
row["recall ceiling at 100"] = d.get("reranking", {}).get("recall_ceiling", d["recall@100"])
print(json.dumps(row))' | tee "$OUT/reranking.$set.json"
done
