#!/bin/sh
# The paper's figure of stepwise and joint draws: test-time scaling by the uncertainties of either, and of shared ones.
#
#   BACKEND=vllm sh samples/paper/stepwise.sh
set -eu

N=${N:-512} # and its halves
LIMIT=${LIMIT:-500}
. "$(dirname "$0")/common.sh"
scores=tu_mean,au_mean,eu_mean

asked=$(first "${INPUT:-hf:HuggingFaceH4/MATH-500:test}" "$LIMIT")
answer responses "$asked" -n "$N" --temperature 0.8
for sampling in stepwise shared joint; do
    score responses "$sampling" --sampling "$sampling" --scores "$scores" --no-tokens
    votes "$sampling" "$scores"
    scaling "$sampling" "$scores" --as jsonl > "$OUT/$sampling-votes.jsonl"
    set -- "$@" "$OUT/$sampling-votes.jsonl"
done
figure votes "$OUT/figure" "$@"
