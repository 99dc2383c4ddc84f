#!/bin/sh
# The paper's table of truthfulness: the factual precision of the most certain half, ACC* of what evaluate prints.
# The biographies are split into facts, and each fact is judged, by a model of your choice that knows more than the
# one that is judged. In the paper that is GPT-5-mini: what it, or another program, has judged comes in as JUDGED,
# the responses with "quality", the share of facts that are right, added to each.
#
#   JUDGE=Qwen/Qwen2.5-72B-Instruct sh samples/paper/facts.sh
#   JUDGED=judged.jsonl sh samples/paper/facts.sh
set -eu

MODEL=${MODEL:-Qwen/Qwen2.5-3B-Instruct}
TEMPLATE=${TEMPLATE:-chat}
LIMIT=${LIMIT:-1000000}
JUDGE=${JUDGE:-Qwen/Qwen2.5-7B-Instruct}
JUDGED=${JUDGED:-}
. "$(dirname "$0")/common.sh"
here=$(dirname "$0")

SPLIT='Break the following text into independent facts. Write each fact as one short sentence that can be understood '\
'without the others, on a line of its own that begins with "- ". Write nothing else.'
ASK='Here is a question and a statement from an answer to it. Is the statement true or false? Answer with one word, True '\
'or False.'

# judge NAME TOKENS — what the judge responds to the questions in OUT/NAME-asked.jsonl, in OUT/NAME.jsonl
judge() {
    tokur generate "$OUT/$1-asked.jsonl" -m "$JUDGE" --dtype "$DTYPE" --backend "$BACKEND" --template chat \
        --max-new-tokens "$2" -o "$OUT/$1.jsonl" --resume
}

if [ -z "$JUDGED" ]; then
    if [ -z "${INPUT:-}" ]; then
        INPUT=hf:lvogel123/factscore:train
        set -- --question-field prompt
    fi
    asked=$(first "$INPUT" "$LIMIT")
    answer biographies "$asked" "$@"
    python3 "$here/facts.py" split "$OUT/biographies.jsonl" "$SPLIT" > "$OUT/facts-asked.jsonl"
    judge facts "$TOKENS"
    python3 "$here/facts.py" ask "$OUT/facts.jsonl" "$OUT/biographies.jsonl" "$ASK" > "$OUT/verdicts-asked.jsonl"
    judge verdicts 8
    JUDGED=$OUT/with-quality.jsonl
    python3 "$here/facts.py" quality "$OUT/biographies.jsonl" "$OUT/verdicts.jsonl" > "$JUDGED"
fi
head -n "$LIMIT" "$JUDGED" > "$OUT/judged.jsonl"
detection judged pe,ll,self_certainty,deepconf,tu,au,eu,ll_sum,neg_length
