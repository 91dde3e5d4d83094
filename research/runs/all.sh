#!/bin/sh
# Every table and figure of the paper that can be made of DATA, then one page with all of them: OUT/report.html.
#   DATA=sets OUT=results research/runs/all.sh
#   DATA=sets OUT=results ENCODER=naver/v-splade-quality DENSE=... MODEL=ModernVBERT/colmodernvbert-merged research/runs/all.sh
# Sets need texts (texts.jsonl.gz) for captions, BM25 and the dense rows. What is trained has data of its own:
#   ABLATION=data       the ablation and the stop words over training: the folder that paper_ablation.sh calls DATA, with
#                       ABLATION_DEV (its DEV) and ABLATION_OPTIONS
#   TRAIN=colpali_train_set CAPTIONERS=captions    the scale of the captioner, with the settings of caption_scale.sh
# SKIP="throughput" leaves scripts out. A script that fails is named at the end; the others run all the same.
. "$(dirname "$0")/common.sh"
export DATA OUT SETS PYTHON ENCODER
here=$(dirname "$0")
failed=""
attempt() { # NAME COMMAND...
    name=$1
    shift
    case " ${SKIP:-} " in *" $name "*) return ;; esac
    echo "== $name" >&2
    "$@" > "$OUT/$name.log" 2>&1 || { failed="$failed $name"; tail -n 3 "$OUT/$name.log" >&2; }
}
for script in grounding flops throughput scale subsets growth fusion reranking union cases behaviour; do
    attempt "$script" "$here/$script.sh"
done
mkdir -p "$OUT/texts"
for set in $SETS; do
    [ -z "$(texts "$set")" ] || as_jsonl_gz "$(texts "$set")" > "$OUT/texts/$set.jsonl.gz"
done
# The table reads the pages once more only where an encoder's row has no result yet.
attempt table env ROW=ours "$here/benchmark_table.sh"
attempt table-bm25 env ROW=bm25 TEXTS="$OUT/texts" "$here/benchmark_table.sh"
attempt table-dense env ROW=dense TEXTS="$OUT/texts" MODEL="${TEXT_MODEL:-minilm}" "$here/benchmark_table.sh"
attempt table-two env ROW=ours+dense FUSE="ours dense" WEIGHTS="0.6 0.4" "$here/benchmark_table.sh"
attempt table-text env ROW=ours+bm25 FUSE="ours bm25" WEIGHTS="0.7 0.3" "$here/benchmark_table.sh"
attempt table-three env ROW=ours+dense+bm25 FUSE="ours dense bm25" WEIGHTS="0.5 0.3 0.2" "$here/benchmark_table.sh"
# shellcheck disable=SC2086
[ -z "${ABLATION:-}" ] ||
    attempt ablation env DATA="$ABLATION" DEV="${ABLATION_DEV:-}" "$here/paper_ablation.sh" "$OUT/ablation" ${ABLATION_OPTIONS:-}
[ -z "${TRAIN:-}" ] || attempt caption_scale "$here/caption_scale.sh"
"$PYTHON" -m research.experiments.report "$OUT" --out "$OUT/report.html"
[ -z "$failed" ] || { echo "failed:$failed (their output is in $OUT/NAME.log)" >&2; exit 1; }
