#!/bin/sh
# Trains a reader like the one that ships, from public sources to the files that belong in src/vsplade/encode/data/reader.
# Not the same weights: what ships was trained in six runs, with changes between them (docs/training.md).
#
#   research/runs/reader.sh WORK [STEP...]        steps: packages text vocabulary words pdfs train narrow revive finish probe export speller queries
#
# Needs Debian or Ubuntu's apt-get and npm (as a user; nothing is installed), pip install 'vsplade[train]', and a GPU for
# the steps `train`, `finish` and `speller`. WORK must hold data/ with what apt does not have (docs/training.md says where it comes from):
#   data/reports/*.pdf              28 annual reports (enterprise-rag-challenge)
#   data/medquad.jsonl.gz           MedQuAD: {"query", "text"} lines
#   data/wikitables.*.jsonl.gz      WikiTableQuestions: tables {"_id", "tsv"} and queries {"query", "table"}
#   data/charts/pairs.jsonl.gz      Chart-to-text, Statista part: {"query", "caption"} lines
#
# SECONDS_OF_TRAINING  length of the schedule of the step `train`, and of `finish` (default 3600 each: two hours on one H200)
# SECONDS_OF_SPELLING  length of the step `speller` (default 200)
# STOP_AFTER           stop either step after so many seconds; running it again goes on from the checkpoint
set -eu

