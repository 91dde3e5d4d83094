# Sourced by the experiments in this folder. What they run on, all of it replaceable:
#
#   PYTHON    the interpreter that has vsplade installed        (default: python)
#   DATA      a folder with data sets in our layout, one folder each
#   SETS      the data sets to run on                            (default: every folder of DATA)
#   ENCODER   the encoder                                        (default: the best that is installed)
#   OUT       where page vectors, runs and results are kept      (default: results)
#
# A data set may carry texts.jsonl.gz beside its queries: what OCR or a vision-language model read on each page. It is
# used where an experiment needs captions or text. Page vectors are made once and kept in OUT.
set -eu
PYTHON=${PYTHON:-python}
: "${DATA:?set DATA to a folder with data sets, one folder each}"
OUT=${OUT:-results}
SETS=${SETS:-$(ls "$DATA")}
ENCODER_FLAGS=${ENCODER:+--encoder $ENCODER}
mkdir -p "$OUT"

PYTHONPATH=$(cd "$(dirname "$0")/../.." && pwd)${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
vsplade() { "$PYTHON" -m vsplade "$@"; }
# each FLAG VALUE...: the flag before every value.
each() { flag=$1; shift; for value; do printf '%s %s ' "$flag" "$value"; done; }

experiment() { "$PYTHON" -m research.experiments "$@" --json; }

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
        # shellcheck disable=SC2086
        vsplade eval "$DATA/$1" $ENCODER_FLAGS --keep-vectors "$OUT/$1.npz" --run "$OUT/$1.run" --json > "$OUT/$1.json"
    fi
    echo "$OUT/$1.npz"
}

# texts SET: its captions or OCR, nothing where there are none.
texts() {
    for name in texts.jsonl.gz texts.jsonl vlm_text.jsonl.gz; do
        if [ -e "$DATA/$1/$name" ]; then
            echo "$DATA/$1/$name"
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
        # shellcheck disable=SC2086
        vsplade eval "$DATA/$1" $ENCODER_FLAGS --vectors "$pages" --run "$OUT/$1.run" --json > "$OUT/$1.json"
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
