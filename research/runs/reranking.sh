#!/bin/sh
# The first 100 pages of the sparse and of the dense first stage, ordered anew by late interaction.
#   DATA=... research/runs/reranking.sh
#   DATA=... MODEL=ModernVBERT/colmodernvbert-merged DENSE=vbert.run research/runs/reranking.sh      (the paper's)
# MODEL=minilm (the default) compares MiniLM's token vectors over the set's texts; it needs no download.
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    flags=""
    [ -z "$(texts "$set")" ] || flags="--texts $(texts "$set")"
    # shellcheck disable=SC2086
    keep "$OUT/reranking.$set.json" experiment reranking "$DATA/$set" --model "${MODEL:-minilm}" \
        --run "sparse=$(sparse_run "$set")" --run "dense=${DENSE:-$(dense_run "$set")}" $flags
done
