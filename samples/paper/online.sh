#!/bin/sh
# The paper's table of guided generation ("TokUR as Implicit Reward for Test-Time Scaling (Online)"), beside plain
# sampling: accuracy in percent, mean ± standard deviation over the seeds.
#
#   MODEL=Qwen/Qwen2.5-3B-Instruct LIMIT=100 sh samples/paper/online.sh
set -eu

N=${N:-16}          # responses to each question
LIMIT=${LIMIT:-500} # questions
. "$(dirname "$0")/common.sh"
asked=$(first "${INPUT:-hf:HuggingFaceH4/MATH-500:test}" "$LIMIT")

# respond NAME OPTIONS… — N scored responses to each question with each seed, in OUT/NAME-SEED.jsonl
respond() {
    name=$1
    shift
    for seed in $SEEDS; do
        answer "$name-$seed" "$asked" -n "$N" --temperature 0.8 --seed "$seed" --score --no-tokens --sigma "$SIGMA" "$@"
    done
}

# said NAME SCORE METHOD — what tokur select says of the accuracy, a line a seed
said() {
    for seed in $SEEDS; do
        tokur select "$OUT/$1-$seed.jsonl" --by "$2" --keep 100% --method "$3" 2>&1 >/dev/null | grep accuracy
    done
}

# column WHAT — mean and standard deviation of one of the numbers in such lines
column() {
    sed -n "s/.*$1 \([0-9.]*\)%.*/\1/p" | awk '{ n += 1; sum += $1; squares += $1 * $1 }
        END { mean = sum / n; rest = squares - n * mean * mean
              deviation = (n > 1 && rest > 0) ? sqrt(rest / (n - 1)) : 0
              printf "  %6.2f ± %5.2f", mean, deviation }'
}

# row TITLE NAME SCORE
row() {
    best=$(said "$2" "$3" bon)
    printf '%-26s' "$1"
    echo "$best" | column accuracy
    said "$2" "$3" wbon | column accuracy
    for what in majority Pass@1 "Pass@$N"; do
        echo "$best" | column "$what"
    done
    printf '\n'
}

respond plain
respond ll --guide ll --scores ll # which needs no draws
for guide in tu au eu; do
    respond "$guide" --guide "$guide"
done
respond recommended --guide eu --guide-over top5 --guide-temperature auto --set resample=systematic

printf '%-26s  %-14s  %-14s  %-14s  %-14s  %s\n' '' BoN WBoN majority Pass@1 "Pass@$N"
for score in ll tu_mean au_mean eu_mean; do
    row "plain, by $score" plain "$score"
done
row 'guided by ll' ll ll
row 'guided by tu' tu tu_mean
row 'guided by au' au au_mean
row 'guided by eu' eu eu_mean
row 'guided by eu, recommended' recommended eu_mean
