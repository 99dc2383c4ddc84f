"""Print the tables of the study of strengths, as they stand in its README, from what `study.py` wrote for each model.

python samples/strength/analyse.py smollm2.jsonl gemma.jsonl
python samples/strength/analyse.py --choices smollm2.jsonl gemma.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score

RESAMPLES = 1000
FIFTHS = 5
PAPER = "sigma=0.1"

Columns = dict[str, np.ndarray]
"""What is known of N responses, (N,) a name."""
Posteriors = dict[str, Columns]
"""The same of each posterior, by what the plan calls it."""


def read(path: Path) -> Posteriors:
    """Return the columns of each posterior, by what the plan calls it."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        rows.setdefault(row["posterior"], []).append(row)
    return {
        name: {key: np.array([row[key] for row in of]) for key in of[0] if key not in ("posterior", "id")}
        for name, of in rows.items()
    }


def auroc(doubt: np.ndarray, columns: Columns) -> float:
    wrong = ~columns["correct"]
    count = int(wrong.sum())
    won = rankdata(doubt)[wrong].sum() - count * (count + 1) / 2
    return float(won / (count * (len(wrong) - count)))


def auprc(doubt: np.ndarray, columns: Columns) -> float:
    return float(average_precision_score(columns["correct"], -doubt))


def within_fifths(doubt: np.ndarray, columns: Columns) -> float:
    """Return the share of pairs of a right and a wrong response of like length that are ranked rightly."""
    borders = np.quantile(columns["length"], np.arange(1, FIFTHS) / FIFTHS)
    fifth = np.searchsorted(borders, columns["length"], side="left")
    won = pairs = 0.0
    for number in range(FIFTHS):
        inside = fifth == number
        right, wrong = (doubt[inside & (columns["correct"] == label)] for label in (1, 0))
        difference = wrong[None, :] - right[:, None]
        won += float((difference > 0).sum() + 0.5 * (difference == 0).sum())
        pairs += difference.size
    return won / pairs


def partial(doubt: np.ndarray, columns: Columns) -> float:
    """Return Spearman's correlation with being wrong, given the log-likelihood, the entropy and the length."""
    given = np.column_stack([np.ones(len(doubt)), *(rankdata(columns[of]) for of in ("logprob", "entropy", "length"))])
    residuals = [
        values - given @ np.linalg.lstsq(given, values, rcond=None)[0]
        for values in (rankdata(doubt), 1.0 - columns["correct"])
    ]
    return float(np.corrcoef(*residuals)[0, 1])


def with_interval(figure: Callable[[np.ndarray], float], count: int, unit: float = 100) -> str:
    """Return a figure of responses, given by their places, with its 95 % bootstrap interval."""
    draw = np.random.default_rng(0)
    values = [figure(draw.integers(0, count, count)) for _ in range(RESAMPLES)]
    low, high = np.quantile(values, [0.025, 0.975])
    digits = 1 if unit == 100 else 2
    shown = (f"{unit * value:.{digits}f}" for value in (figure(np.arange(count)), low, high))
    return "{} [{}, {}]".format(*shown)


def taken(columns: Columns, places: np.ndarray) -> Columns:
    return {name: values[places] for name, values in columns.items()}


def beside_likelihood(columns: Columns, score: str, measure: Callable[[np.ndarray, Columns], float] = auroc) -> str:
    """Return a measure of a score minus that of the log-likelihood, in points, over the same resampled responses."""

    def difference(places: np.ndarray) -> float:
        of = taken(columns, places)
        return measure(of[score], of) - measure(-of["logprob"], of)

    return with_interval(difference, len(columns["correct"]))


def beside_paper(columns: Columns, paper: Columns, score: str) -> str:
    """Return the AUROC of a score minus that under the paper's strength, in points, over the same responses."""

    def difference(places: np.ndarray) -> float:
        found, of_paper = taken(columns, places), taken(paper, places)
        return auroc(found[score], found) - auroc(of_paper[score], of_paper)

    return with_interval(difference, len(columns["correct"]))


def partial_of(columns: Columns, score: str) -> str:
    """Return the partial rank correlation of a score with its interval."""

    def correlation(places: np.ndarray) -> float:
        of = taken(columns, places)
        return partial(of[score], of)

    return with_interval(correlation, len(columns["correct"]), unit=1)


def half(columns: Columns, which: int) -> Columns:
    return taken(columns, np.arange(which, len(columns["correct"]), 2))


