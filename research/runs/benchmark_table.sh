#!/bin/sh
# The paper's main table, one row a call, over every subset of the six public benchmarks; or with DATA over its SETS.
#   ENCODER=naver/v-splade-quality research/runs/benchmark_table.sh
#   MTEB=ModernVBERT/bimodernvbert research/runs/benchmark_table.sh             (names: research.experiments.paper)
#   ROW=bm25-ocr TEXTS=ocr research/runs/benchmark_table.sh                     (BM25 over texts: ocr/NAME.jsonl.gz)
#   ROW=bge-m3-ocr TEXTS=ocr MODEL=BAAI/bge-m3 research/runs/benchmark_table.sh (a sentence model over the same texts)
#   ROW=d2s OUTPUTS=d2s research/runs/benchmark_table.sh      (what ColFlor, D2S or JSDO-Sparse put out: research.experiments.outputs)
#   ROW=three FUSE="ours vbert bm25-ocr" WEIGHTS="0.5 0.3 0.2" research/runs/benchmark_table.sh   (rows that are there)
# NAME is visrag.slidevqa and the like, or the set's. Texts by OCR: research.bench.ocr (unstructured, Tesseract, RapidOCR); by a
# vision-language model: research.paper.captions. BENCHMARKS=DIR holds copies of the data sets as OWNER/NAME; without it they are
# fetched from the hub. NAMES="visrag:slidevqa vidore-v2:esg" runs some of them only. What has a result is not run again.
own=${DATA:-}
DATA=${DATA:-.}
[ -n "$own" ] || SETS="none"
MANY_ENCODERS=1
. "$(dirname "$0")/common.sh"
row=${ROW:-${MTEB:-$ENCODER}}
folder=$OUT/table/$(echo "$row" | tr / _)
mkdir -p "$folder"
if [ -n "$own" ]; then
    names=$(for set in $SETS; do echo "$DATA/$set"; done)
else
    names=$("$PYTHON" -c 'from research.experiments.benchmarks import BENCHMARKS
print(*(f"{group}:{name}" for group, names in BENCHMARKS.items() for name in names), sep="\n")')
fi

# as_folder SET: a benchmark as the folder that vsplade eval takes
# shellcheck disable=SC2086
as_folder() { "$PYTHON" -m research.experiments.hub "$1" ${BENCHMARKS:+--data $BENCHMARKS}; }

# judge SET NAME OUT: one cell, as JSON
judge() {
    data=${BENCHMARKS:+--data $BENCHMARKS}
    # shellcheck disable=SC2086
    if [ -n "${FUSE:-}" ]; then
        runs=""
        for one in $FUSE; do runs="$runs --run $OUT/table/$one/$2.run"; done
        "$PYTHON" -m research.experiments.fusing "$1" $data $runs $(each --weights ${WEIGHTS:?give WEIGHTS, one a run}) \
            --to "$3.run" --json
    elif [ -n "${OUTPUTS:-}" ]; then
        if [ -s "$OUTPUTS/$2.run" ]; then given="--from-run $OUTPUTS/$2.run"
        elif [ -s "$OUTPUTS/$2.pages.npz" ]; then given="--pages $OUTPUTS/$2.pages.npz --queries $OUTPUTS/$2.queries.npz"
        else given="--pages $OUTPUTS/$2.pages.jsonl --queries $OUTPUTS/$2.queries.jsonl"; fi
        "$PYTHON" -m research.experiments.outputs "$1" $data $given --run "$3.run" --json
    elif [ -n "${TEXTS:-}" ] && [ -n "${MODEL:-}" ]; then
        "$PYTHON" -m research.experiments.dense "$1" $data --texts "$TEXTS/$2.jsonl.gz" --model "$MODEL" --run "$3.run" --json
    elif [ -n "${TEXTS:-}" ]; then
        vsplade eval "$(as_folder "$1")" --texts "$TEXTS/$2.jsonl.gz" --run "$3.run" --json
    elif [ -n "${MTEB:-}" ]; then
        "$PYTHON" -m research.experiments.mteb_model "$1" "$MTEB" $data --run "$3.run" --json
    elif [ -n "$own" ] && [ "$encoder_is" = "$(cat "$OUT/encoder")" ]; then
        vsplade eval "$(as_folder "$1")" --encoder "$ENCODER" --words-only --vectors "$(vectors "$2")" --run "$3.run" --json
    else
        vsplade eval "$(as_folder "$1")" --encoder "$ENCODER" --words-only --keep-vectors "$3.npz" --run "$3.run" --json
    fi
}

for name in ${NAMES:-$names}; do
    label=$(basename "$name" | tr : .)
    out=$folder/$label
    [ ! -s "$out.json" ] || continue
    # Not through a pipe: a benchmark that fails must stop the table, and leave no result behind.
    judge "$name" "$label" "$out" > "$out.part"
    mv "$out.part" "$out.json"
done
"$PYTHON" -m research.experiments.paper "$OUT/table" | tee "$OUT/table.md"
