#!/bin/sh
# The ablation of the paper on the shipped reader's features (docs/paper-model.md): a GPU and a few minutes.
#
#   DATA=... research/runs/paper_ablation.sh OUT [OPTION...]        options are those of `python -m research.paper.ablation`
#
#   PYTHON    the interpreter that has vsplade[train,eval] installed                        (default: python)
#   DATA      train/charts (pairs.jsonl.gz, images/), train/medquad.jsonl.gz, train/wikitables.*.jsonl.gz,
#             train/reports/*.pdf, and the data sets dev/mpdocvqa and dev/slidevqa
#   OCR       texts of the charts, JSON lines {"id": "images/NAME.webp", "caption": TEXT}; without it, Tesseract
#             (where it is installed) reads the first CHARTS charts; that takes a quarter of an hour
#   CHARTS, REPORT_PAGES   charts to train on, and pages of each report                      (default: 3000, 20)
#   DEV       data sets to measure on                                                        (default: both above)
# Every row is trained with three seeds; the table has the best step beside the last. A trial without a GPU:
#   CHARTS=6 REPORT_PAGES=1 DEV=small research/runs/paper_ablation.sh OUT --steps 4 --batch 2 --seeds 1 --processes 0 --device cpu
set -eu
PYTHON=${PYTHON:-python}
: "${DATA:?set DATA to the folder with train/ and dev/}"
out=${1:?"usage: research/runs/paper_ablation.sh OUT [OPTION...]"}
shift
CHARTS=${CHARTS:-3000}
REPORT_PAGES=${REPORT_PAGES:-20}
DEV=${DEV:-$DATA/dev/mpdocvqa $DATA/dev/slidevqa}
mkdir -p "$out"
PYTHONPATH=$(cd "$(dirname "$0")/../.." && pwd)${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH

"$PYTHON" -m research.paper.ablation_inputs "$DATA/train" --out "$out" --report-pages "$REPORT_PAGES" \
    --charts "$([ -n "${OCR:-}" ] && echo 0 || echo "$CHARTS")"
ocr=${OCR:-$out/ocr.jsonl}
read_by=""
[ ! -s "$ocr" ] || read_by="--ocr $ocr"
dev=""
for set in $DEV; do dev="$dev --dev $set"; done
# shellcheck disable=SC2086
"$PYTHON" -m research.paper.ablation "$DATA/train/charts" --pages "$CHARTS" $read_by --reports "$out/reports" --texts "$out/texts.jsonl.gz" \
    $dev --out "$out" "$@"
"$PYTHON" -m research.paper.curves "$out/ablation.json" --curves "$out/curves.png" | tee "$out/table.md"