work=${1:?"usage: research/runs/reader.sh WORK [STEP...]"}
shift
[ $# -gt 0 ] || set -- packages text vocabulary words pdfs train narrow revive finish probe export speller queries
root=$(cd "$(dirname "$0")/../.." && pwd)
packaged=$root/src/vsplade/encode/data
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"

step() {
    name=$1
    shift
    "${PYTHON:-python}" -m "research.reader.$name" "$@"
}

TEXTS="dict-gcide dict-wn dict-foldoc manpages manpages-dev python3.11-doc"
PDFS="r-doc-pdf octave-doc texlive-latex-base-doc"
FONTS="fonts-adf-accanthis fonts-adf-baskervald fonts-adf-berenis fonts-adf-gillius fonts-adf-ikarius
fonts-adf-irianis fonts-adf-libris fonts-adf-mekanus fonts-adf-oldania fonts-adf-romande fonts-adf-solothurn
fonts-adf-switzera fonts-adf-tribun fonts-adf-universalis fonts-adf-verana fonts-bebas-neue fonts-beteckna
fonts-breip fonts-cabin fonts-cabinsketch fonts-cantarell fonts-cardo fonts-cmu fonts-comic-neue
fonts-courier-prime fonts-dancingscript fonts-dejavu-core fonts-dejavu-extra fonts-dkg-handwriting fonts-dosis
fonts-dustin fonts-ebgaramond fonts-ecolier-court fonts-femkeklaver fonts-firacode fonts-freefont-ttf
fonts-gnutypewriter fonts-goudybookletter fonts-hack-ttf fonts-humor-sans fonts-inter fonts-isabella
fonts-junction fonts-jura fonts-karla fonts-kaushanscript fonts-lato fonts-league-mono fonts-league-spartan
fonts-levien-typoscript fonts-liberation fonts-liberation2 fonts-linuxlibertine fonts-lobster fonts-lobstertwo
fonts-manrope fonts-noto-core fonts-noto-mono fonts-okolaks fonts-oldstandard fonts-open-sans
fonts-opendyslexic fonts-play fonts-quicksand fonts-radisnoir fonts-roboto-slab fonts-roboto-unhinted
fonts-rufscript fonts-sil-andika fonts-sil-charis fonts-sil-doulos fonts-sil-gentiumplus fonts-sjfonts
fonts-stix fonts-texgyre fonts-tlwg-typewriter-ttf fonts-tuffy fonts-ubuntu-title fonts-urw-base35
fonts-vollkorn fonts-yanone-kaffeesatz"

step_packages() { # download and unpack, without installing
    mkdir -p "$work/debs" "$work/root"
    # Some faces are only in some releases: a package that is missing is named and passed over.
    for name in $TEXTS $PDFS $FONTS; do
        (cd "$work/debs" && apt-get download "$name") || echo "not in this release: $name" >&2
    done
    for file in "$work"/debs/*.deb; do
        dpkg-deb --extract "$file" "$work/root"
    done
    mkdir -p "$work/webfonts"
    tr ' ' '\n' <"$(dirname "$0")/fontsource.txt" | while read -r name; do
        archive=$(cd "$work/debs" && npm pack --silent "@fontsource/$name") || echo "not on npm: $name" >&2
        for kind in 400-normal 700-normal 400-italic; do # few families have all three
            tar -xzf "$work/debs/$archive" -C "$work/webfonts" --strip-components=2 \
                "package/files/$name-latin-$kind.woff" 2>/dev/null || true
        done
    done
    step fonts "$work/root/usr/share/fonts" "$work/webfonts" --out "$work/fonts"
}

step_text() {
    mkdir -p "$work/text"
    share=$work/root/usr/share
    for name in gcide wn foldoc; do
        step gather "$share/dictd/$name.dict.dz" --out "$work/text/$name.txt"
    done
    step gather "$share"/man/man* --out "$work/text/man.txt"
    html=$share/doc/python3.11/html # without _sources, the same text once more
    step gather "$html"/*.html "$html"/[!_]*/ --out "$work/text/pydoc.txt"
    step gather "$work/data/medquad.jsonl.gz" --out "$work/text/medquad.txt"
    step gather "$work"/data/wikitables.*.jsonl.gz --out "$work/text/tables.txt"
    step gather "$work/data/charts/pairs.jsonl.gz" --out "$work/text/charts.txt"
    step gather "$work/data/reports" --out "$work/text/reports.txt"
}

step_vocabulary() { # a vocabulary other than the packaged one is a new model: put it there on purpose
    step vocabulary "$work"/text/*.txt --out "$work/vocabulary.txt"
    if ! cmp -s "$work/vocabulary.txt" "$packaged/vocabulary.txt"; then
        echo "differs from the packaged vocabulary; to train on the new one, copy $work/vocabulary.txt to" >&2
        echo "$packaged/vocabulary.txt. The next steps use the packaged one." >&2
    fi
}

step_words() {
    step words "$work"/text/*.txt --out "$work/words.npz"
}

step_pdfs() { # real pages; pari-doc and texlive-science-doc are left out on purpose, to measure on
    mkdir -p "$work/pdfs"
    cp "$work"/data/reports/*.pdf "$work/pdfs/"
    for folder in R/doc/manual doc/octave doc/texlive-doc; do
        find -L "$work/root/usr/share/$folder" -name '*.pdf' 2>/dev/null | while read -r file; do
            cp "$file" "$work/pdfs/$(echo "$folder" | tr / -)-$(basename "$file")"
        done
    done
}

WIDE='{"stem": 96, "fine": 64, "middle": 128, "coarse": 256, "middle_blocks": 3, "coarse_blocks": 4}'

train_into() { # FOLDER INITIAL OPTIONS...: from the weights of INITIAL ("" is none), or on with what was begun
    run=$1 initial=$2
    shift 2
    if [ -f "$run/last.safetensors" ]; then
        set -- "$@" --resume "$run/last.safetensors"
    elif [ -n "$initial" ]; then
        set -- "$@" --initial "$initial"
    fi
    step train --words "$work/words.npz" --fonts "$work/fonts" --pdfs "$work/pdfs" --out "$run" \
        --real-share 0.35 --seconds "${SECONDS_OF_TRAINING:-3600}" --stop-after "${STOP_AFTER:-0}" "$@"
}

step_train() { # twice the arithmetic of what ships: from nothing, a narrow network stays behind
    train_into "$work/run-wide" "" --network "$WIDE" --rate 2e-3
}

step_narrow() {
    step narrow "$work/run-wide/last.safetensors" --pdfs "$work/pdfs" --out "$work/narrow.safetensors"
}

step_revive() { # what ships was not revived: its dead units were found after the last run (docs/log.md)
    step revive "$work/narrow.safetensors" --pdfs "$work/pdfs" --rank 128 --out "$work/revived.safetensors"
}

step_finish() {
    train_into "$work/run" "$work/revived.safetensors" --rate 9e-4 --warm-up 0.03 --cool-down 0.85 \
        --echo 2 --rounded 0.15
}

step_probe() { # only where there are page pictures to look at
    if [ -d "$work/data/probe" ]; then
        step probe "$work/run/last.safetensors" "$work/data/probe" --out "$work/cells.npz"
    fi
}

step_export() {
    step export "$work/run/last.safetensors" --pdfs "$work/pdfs" --out "$work/model"
}

step_speller() { # its real words are cut from the same PDFs as the reader's pages
    step speller --fonts "$work/fonts" --pdfs "$work/pdfs" --out "$work/speller" --size low \
        --seconds "${SECONDS_OF_SPELLING:-200}"
    mkdir -p "$work/model"
    cp "$work/speller/low.onnx" "$work/model/speller.onnx"
}

step_queries() {
    mkdir -p "$work/model"
    step query_table "$work"/text/*.txt --out "$work/model/prior.npy"
    step retrieval "$work/model/prior.npy" --out "$work/model/query.npy" --pdfs "$work/data/reports" \
        --pairs "$work/data/wikitables.queries.jsonl.gz" --tables "$work/data/wikitables.tables.jsonl.gz" \
        --pairs "$work/data/charts/pairs.jsonl.gz"
    rm "$work/model/prior.npy"
    step certainty "$work/model" --pdfs "$work/pdfs" --out "$work/model/certainty.npy"
}

for step in "$@"; do
    case $step in
    packages | text | vocabulary | words | pdfs | train | narrow | revive | finish | probe | export | speller | queries) "step_$step" ;;
    *) echo "unknown step: $step" >&2 && exit 2 ;;
    esac
done
