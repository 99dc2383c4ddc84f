#!/bin/sh
# The paper's tables of wrong paths detected: each score with and without length normalisation, greedy responses.
#
#   MODEL=Qwen/Qwen2.5-3B-Instruct FORM=latex sh samples/paper/detect.sh
set -eu

SCORES=${SCORES:-all} # "default": those that need no other model and no attempts to verify a response
. "$(dirname "$0")/common.sh"

# table NAME INPUT LIMIT
table() {
    asked=$(first "$2" "$3")
    answer "$1" "$asked"
    detection "$1" "$SCORES" --versus ll_sum
    tokur evaluate "$OUT/$1-${SEEDS%% *}.jsonl" --scores all --bootstrap 0 --plot "$OUT/$1-plots" > /dev/null
}

if [ -n "${INPUT:-}" ]; then
    table responses "$INPUT" "${LIMIT:-5000}"
else
    table math500 hf:HuggingFaceH4/MATH-500:test "${LIMIT:-500}"
    table gsm8k hf:openai/gsm8k/main:train "${LIMIT:-1300}"
    table deepscaler hf:agentica-org/DeepScaleR-Preview-Dataset:train "${LIMIT:-5000}"
fi
