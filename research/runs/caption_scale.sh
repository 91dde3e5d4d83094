#!/bin/sh
# Does the captioner's size matter? One training a file of captions, judged on the way, then its row of the main table.
#   TRAIN=colpali_train_set RLHN=rlhn CAPTIONERS=captions DEV=visrag:mpdocvqa OUT=results research/runs/caption_scale.sh
# CAPTIONERS holds a file a captioner, made by research.paper.captions: qwen3-vl-2b.jsonl, qwen3-vl-235b.jsonl, ...
# A captioner's training goes to OUT/training/NAME, where research.experiments.report finds its stop words. OPTIONS are
# added to every training (--device cpu --set steps=2 for a trial). With DATA the rows are made over its SETS, as in
# benchmark_table.sh. On a small backbone: paper_ablation.sh, whose rows "gated by ..." differ in the captions only.
[ -n "${DATA:-}" ] || { DATA=. SETS=none; }
MANY_ENCODERS=1
. "$(dirname "$0")/common.sh"
: "${TRAIN:?set TRAIN to the ColPali train set}" "${CAPTIONERS:?set CAPTIONERS to a folder with captions}"
for captions in "$CAPTIONERS"/*.jsonl; do
    name=$(basename "$captions" .jsonl)
    if [ ! -e "$OUT/training/$name/model/model.safetensors" ]; then
        # shellcheck disable=SC2086
        "$PYTHON" -m research.paper.train --config efficient --pages "$TRAIN" --captions "$captions" ${RLHN:+--texts "$RLHN"} \
            ${BACKBONE:+--backbone "$BACKBONE"} ${DEV:+--dev "$DEV"} --out "$OUT/training/$name" ${OPTIONS:-}
    fi
    [ -n "${NO_TABLE:-}" ] || ROW="captions-$name" ENCODER="$OUT/training/$name/model" "$(dirname "$0")/benchmark_table.sh"
done
