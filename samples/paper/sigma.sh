#!/bin/sh
# The paper's figure of the perturbation strength: a row for each σ, on greedy responses.
#
#   LIMIT=200 sh samples/paper/sigma.sh
set -eu

LIMIT=${LIMIT:-1319}
SIGMAS=${SIGMAS:-0.01 0.03 0.1 0.2 0.3 0.5 1}
. "$(dirname "$0")/common.sh"

asked=$(first "${INPUT:-hf:openai/gsm8k/main:test}" "$LIMIT")
answer responses "$asked"
printf '%-5s%10s%10s%10s%10s%10s%10s\n' σ TU AU EU 'AUROC TU' AU EU
for sigma in $SIGMAS; do
    row=$(strength responses "$sigma")
    printf '%-4s%s\n' "$sigma" "$row"
done
