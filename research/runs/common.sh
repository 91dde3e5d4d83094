# Sourced by the experiments in this folder. What they run on, all of it replaceable:
#
#   PYTHON    the interpreter that has vsplade installed        (default: python)
#   DATA      a folder with data sets in our layout, one folder each
#   SETS      the data sets to run on                            (default: every folder of DATA)
#   ENCODER   the encoder                                        (default: the reader without meaning)
#   OUT       where page vectors, runs and results are kept      (default: results); it belongs to one encoder
#
# All is measured by words alone: the paper's model has nothing else. Page vectors are made once and kept in OUT. A data
# set may carry texts.jsonl.gz beside its queries: what OCR or a vision-language model read on each page. It is used
# where an experiment needs captions or text.
set -eu
PYTHON=${PYTHON:-python}
: "${DATA:?set DATA to a folder with data sets, one folder each}"
OUT=${OUT:-results}
SETS=${SETS:-$(ls "$DATA")}
ENCODER=${ENCODER:-reader:meaning=false}
mkdir -p "$OUT"

PYTHONPATH=$(cd "$(dirname "$0")/../.." && pwd)${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
vsplade() { "$PYTHON" -m vsplade "$@"; }
# each FLAG VALUE...: the flag before every value.
each() { flag=$1; shift; for value; do printf '%s %s ' "$flag" "$value"; done; }

experiment() { "$PYTHON" -m research.experiments "$@" --json; }

# What OUT keeps of one encoder's pages must never pass for another's. MANY_ENCODERS=1: the script keeps them apart itself.
encoder_is=$("$PYTHON" -c 'import sys
from vsplade.encode import load_encoder
encoder = load_encoder(sys.argv[1])
print(sys.argv[1], encoder.fingerprint)' "$ENCODER")
[ -s "$OUT/encoder" ] || echo "$encoder_is" > "$OUT/encoder"
if [ -z "${MANY_ENCODERS:-}" ] && [ "$encoder_is" != "$(cat "$OUT/encoder")" ]; then
    echo "$OUT holds results of another encoder ($(cat "$OUT/encoder")), not of $encoder_is: give another OUT." >&2
    exit 2
fi

# keep FILE COMMAND...: what it prints, on the screen and in FILE; a failure ends the script and leaves no FILE.
keep() {
    kept=$1
    shift
    "$@" > "$kept.partial" || { rm -f "$kept.partial"; exit 1; }
    mv "$kept.partial" "$kept"
    cat "$kept"
}

# vectors SET: the file with its page vectors, made if it is missing; the evaluation itself is kept too.
vectors() {
    if [ ! -s "$OUT/$1.npz" ]; then
        vsplade eval "$DATA/$1" --encoder "$ENCODER" --words-only --keep-vectors "$OUT/$1.npz" --run "$OUT/$1.run" \
            --json > "$OUT/$1.json"
    fi
    echo "$OUT/$1.npz"
}

# texts SET, captions SET: its texts (captions or OCR), and its captions where they are kept apart; nothing without.
texts() { first_of "$1" texts.jsonl.gz texts.jsonl vlm_text.jsonl.gz; }
captions() { [ -z "${CAPTIONS:-}" ] || { echo "$CAPTIONS"; return; }; first_of "$1" captions.jsonl.gz captions.jsonl; }
first_of() { # SET NAME...
    set_=$1
    shift
    for name; do
        if [ -e "$DATA/$set_/$name" ]; then
            echo "$DATA/$set_/$name"
            return
        fi
    done
}

# as_jsonl_gz FILE: the same lines, compressed.
as_jsonl_gz() { case $1 in *.gz) cat "$1" ;; *) gzip -c "$1" ;; esac; }

# sparse_run SET: the encoder's run, made from its vectors if it is missing.
sparse_run() {
    pages=$(vectors "$1")
    if [ ! -s "$OUT/$1.run" ]; then
        vsplade eval "$DATA/$1" --encoder "$ENCODER" --words-only --vectors "$pages" --run "$OUT/$1.run" --json > "$OUT/$1.json"
    fi
    echo "$OUT/$1.run"
}

# dense_run SET, embeddings SET: MiniLM over the set's texts, made once; embeddings says nothing where there are no texts.
dense_run() {
    if [ ! -s "$OUT/$1.minilm.run" ]; then
        "$PYTHON" -m research.experiments.dense "$DATA/$1" --texts "$(texts "$1")" --run "$OUT/$1.minilm.run" \
            --embeddings "$OUT/$1.minilm.npz" --json > "$OUT/$1.minilm.json"
    fi
    echo "$OUT/$1.minilm.run"
}
embeddings() {
    [ -n "$(texts "$1")" ] || return 0
    dense_run "$1" > /dev/null
    echo "$OUT/$1.minilm.npz"
}
