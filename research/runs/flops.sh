#!/bin/sh
# Operations to answer a query and score 1,000 pages: sparse, dense, late interaction. The formula for query encoders is checked
# against fvcore by research/tests/experiments/test_experiments.py.
#   DATA=... research/runs/flops.sh
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    keep "$OUT/flops.$set.json" experiment flops "$DATA/$set" --encoder "$ENCODER" --vectors "$(vectors "$set")"
done
