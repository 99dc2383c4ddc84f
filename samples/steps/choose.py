"""What of an equation tells wrong from right? Chosen on one half of the questions, reported on the other.

python samples/steps/choose.py equations.jsonl fisher=equations_fisher.jsonl

Each file holds the same equations of make_equations.py, scored; a name before "=" tells the rows of one from those of
another. The tokens that count are, in turn,

    equation   all of it                    digits   those of it that hold a digit
    result     the number after the "="     first    the first of that number
    after      the first after the "=", which may be a blank
    change     the mean over the result less the mean over what stands before the "="

Each row has the AUROC in percent on the half by which the rows are ordered, and on the other half with a 95 % interval
by bootstrap over questions, beside the difference to the sum of the result's log-probabilities in the first file. Each
kind of tokens and each quantity has one row: that of the aggregate and the file that are best on the first half.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from tokur_cli.scores.quantities import QUANTITIES as TABLE
from tokur_cli.scores.steps import AGGREGATES, aggregates, token_places

Floats = NDArray[np.float64]

QUANTITIES = ("eu", "au", "tu", "entropy", "logprob")
BASELINE = ("result", "logprob", "sum")
RESAMPLES = 1000

Row = tuple[str, str, str]  # the tokens that count, the quantity, the aggregate


def doubts(record: dict, claim: dict, result: dict) -> dict[Row, float]:
    """Return each score of one equation, turned so that less sure is more; those without a token are left out."""
    text, tokens = record["response"], record["tokur"]["tokens"]
    places = np.array(token_places(text, tokens["offsets"]))
    has_digit = np.array([any(map(str.isdigit, text[slice(*span)])) for span in tokens["offsets"]])
    equals = text.index("=", claim["start"], claim["end"])
    whole = (claim["start"] <= places) & (places < claim["end"])
    of_result = np.flatnonzero((result["start"] <= places) & (places < result["end"]))
    counted = {
        "equation": np.flatnonzero(whole),
        "digits": np.flatnonzero(whole & has_digit),
        "result": of_result,
        "first": of_result[:1],
        "after": np.flatnonzero(places > equals)[:1],
    }
    before = np.flatnonzero(whole & (places < equals))
    found = {}
    for quantity in QUANTITIES:
        values = np.array(tokens[quantity], dtype=float)
        for kind, chosen in counted.items():
            if len(chosen):
                of_kind = aggregates(values[chosen].tolist(), TABLE[quantity].orientation)
                for how in ("sum",) if kind in ("first", "after") else AGGREGATES:
                    found[kind, quantity, how] = TABLE[quantity].doubt(of_kind[how])
        if len(counted["result"]) and len(before):
            found["change", quantity, "mean"] = TABLE[quantity].doubt(
                values[counted["result"]].mean() - values[before].mean()
            )
    return found


def read(path: Path) -> tuple[list[Row], Floats, NDArray[np.bool_], list[str]]:
    """Return the rows, (equations, rows) scores, (equations,) which are wrong, and the question of each."""
    scores, wrong, questions = [], [], []
    with path.open(encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            for claim, result in zip(record["claims"], record["results"], strict=True):
                if result["correct"] is not None:
                    scores.append(doubts(record, claim, result))
                    wrong.append(not result["correct"])
                    questions.append(record["id"])
    rows = sorted(set.intersection(*(set(found) for found in scores)))
    return rows, np.array([[found[row] for row in rows] for found in scores]), np.array(wrong), questions


def auroc(doubt: Floats, wrong: NDArray[np.bool_]) -> Floats:
    """Return (rows,) how often a wrong equation is less sure than a right one."""
    many, few = wrong.sum(), (~wrong).sum()
    return (rankdata(doubt, axis=0)[wrong].sum(axis=0) - many * (many + 1) / 2) / (many * few)


def main() -> None:
    names, tables = [], []
    for argument in sys.argv[1:]:
        title, _, path = argument.rpartition("=")
        rows, table, wrong, questions = read(Path(path))
        names += [(title, *row) for row in rows]
        tables.append(table)
    doubt = np.hstack(tables)
    baseline = next(column for column, name in enumerate(names) if name[1:] == BASELINE)
    _, number = np.unique(questions, return_inverse=True)
    half = np.array([zlib.crc32(question.encode()) % 2 for question in questions])
    first = auroc(doubt[half == 0], wrong[half == 0])
    best: dict[tuple[str, str], int] = {}
    for column in np.argsort(-np.round(first, 4), kind="stable"):
        best.setdefault(names[column][1:3], int(column))
    shown = list(best.values())
    columns = [*shown, baseline]
    doubt, others = doubt[half == 1][:, columns], wrong[half == 1]
    places = [np.flatnonzero(number[half == 1] == question) for question in np.unique(number[half == 1])]
    found = auroc(doubt, others)
    generator, resampled = np.random.default_rng(0), []
    while len(resampled) < RESAMPLES:
        drawn = np.concatenate([places[place] for place in generator.integers(0, len(places), len(places))])
        if 0 < others[drawn].sum() < len(drawn):
            resampled.append(auroc(doubt[drawn], others[drawn]))
    ends = np.quantile(resampled, [0.025, 0.975], axis=0)
    less = np.array(resampled) - np.array(resampled)[:, -1:]
    gains = np.quantile(less, [0.025, 0.975], axis=0)
    for part in (0, 1):
        here = half == part
        counts = f"{here.sum()} equations, {wrong[here].sum()} wrong, {len(np.unique(number[here]))} questions"
        print(f"half {part + 1}: {counts}", file=sys.stderr)
    print("| tokens | score | first half | other half | less that of the log-probability |")
    print("| --- | --- | --- | --- | --- |")
    for place, column in enumerate(shown):
        title, kind, quantity, how = names[column]
        low, high = 100 * ends[:, place]
        less_low, less_high = 100 * gains[:, place]
        gain = 100 * (found[place] - found[-1])
        score = f"`{quantity}`, {title}" if title else f"`{quantity}`"
        tokens = kind if kind in ("first", "after", "change") else f"{kind}, {how}"
        cells = [tokens, score, f"{100 * first[column]:.1f}"]
        cells += [f"{100 * found[place]:.1f} [{low:.1f}, {high:.1f}]", f"{gain:+.1f} [{less_low:.1f}, {less_high:.1f}]"]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
