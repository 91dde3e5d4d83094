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
export CHARTS REPORT_PAGES
mkdir -p "$out"
PYTHONPATH=$(cd "$(dirname "$0")/../.." && pwd)${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH

"$PYTHON" - "$DATA/train" "$out" << 'PY'
"""Text pairs: questions with their answers, and questions with the table they are about."""
import gzip, json, random, sys
from pathlib import Path

data, out = Path(sys.argv[1]), Path(sys.argv[2])
if (out / "texts.jsonl.gz").is_file():
    sys.exit()
random.seed(0)
read = lambda name: [json.loads(line) for line in gzip.open(data / name, "rt", encoding="utf-8")]
answers = [{"query": row["query"], "text": row["text"][:2500]} for row in read("medquad.jsonl.gz")]
tables = {row["_id"]: " ".join(row["tsv"].split())[:3000] for row in read("wikitables.tables.jsonl.gz")}
asked, questions = {}, read("wikitables.queries.jsonl.gz")
random.shuffle(questions)
for row in questions:
    asked.setdefault(row["table"], []).append(row["query"])
about = [{"query": query, "text": tables[name]} for name, found in asked.items() for query in found[:3]]
random.shuffle(answers)
pairs = answers[:6000] + about
random.shuffle(pairs)
with gzip.open(out / "texts.jsonl.gz", "wt", encoding="utf-8") as file:
    file.writelines(json.dumps(pair) + "\n" for pair in pairs)
PY

"$PYTHON" - "$DATA/train/reports" "$out/reports" << 'PY'
"""Some pages of each report, with their text layer."""
import json, os, random, sys
from pathlib import Path

import pypdfium2

from vsplade.train.pdfs import pick_queries

source, out = Path(sys.argv[1]), Path(sys.argv[2])
if (out / "pairs.jsonl").is_file():
    sys.exit()
(out / "images").mkdir(parents=True, exist_ok=True)
rows = []
for pdf in sorted(source.glob("*.pdf")):
    document, kept = pypdfium2.PdfDocument(pdf), 0
    for number in random.Random(pdf.name).sample(range(len(document)), len(document)):
        page = document[number]
        text = page.get_textpage().get_text_range()
        queries = pick_queries(text, f"{pdf.stem}-{number}")
        if kept == int(os.environ["REPORT_PAGES"]):
            break
        if queries:
            kept += 1
            name = f"images/{pdf.stem}-{number:04d}.webp"
            picture = page.render(scale=1152 / max(page.get_size()), grayscale=True).to_pil().convert("L")
            picture.save(out / name, quality=40)
            rows += [{"image": name, "query": query, "caption": " ".join(text.split())} for query in queries]
(out / "pairs.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
PY

ocr=${OCR:-$out/ocr.jsonl}
if [ ! -s "$ocr" ] && command -v tesseract > /dev/null; then
    "$PYTHON" - "$DATA/train/charts" "$ocr" << 'PY'
import json, os, subprocess, sys, tempfile
from pathlib import Path

from PIL import Image

charts, out = Path(sys.argv[1]), Path(sys.argv[2])
rows = []
with tempfile.TemporaryDirectory() as folder:
    for path in sorted((charts / "images").iterdir())[: int(os.environ["CHARTS"])]:
        Image.open(path).convert("L").save(f"{folder}/chart.png")
        read = subprocess.run(["tesseract", f"{folder}/chart.png", "stdout", "--psm", "11"], capture_output=True, text=True)
        rows.append({"id": f"images/{path.name}", "caption": " ".join(read.stdout.split())})
out.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
PY
fi

read_by=""
[ ! -s "$ocr" ] || read_by="--ocr $ocr"
dev=""
for set in $DEV; do dev="$dev --dev $set"; done
# shellcheck disable=SC2086
"$PYTHON" -m research.paper.ablation "$DATA/train/charts" --pages "$CHARTS" $read_by --reports "$out/reports" --texts "$out/texts.jsonl.gz" \
    $dev --out "$out" "$@"
"$PYTHON" -m research.paper.curves "$out/ablation.json" --curves "$out/curves.png" | tee "$out/table.md"
