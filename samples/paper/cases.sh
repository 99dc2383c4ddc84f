#!/bin/sh
# The paper's case study: a right beside a wrong solution, painted by AU in red and by EU in green: a page of all questions, and a figure
# of the first one that has both.
#
#   LIMIT=20 sh samples/paper/cases.sh
set -eu

N=${N:-8}         # solutions of a question
LIMIT=${LIMIT:-8} # questions of a data set
. "$(dirname "$0")/common.sh"

# cases NAME INPUT
cases() {
    asked=$(first "$2" "$LIMIT")
    answer "$1" "$asked" -n "$N" --temperature 0.8
    score "$1" "$1-scored" --scores au,eu
    tokur evaluate "$OUT/$1-scored.jsonl" --graded "$OUT/$1-graded.jsonl" --force --bootstrap 0 > /dev/null
    tokur heatmap "$OUT/$1-graded.jsonl" --compare --score au,eu --palette red,green --html "$OUT/$1.html"
    tokur heatmap "$OUT/$1-graded.jsonl" --compare --score au,eu --palette red,green --limit 1 \
        --svg "$OUT/$1.svg"
}

if [ -n "${INPUT:-}" ]; then
    cases solutions "$INPUT"
else
    cases gsm8k hf:openai/gsm8k/main:train
    cases math500 hf:HuggingFaceH4/MATH-500:test
fi
