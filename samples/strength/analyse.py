"""Tables of the study of strengths, from what `study.py` wrote for each model.

python samples/strength/analyse.py smollm2.jsonl gemma.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score

RESAMPLES = 500
FIFTHS = 5
WHOLE = 400
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
    return float(roc_auc_score(columns["correct"], -doubt))


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


def beside_likelihood(columns: Columns, score: str, measure: Callable[[np.ndarray, Columns], float]) -> str:
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


def half(columns: Columns, which: int) -> Columns:
    return taken(columns, np.arange(which, len(columns["correct"]), 2))


def tables(posteriors: Posteriors, title: str) -> None:
    """Print what a model's posteriors do."""
    every = next(iter(posteriors.values()))
    print(f"## {title}: {len(every['correct'])} responses, {every['correct'].mean():.1%} right\n")
    for name, values in (("ll_sum", -every["logprob"]), ("neg_length", every["length"])):
        print(
            f"{name}: AUROC {100 * auroc(values, every):.1f}, AUPRC {100 * auprc(values, every):.1f}, "
            f"within fifths of length {100 * within_fifths(values, every):.1f}"
        )
    for score in ("eu", "eu_fisher"):
        print(
            f"\n| posterior | σ | N | KL | tu / entropy | AUROC of {score} | − ll_sum | AUPRC − | fifths − | partial |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for name, columns in posteriors.items():
            count = len(columns["length"])
            cells = [
                name,
                f"{columns['sigma'][0]:g}",
                str(count),
                f"{columns['eu_kl'].sum() / columns['length'].sum():.4f}",
                f"{columns['tu'].sum() / columns['entropy'].sum():.2f}",
                f"{100 * auroc(columns[score], columns):.1f}",
                *(beside_likelihood(columns, score, measure) for measure in (auroc, auprc, within_fifths)),
                with_interval(lambda at, c=columns, of=score: partial(c[of][at], taken(c, at)), count, 1),
            ]
            print("| " + " | ".join(cells) + " |")
    others = ("eu_kl", "tu", "au")
    print("\n| posterior | " + " | ".join(f"AUROC of {score} − ll_sum" for score in others) + " |")
    print("| --- | --- | --- | --- |")
    for name, columns in posteriors.items():
        print(f"| {name} | " + " | ".join(beside_likelihood(columns, score, auroc) for score in others) + " |")
    compared = ("eu", "eu_fisher", "tu")
    print("\n| posterior | " + " | ".join(f"AUROC of {score} − at {PAPER}" for score in compared) + " |")
    print("| --- | --- | --- | --- |")
    for name, columns in posteriors.items():
        if name != PAPER and len(columns["length"]) == WHOLE:
            found = (beside_paper(columns, posteriors[PAPER], score) for score in compared)
            print(f"| {name} | " + " | ".join(found) + " |")
    print()


def choices(models: dict[str, Posteriors]) -> None:
    """Print what a posterior that was chosen on half of a model's responses does on the other half, and elsewhere."""
    for title, posteriors in models.items():
        whole = {name: columns for name, columns in posteriors.items() if len(columns["length"]) == WHOLE}
        for score in ("eu", "eu_fisher"):
            best = max(whole, key=lambda name, of=score: auroc(half(whole[name], 0)[of], half(whole[name], 0)))
            found = [f"on the other half of {title} {beside_likelihood(half(whole[best], 1), score, auroc)}"]
            found += [
                f"on {other} {beside_likelihood(models[other][best], score, auroc)}"
                for other in models
                if other != title
            ]
            print(f"- {score}, chosen on every second response of {title}: {best}; beside ll_sum {', '.join(found)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="what study.py wrote, a file a model")
    models = {path.stem: read(path) for path in parser.parse_args().results}
    for title, posteriors in models.items():
        tables(posteriors, title)
    choices(models)


if __name__ == "__main__":
    main()
