#!/bin/sh
# The paper's main table: every subset of the six public benchmarks, for ENCODER and for a system of mteb's registry.
#   ENCODER=naver/v-splade-quality runs/benchmark_table.sh
#   MTEB=ModernVBERT/bimodernvbert runs/benchmark_table.sh      (names: vsplade.evaluate.paper)
# BENCHMARKS=DIR holds copies of the data sets as OWNER/NAME; without it they are fetched from the hub.
DATA=${DATA:-.}
. "$(dirname "$0")/common.sh"
names=$("$PYTHON" -c 'from vsplade.evaluate.benchmarks import BENCHMARKS
print(*(f"{group}:{name}" for group, names in BENCHMARKS.items() for name in names), sep="\n")')
for name in ${NAMES:-$names}; do
    out=$OUT/$(echo "$name" | tr : .).json
    if [ -n "${MTEB:-}" ]; then
        "$PYTHON" -m vsplade.evaluate.mteb_model "$name" "$MTEB" ${BENCHMARKS:+--data "$BENCHMARKS"} | tee "$out"
    else
        # shellcheck disable=SC2086
        vsplade eval "$name" $ENCODER_FLAGS ${BENCHMARKS:+--data "$BENCHMARKS"} --json | tee "$out"
    fi
done