def table(*rows: Sequence[str]) -> None:
    """Print a Markdown table, its head first."""
    for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]):
        print("| " + " | ".join(row).replace("-", "−" if row[0] != "---" else "-") + " |")
    print()


def tables(posteriors: Posteriors, title: str) -> None:
    """Print what a model's posteriors do."""
    every = max(posteriors.values(), key=lambda columns: len(columns["length"]))
    print(f"**{title}**, {len(every['correct'])} responses, {every['correct'].mean():.1%} of them right\n")
    known = {"`ll_sum`": -every["logprob"], "`neg_length`": every["length"]}
    measures = (auroc, auprc, within_fifths)
    table(
        ("", "AUROC", "AUPRC", "AUROC at fixed length"),
        *((name, *(f"{100 * of(doubt, every):.1f}" for of in measures)) for name, doubt in known.items()),
    )
    ranked = ("eu", "eu_fisher", "eu_kl", "tu")
    table(
        ("posterior", "σ", "N", "KL", "`tu` / entropy", *(f"`{score}`" for score in ranked)),
        *(
            (
                name,
                f"{columns['sigma'][0]:g}",
                str(len(columns["length"])),
                f"{columns['eu_kl'].sum() / columns['length'].sum():.4f}",
                by_entropy(columns),
                *(beside_likelihood(columns, score) for score in ranked),
            )
            for name, columns in posteriors.items()
        ),
    )
    table(
        ("posterior", "`eu`: AUPRC", "fixed length", "partial", "`eu_fisher`: AUPRC", "fixed length", "partial"),
        *(
            (
                name,
                *(
                    cell
                    for score in ("eu", "eu_fisher")
                    for cell in (
                        beside_likelihood(columns, score, auprc),
                        beside_likelihood(columns, score, within_fifths),
                        partial_of(columns, score),
                    )
                ),
            )
            for name, columns in posteriors.items()
        ),
    )
    paper = posteriors.get(PAPER)
    others = {name: columns for name, columns in posteriors.items() if columns is not paper}
    if paper is not None and others:
        compared = ("eu", "eu_fisher", "eu_kl", "tu")
        table(
            (f"posterior − {PAPER}", *(f"`{score}`" for score in compared)),
            *(
                (name, *(beside_paper(columns, first(paper, columns), score) for score in compared))
                for name, columns in others.items()
            ),
        )


def by_entropy(columns: Columns) -> str:
    """Return mean `tu` / mean entropy of a token = their quotient."""
    tu, entropy = (columns[name].sum() / columns["length"].sum() for name in ("tu", "entropy"))
    return f"{tu:.2f} / {entropy:.2f} = {tu / entropy:.2f}"


def first(columns: Columns, like: Columns) -> Columns:
    """Return as many of the first responses as there are in other columns, which must be of the same responses."""
    found = taken(columns, np.arange(min(len(like["length"]), len(columns["length"]))))
    if not np.array_equal(found["length"], like["length"]):
        raise SystemExit("posteriors of a file are of different responses: they cannot be compared")
    return found


def choices(models: dict[str, Posteriors]) -> None:
    """Print what a posterior that was chosen on half of a model's responses does on the other half, and elsewhere."""
    for title, posteriors in models.items():
        most = max(len(columns["length"]) for columns in posteriors.values())
        whole = {name: columns for name, columns in posteriors.items() if len(columns["length"]) == most}
        for score in ("eu", "eu_fisher"):
            first_half = {name: half(columns, 0) for name, columns in whole.items()}
            found = {name: auroc(columns[score], columns) for name, columns in first_half.items()}
            best = max(found, key=found.__getitem__)
            beside = [f"on the other half {beside_likelihood(half(whole[best], 1), score)}"]
            beside += [
                f"on {other} {beside_likelihood(models[other][best], score)}" for other in models if other != title
            ]
            print(f"- `{score}` on {title}: {best}; {', '.join(beside)}".replace(" -", " −").replace("[-", "[−"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="what study.py wrote, a file a model")
    parser.add_argument("--choices", action="store_true", help="what is best on half of the responses, on the others")
    chosen = parser.parse_args()
    models = {path.stem: read(path) for path in chosen.results}
    if chosen.choices:
        choices(models)
        return
    for title, posteriors in models.items():
        tables(posteriors, title)


if __name__ == "__main__":
    main()
