#!/bin/sh
# The paper's table of truthfulness: the factual precision of the most certain half, ACC* of what evaluate prints.
# tokur judges no facts. So this takes two runs: the first writes biographies, which you have judged; the second takes
# them with "quality" added to each, the part of its facts that is right.
#
#   sh samples/paper/facts.sh
#   INPUT=judged.jsonl sh samples/paper/facts.sh
set -eu

MODEL=${MODEL:-Qwen/Qwen2.5-3B-Instruct}
TEMPLATE=${TEMPLATE:-chat}
LIMIT=${LIMIT:-1000000}
. "$(dirname "$0")/common.sh"

if [ -z "${INPUT:-}" ]; then
    asked=$(first hf:lvogel123/factscore:train "$LIMIT")
    answer biographies "$asked" --question-field prompt
    echo "facts.sh: add \"quality\" to the records of $OUT/biographies.jsonl, then give them as INPUT" >&2
    exit
fi
head -n "$LIMIT" "$INPUT" > "$OUT/judged.jsonl"
detection judged pe,ll,self_certainty,deepconf,tu,au,eu,ll_sum,neg_length
