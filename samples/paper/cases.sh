#!/bin/sh
# The paper's case study: a right beside a wrong solution, painted by AU and by EU: a page of all questions, and a figure
# of the first one that has both. The paper's questions are the rows 1178 and 1190 of GSM8K's training split, from 0, and the
# numbers 1298 and 260 of MATH's prealgebra, which are in MATH500.
#
#   MODEL=meta-llama/Llama-3.1-8B-Instruct sh samples/paper/cases.sh
set -eu

N=${N:-8}         # solutions of a question
LIMIT=${LIMIT:-8} # questions of INPUT
. "$(dirname "$0")/common.sh"

# cases NAME INPUT
cases() {
    answer "$1" "$2" -n "$N" --temperature 0.8
    score "$1" "$1-scored" --scores au,eu
    tokur evaluate "$OUT/$1-scored.jsonl" --graded "$OUT/$1-graded.jsonl" --force --bootstrap 0 > /dev/null
    tokur heatmap "$OUT/$1-graded.jsonl" --compare --score au,eu --html "$OUT/$1.html"
    tokur heatmap "$OUT/$1-graded.jsonl" --compare --score au,eu --limit 1 \
        --svg "$OUT/$1.svg"
}

if [ -n "${INPUT:-}" ]; then
    asked=$(first "$INPUT" "$LIMIT")
    cases solutions "$asked"
    exit
fi
cases gsm8k-1178 'hf:openai/gsm8k/main:train[1178:1179]'
cases gsm8k-1190 'hf:openai/gsm8k/main:train[1190:1191]'
for number in 1298 260; do
    python3 -c 'import datasets, json, sys
for row in datasets.load_dataset("HuggingFaceH4/MATH-500", split="test"):
    if row["unique_id"] == sys.argv[1]:
        print(json.dumps(row))' "test/prealgebra/$number.json" > "$OUT/math500-$number-question.jsonl"
    cases "math500-$number" "$OUT/math500-$number-question.jsonl"
done
