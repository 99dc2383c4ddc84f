#!/bin/sh
# The paper's tables and figure of test-time scaling: Maj@N and WBoN of the surest 10 % of N responses, by each score.
#
#   BACKEND=vllm sh samples/paper/scaling.sh
set -eu

N=${N:-512} # and its halves
. "$(dirname "$0")/common.sh"
scores=ll,self_certainty,deepconf,tu_mean,au_mean,eu_mean

# table NAME INPUT LIMIT
table() {
    asked=$(first "$2" "$3")
    answer "$1" "$asked" -n "$N" --temperature 0.8
    score "$1" "$1-scored" --scores "$scores" --no-tokens
    votes "$1-scored" "$scores"
}

if [ -n "${INPUT:-}" ]; then
    table responses "$INPUT" "${LIMIT:-1300}"
else
    table gsm8k hf:openai/gsm8k/main:train "${LIMIT:-1300}"
    table math500 hf:HuggingFaceH4/MATH-500:test "${LIMIT:-500}"
fi
