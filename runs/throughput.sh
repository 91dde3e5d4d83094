#!/bin/sh
# Pages a second: the encoder and Tesseract on the same pages in the same run, then RapidOCR on as many (one thread).
#   DATA=... PAGES=40 runs/throughput.sh
# Captioning is not among them: a vision-language model's rate is its server's; a user who has one divides pages by its time.
. "$(dirname "$0")/common.sh"
programs=$(dirname "$0")/../benchmarks
for set in $SETS; do
    pages=$DATA/$set/images
    [ -d "$pages" ] || pages=$DATA/$set/pdfs
    # shellcheck disable=SC2086
    "$PYTHON" "$programs/reading.py" "$pages" $ENCODER_FLAGS --pages "${PAGES:-40}" --json > "$OUT/throughput.$set.json"
    cat "$OUT/throughput.$set.json"
    [ -d "$DATA/$set/images" ] || continue
    "$PYTHON" "$programs/ocr.py" "$DATA/$set" "$OUT/$set.rapidocr.jsonl.gz" --engine rapidocr --sample "${PAGES:-40}" |
        tee "$OUT/throughput.$set.rapidocr.json"
done
