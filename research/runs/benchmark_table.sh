#!/bin/sh
# The paper's main table: every subset of the six public benchmarks, for ENCODER or for a system of mteb's registry, then
# its row: the average of each benchmark in the paper's columns.
#   ENCODER=naver/v-splade-quality research/runs/benchmark_table.sh
#   MTEB=ModernVBERT/bimodernvbert research/runs/benchmark_table.sh      (names: research.experiments.paper)
# BENCHMARKS=DIR holds copies of the data sets as OWNER/NAME; without it they are fetched from the hub. NAMES="visrag:slidevqa
# vidore-v2:esg" runs some of them only. What has a result in OUT already is not run again.
DATA=${DATA:-.}
SETS=""
. "$(dirname "$0")/common.sh"
system=${MTEB:-${ENCODER:-default}}
folder=$OUT/table/$(echo "$system" | tr / _)
mkdir -p "$folder"
names=$("$PYTHON" -c 'from vsplade.evaluate.benchmarks import BENCHMARKS
print(*(f"{group}:{name}" for group, names in BENCHMARKS.items() for name in names), sep="\n")')
for name in ${NAMES:-$names}; do
    out=$folder/$(echo "$name" | tr : .)
    [ ! -s "$out.json" ] || continue
    # Not through a pipe: a benchmark that fails must stop the table, and leave no result behind.
    if [ -n "${MTEB:-}" ]; then
        "$PYTHON" -m research.experiments.mteb_model "$name" "$MTEB" --run "$out.run" ${BENCHMARKS:+--data "$BENCHMARKS"} > "$out.part"
    else
        # shellcheck disable=SC2086
        vsplade eval "$name" $ENCODER_FLAGS ${BENCHMARKS:+--data "$BENCHMARKS"} --keep-vectors "$out.npz" --run "$out.run" --json > "$out.part"
    fi
    mv "$out.part" "$out.json"
done
"$PYTHON" -m research.experiments.paper "$folder" --name "$system" | tee "$folder/row.md"
