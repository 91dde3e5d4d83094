#!/bin/sh
# Pages a second: the encoder and Tesseract on the same pages in the same run, then RapidOCR on as many (one thread).
#   DATA=... PAGES=40 research/runs/throughput.sh
#   DATA=... CORES=4 research/runs/throughput.sh        (the encoder and Tesseract on four processors)
# Captioning is not among them: a vision-language model's rate is its server's; a user who has one divides pages by its time.
. "$(dirname "$0")/common.sh"
for set in $SETS; do
    pages=$DATA/$set/images
    [ -d "$pages" ] || pages=$DATA/$set/pdfs
    # shellcheck disable=SC2086
    "$PYTHON" -m research.bench.reading "$pages" --encoder "$ENCODER" --pages "${PAGES:-40}" ${CORES:+--cores "$CORES"} --json > "$OUT/throughput.$set.json"
    cat "$OUT/throughput.$set.json"
    [ -d "$DATA/$set/images" ] || continue
    "$PYTHON" -m research.bench.ocr "$DATA/$set" "$OUT/$set.rapidocr.jsonl.gz" --engine rapidocr --sample "${PAGES:-40}" --json |
        tee "$OUT/throughput.$set.rapidocr.json"
done
