#!/bin/sh
# The paper's figure of the decoding temperature: a row for each τ, then how well scores tell right from wrong at each.
#
#   LIMIT=100 sh samples/paper/temperature.sh
set -eu

LIMIT=${LIMIT:-500}
TEMPERATURES=${TEMPERATURES:-0 0.2 0.4 0.6 0.8 1}
. "$(dirname "$0")/common.sh"

asked=$(first "${INPUT:-hf:HuggingFaceH4/MATH-500:test}" "$LIMIT")
heading τ
for temperature in $TEMPERATURES; do
    answer "t$temperature" "$asked" --temperature "$temperature"
    score "t$temperature" "t$temperature-scored" --scores pe,ll,self_certainty,deepconf,tu,au,eu,ll_sum,neg_length --no-tokens
    values=$(strength "t$temperature" "$SIGMA")
    entry "$temperature" "$values"
done
printf '\n'
for temperature in $TEMPERATURES; do
    cat "$OUT/t$temperature-scored.jsonl"
done | tokur evaluate --scores all --group-by tokur.generation.temperature --bootstrap 0 --as "$FORM"
figure table "$OUT/table" "$OUT/figure"
