#!/bin/sh
# Pages a second: the encoder, Tesseract and RapidOCR on the same pages.
#   DATA=... runs/throughput.sh
# The encoder is timed with rendering, on all processors; OCR in processor time, one thread.
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    # shellcheck disable=SC2086
    vsplade eval "$DATA/$set" $ENCODER_FLAGS --json | tee "$OUT/throughput.$set.json"
    for engine in tesseract rapidocr; do
        "$PYTHON" benchmarks/ocr.py "$DATA/$set" "$OUT/$set.$engine.jsonl.gz" --engine $engine --sample 50 || true
    done
done
