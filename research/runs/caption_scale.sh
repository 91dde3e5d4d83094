#!/bin/sh
# Does the captioner's size matter? One training a file of captions, judged on the way, then its row of the main table.
#   PAGES=colpali_train_set TEXTS=rlhn CAPTIONS=captions DEV=visrag:mpdocvqa OUT=results research/runs/caption_scale.sh
# CAPTIONS holds a file a captioner, made by research.paper.captions: qwen3-vl-2b.jsonl, qwen3-vl-235b.jsonl, ...
# A captioner's training goes to OUT/training/NAME, where research.experiments.report finds its stop words. OPTIONS are
# added to every training (--device cpu --set steps=2 for a trial). On a small backbone: paper_ablation.sh, whose rows
# "gated by ..." differ in the captions only.
DATA=${DATA:-.}
SETS=""
. "$(dirname "$0")/common.sh"
: "${PAGES:?set PAGES to the ColPali train set}" "${CAPTIONS:?set CAPTIONS to a folder with captions}"
for captions in "$CAPTIONS"/*.jsonl; do
    name=$(basename "$captions" .jsonl)
    # shellcheck disable=SC2086
    "$PYTHON" -m research.paper.train --config efficient --pages "$PAGES" --captions "$captions" ${TEXTS:+--texts "$TEXTS"} \
        ${BACKBONE:+--backbone "$BACKBONE"} ${DEV:+--dev "$DEV"} --out "$OUT/training/$name" ${OPTIONS:-}
    [ -n "${NO_TABLE:-}" ] || ROW="captions-$name" ENCODER="$OUT/training/$name" "$(dirname "$0")/benchmark_table.sh"
done
