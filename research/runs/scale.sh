#!/bin/sh
# Recall and latency, full and two-stage (50 terms), against flat and HNSW dense search at SIZES random rows.
#   DATA=... SIZES="100000" research/runs/scale.sh
# Sparse latency at such sizes, and other engines: python -m research.bench.search --pages 1000000 (docs/benchmarks.md).
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    # shellcheck disable=SC2086
    keep "$OUT/scale.$set.json" experiment scale "$DATA/$set" $ENCODER_FLAGS --vectors "$(vectors "$set")" ${SIZES:+--sizes $SIZES}
    SIZES=""
done
