#!/bin/sh
# Recall and latency: full search, both kinds of two-stage search (50 terms), flat and HNSW dense search over page
# embeddings, what encoding a query takes, on 1, 2, 4, ... threads (at most 20, and no more than there are).
#   DATA=... research/runs/scale.sh
#   DATA=... SIZES="100000" research/runs/scale.sh       (also faiss on so many random rows)
# The paper's own, 18.7 million pages: the index is written page by page by vsplade index, and searched as it is.
#   vsplade index PAGES --index big.vsplade --encoder naver/v-splade-quality
#   DATA=... SETS=docmatix INDEX=big.vsplade EMBEDDINGS=vbert.npz ENCODER=naver/v-splade-quality research/runs/scale.sh
# Sparse latency on made-up corpora, and other engines: research.bench.search, research.bench.two_stage_scale.
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    if [ -n "${INDEX:-}" ]; then source="--index $INDEX"; else source="--vectors $(vectors "$set")"; fi
    # shellcheck disable=SC2086
    keep "$OUT/scale.$set.json" experiment scale "$DATA/$set" --encoder "$ENCODER" $source $(each --threads ${THREADS:-}) \
        $(each --sizes ${SIZES:-}) $(each --embeddings ${EMBEDDINGS:-$(embeddings "$set")})
    SIZES=""
done
