#!/bin/sh
# The paper's figure of uncertainty by difficulty: how many of 10 attempts of another model fail tells how hard a
# question is; equally many questions of each level are taken.
#
#   BACKEND=vllm sh samples/paper/difficulty.sh
set -eu

LIMIT=${LIMIT:-20000} # questions among which they are chosen
PER_LEVEL=${PER_LEVEL:-500}
JUDGE=${JUDGE:-Qwen/Qwen2.5-3B-Instruct} # the other model
N=${N:-10}                               # its attempts
. "$(dirname "$0")/common.sh"

if [ -z "${INPUT:-}" ]; then
    INPUT=hf:Open-Reasoner-Zero/orz_math_57k_collection:train
    set -- --question-field 0.value --reference-field 1.ground_truth.value
fi
asked=$(first "$INPUT" "$LIMIT")
answer responses "$asked" "$@"
answering=$MODEL
MODEL=$JUDGE
answer attempts "$asked" -n "$N" --temperature 0.8 "$@"
MODEL=$answering
tokur evaluate "$OUT/attempts.jsonl" --graded "$OUT/attempts-graded.jsonl" --force > /dev/null
# The first PER_LEVEL responses to questions of each level: a question has N lines of attempts and one response
awk -v attempts="$N" -v most="$PER_LEVEL" '
    NR == FNR {
        question = int((NR - 1) / attempts) + 1
        failed[question] += /"correct": ?false/
        labelled[question] += /"correct": ?(true|false)/
        next
    }
    labelled[FNR] == attempts && chosen[failed[FNR]]++ < most
' "$OUT/attempts-graded.jsonl" "$OUT/responses.jsonl" > "$OUT/chosen.jsonl"
score chosen scored --scores tu,au,eu --no-tokens
tokur evaluate "$OUT/scored.jsonl" --difficulty "$N" --difficulty-from "$OUT/attempts-graded.jsonl" \
    --plot "$OUT/plots" --as "$FORM"
