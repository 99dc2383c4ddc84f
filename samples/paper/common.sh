# What the scripts of this folder have in common: they read this file, it is not run by itself.
# shellcheck shell=sh
# The variables that a script sets for itself, it sets before.

MODEL=${MODEL:-meta-llama/Llama-3.2-1B-Instruct}
SEEDS=${SEEDS:-0 1 2}      # of the draws, a run each
TOKENS=${TOKENS:-2048}     # of a response, at most
TEMPLATE=${TEMPLATE:-math} # the paper's prompt
BACKEND=${BACKEND:-transformers}
DTYPE=${DTYPE:-auto}
SIGMA=${SIGMA:-0.1} # the paper's strength
FORM=${FORM:-table} # or latex, jsonl
OUT=${OUT:-$(basename "$0" .sh)}
mkdir -p "$OUT"

# first INPUT LIMIT — the name of what has the first LIMIT rows of INPUT
first() {
    case $1 in
        gym:* | hf:*\]) echo "$1" ;;
        hf:*) echo "$1[:$2]" ;;
        *)
            head -n "$2" "$1" > "$OUT/questions.jsonl"
            echo "$OUT/questions.jsonl"
            ;;
    esac
}

# answer NAME QUESTIONS OPTIONS… — responses of the model, in OUT/NAME.jsonl
answer() {
    to=$1
    questions=$2
    shift 2
    tokur generate "$questions" -m "$MODEL" --dtype "$DTYPE" --backend "$BACKEND" --template "$TEMPLATE" \
        --max-new-tokens "$TOKENS" "$@" -o "$OUT/$to.jsonl" --resume
}

# score NAME TO OPTIONS… — the responses of OUT/NAME.jsonl with scores, in OUT/TO.jsonl
score() {
    from=$1
    to=$2
    shift 2
    tokur score "$OUT/$from.jsonl" -m "$MODEL" --dtype "$DTYPE" --sigma "$SIGMA" "$@" -o "$OUT/$to.jsonl" --resume
}

# title NAME — says whose figures follow; a comment in LaTeX
title() {
    [ "$FORM" != latex ] || set -- "% $1"
    printf '\n%s\n' "$1"
}

# detection NAME SCORES OPTIONS… — scores the responses of OUT/NAME.jsonl under each seed, and prints how well the scores
# tell right from wrong: mean ± standard deviation over the seeds, of one seed with intervals; the options are evaluate's
detection() {
    name=$1
    scores=$2
    shift 2
    for seed in $SEEDS; do
        score "$name" "$name-$seed" --seed "$seed" --scores "$scores" --no-tokens
        set -- "$@" "$OUT/$name-$seed.jsonl"
    done
    title "$name"
    tokur evaluate "$@" --scores all --as "$FORM"
}

# scaling NAME SCORES OPTIONS… — Maj@N and WBoN of the scored responses in OUT/NAME.jsonl among N and its halves; the
# options are evaluate's
scaling() {
    scored=$OUT/$1.jsonl
    chosen=$2
    shift 2
    sizes=$N
    size=$N
    while [ "$((size /= 2))" -ge 2 ] && [ "$size" -ge "$((N / 32))" ]; do
        sizes=$size,$sizes
    done
    tokur evaluate "$scored" --scores "$chosen" --scaling "$sizes" --repeats 10 --keep 10% --bootstrap 0 "$@"
}

# votes NAME SCORES — the same as a table, with plots
votes() {
    title "$1"
    scaling "$1" "$2" --plot "$OUT/$1-plots" --as "$FORM"
}

# figure FORM … — a figure of several runs
figure() {
    python3 "$(dirname "$0")/figures.py" "$@"
}

# heading WHAT, entry VALUE REST — the lines of a table of strengths, printed and kept in OUT/table
heading() {
    printf '%-5s%10s%10s%10s%10s%10s%10s\n' "$1" TU AU EU 'AUROC TU' AU EU | tee "$OUT/table"
}
entry() {
    printf '%-4s%s\n' "$@" | tee -a "$OUT/table"
}

# strength NAME SIGMA — the mean TU, AU and EU of a token in nats and the AUROC of their sums over the responses in
# OUT/NAME.jsonl, as the end of a row
strength() {
    count=$(wc -l < "$OUT/$1.jsonl")
    kept=$OUT/$1-$((count))-sigma-$2.jsonl # not that of a smaller LIMIT
    if [ ! -s "$kept" ]; then
        tokur perturb "$OUT/$1.jsonl" --sweep "$2" -m "$MODEL" --dtype "$DTYPE" > "$kept.part"
        mv "$kept.part" "$kept"
    fi
    awk -F '[^a-z0-9.e_-]+' '{ for (i = 1; i < NF; i++) if ($i ~ /^(tu|au|eu)$/)
        printf $(i + 1) == "null" ? "         -" : "  %8.4f", $(i + 1); print "" }' "$kept"
}

# aurocs NAME SCORES — a line for each score of the responses in OUT/NAME.jsonl: its AUROC
aurocs() {
    tokur evaluate "$OUT/$1.jsonl" --scores "$2" --bootstrap 0 --as jsonl | python3 -c 'import json, sys
for row in map(json.loads, sys.stdin):
    auroc = row["auroc"]["value"]
    print("%-34s%10s" % (row["score"], "-" if auroc is None else "%.4f" % auroc))'
}
