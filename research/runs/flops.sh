#!/bin/sh
# Operations to answer a query and score 1,000 pages: sparse, dense, late interaction. The formula for query encoders is checked
# against fvcore by research/tests/experiments/test_experiments.py.
#   DATA=... research/runs/flops.sh
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    # shellcheck disable=SC2086
    keep "$OUT/flops.$set.json" experiment flops "$DATA/$set" $ENCODER_FLAGS --vectors "$(vectors "$set")"
done
