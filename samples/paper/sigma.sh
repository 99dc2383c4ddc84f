#!/bin/sh
# The paper's figure of the perturbation strength: a row for each σ, on greedy responses, and the log-likelihood's AUROC.
#
#   LIMIT=200 sh samples/paper/sigma.sh
set -eu

LIMIT=${LIMIT:-1319}
SIGMAS=${SIGMAS:-0.01 0.03 0.1 0.2 0.3 0.5 1}
. "$(dirname "$0")/common.sh"

asked=$(first "${INPUT:-hf:openai/gsm8k/main:test}" "$LIMIT")
answer responses "$asked"
score responses baseline --scores ll,ll_sum --no-tokens
heading σ
for sigma in $SIGMAS; do
    values=$(strength responses "$sigma")
    entry "$sigma" "$values"
done
baselines=$(aurocs baseline ll,ll_sum)
printf '%s\n' "$baselines" | tee -a "$OUT/table"
figure table "$OUT/table" "$OUT/figure"
