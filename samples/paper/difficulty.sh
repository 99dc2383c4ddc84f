#!/bin/sh
# The paper's figure of uncertainty by difficulty: how many of 10 attempts of another model fail tells how hard a
# question is.
#
#   BACKEND=vllm LIMIT=20000 sh samples/paper/difficulty.sh
set -eu

LIMIT=${LIMIT:-5500}
JUDGE=${JUDGE:-Qwen/Qwen2.5-3B-Instruct} # the other model
N=${N:-10}                               # its attempts
. "$(dirname "$0")/common.sh"

if [ -z "${INPUT:-}" ]; then
    INPUT=hf:Open-Reasoner-Zero/orz_math_57k_collection:train
    set -- --question-field 0.value --reference-field 1.ground_truth.value
fi
asked=$(first "$INPUT" "$LIMIT")
answer responses "$asked" "$@"
score responses scored --scores tu,au,eu --no-tokens
MODEL=$JUDGE
answer attempts "$asked" -n "$N" --temperature 0.8 "$@"
tokur evaluate "$OUT/scored.jsonl" --difficulty "$N" --difficulty-from "$OUT/attempts.jsonl" --plot "$OUT/plots" "$FORM"
