"""The plots of ``tokur evaluate``, on the records of all runs together."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tokur_cli.commands.evaluate.reading.columns import Columns
from tokur_cli.commands.evaluate.report.results import Results
from tokur_cli.commands.evaluate.report.tables import VOTES, kept
from tokur_cli.commands.options.evaluate import EvaluationOptions
from tokur_cli.metrics.catalogue import Metric, leading
from tokur_cli.metrics.evaluation import Evaluation
from tokur_cli.metrics.ranking import Floats, ranked
from tokur_cli.metrics.scaling import Scaling
from tokur_cli.views import plots

MOST_POINTS = 2_000
"""Points of a curve: more cannot be seen, and would make the SVG of 100,000 records megabytes."""

RELIABILITY_POINTS = 10

_GROUP_PANELS = ("au", "tu", "eu")

_PLANES = (("eu_mean", "au_mean"), ("eu", "au"))
"""Axes of the plane: per token, as the paper's figure, where there are such scores, else the sums."""


class _Pooled:
    """The labelled records of all runs."""

    def __init__(self, runs: Sequence[Columns]) -> None:
        self._runs = runs
        label = np.concatenate([np.array(run.label) for run in runs])
        self._labelled = np.isfinite(label)
        self.label = label[self._labelled]
        groups = [name for run in runs for name in run.group]
        self.group = [name for name, known in zip(groups, self._labelled, strict=True) if known] if groups else []

    def have(self, score: str) -> bool:
        """Return whether any of them has a score, shown or not."""
        return score in self._runs[0].scores and bool(np.isfinite(self.values(score)).any())

    def values(self, score: str) -> Floats:
        """Return (N,) values of a score, NaN where a record has none."""
        values: Floats = np.concatenate([np.array(run.scores[score]) for run in self._runs])[self._labelled]
        return values

    def confidence(self, score: str) -> tuple[Floats, Floats]:
        """Return the confidences and labels of the records that have the score."""
        values = np.concatenate([run.confidence(score) for run in self._runs])[self._labelled]
        held = np.isfinite(values)
        return values[held], self.label[held]

    def balanced(self, members: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return (N,) whether a member is chosen: all of the rarer class, and as many others at random."""
        chosen = np.zeros(len(members), dtype=np.bool_)
        classes = [np.flatnonzero(members & (self.label >= 0.5)), np.flatnonzero(members & (self.label < 0.5))]
        fewest = min(map(len, classes))
        for places in classes:
            chosen[np.random.default_rng(0).choice(places, fewest, replace=False)] = True
        return chosen

    def split(self, score: str, members: NDArray[np.bool_] | None = None) -> plots.Split:
        """Return the values of correct and incorrect records (graded ones above and below one half), or of some."""
        values = self.values(score)
        held = np.isfinite(values) if members is None else np.isfinite(values) & members
        correct = self.label >= 0.5
        return plots.Split(score, values[held & correct], values[held & ~correct])


def write_plots(runs: Sequence[Columns], results: Results, folder: str) -> None:
    """Write all plots that the records give into a folder, which is made if it is not there."""
    records, overall = _Pooled(runs), results.overall
    metric = leading(is_binary=overall.is_binary)
    best = _best(overall, metric, results.options.versus)
    if overall.is_binary:
        _roc(records, overall, best, folder)
    _risk(records, overall, best, folder)
    if probabilities := [name for name in best if runs[0].is_probability(name)]:
        _reliability(records, overall, probabilities, folder)
    _splits(records, best, overall.is_binary, folder)
    for pair in _PLANES:
        if not runs[0].is_probability(pair[0]) and all(records.have(name) for name in pair):
            _plane(records, pair, folder)
            break
    if results.groups:
        panels = [name for name in _GROUP_PANELS if name in overall.scores] or best[:3]
        _groups(records, panels, results, metric, folder)
    if results.scaling is not None:
        _scaling(results.scaling, best, results.options, folder)


def _best(overall: Evaluation, metric: Metric, versus: str | None) -> list[str]:
    """Return the scores to draw, the best first: as many as can be told apart, the baseline among them."""

    def value(name: str) -> float:
        estimate = overall.scores[name].metrics[metric.name]
        return -math.inf if estimate.value is None else estimate.value

    drawn = sorted(overall.scores, key=value, reverse=True)[: plots.MOST_LINES - 1]
    if versus is not None and versus not in drawn:
        drawn = [*drawn[: plots.MOST_LINES - 2], versus]
    return drawn


def _shown(overall: Evaluation, drawn: Sequence[str]) -> str:
    total = len(overall.scores)
    return f"{len(drawn)} of {total} scores" if len(drawn) < total else "all scores" if total > 1 else drawn[0]


def _named(overall: Evaluation, score: str, metric: str) -> str:
    value = overall.scores[score].metrics[metric].value
    return score if value is None else f"{score} ({100 * value:.1f})"


def _roc(records: _Pooled, overall: Evaluation, drawn: Sequence[str], folder: str) -> None:
    found = []
    for score in drawn:
        confidence, label = records.confidence(score)
        if 0 < label.sum() < len(label):
            sums = ranked(confidence, label)
            right, every = (np.concatenate(([0.0], of[0])) for of in (sums.correct, sums.total))
            wrong = every - right
            right, wrong = right / right[-1], wrong / wrong[-1]
            found.append(plots.Curve(_named(overall, score, "auroc"), *thinned(wrong, right)))
    if found:
        diagonal = np.array([0.0, 1.0])
        plots.lines(
            os.path.join(folder, "roc"),
            found,
            plots.Curve("chance (50)", diagonal, diagonal),
            plots.Plane(
                f"ROC, AUROC in % ({_shown(overall, drawn)})",
                "incorrect responses taken for correct",
                "correct responses found",
                square=True,
            ),
        )


def _risk(records: _Pooled, overall: Evaluation, drawn: Sequence[str], folder: str) -> None:
    found = []
    for score in drawn:
        sums = ranked(*records.confidence(score))
        coverage, risk = sums.total[0] / sums.total[0, -1], 1 - sums.correct[0] / sums.total[0]
        found.append(plots.Curve(_named(overall, score, "aurc"), *thinned(coverage, risk)))
    count = np.arange(1, len(records.label) + 1)
    best = 1 - np.cumsum(np.sort(records.label)[::-1]) / count
    plots.lines(
        os.path.join(folder, "risk-coverage"),
        found,
        plots.Curve("perfect ranking", *thinned(count / len(count), best)),
        plots.Plane(
            f"Risk and coverage, AURC in % ({_shown(overall, drawn)})",
            "coverage: fraction answered, the most confident first",
            "risk: fraction of these that is incorrect",
        ),
    )


def _reliability(records: _Pooled, overall: Evaluation, drawn: Sequence[str], folder: str) -> None:
    """Draw how often responses of a probability are correct: each point is as many records as any other."""
    found = []
    for score in drawn:
        probability, label = records.confidence(score)
        order = np.argsort(probability, kind="stable")
        parts = np.array_split(order, min(RELIABILITY_POINTS, len(order)))
        said, right = (np.array([values[part].mean() for part in parts]) for values in (probability, label))
        error = np.array([label[part].std() / math.sqrt(len(part)) for part in parts])
        found.append(plots.Curve(_named(overall, score, "ece"), said, right, error))
    diagonal = np.array([0.0, 1.0])
    plots.lines(
        os.path.join(folder, "reliability"),
        found,
        plots.Curve("as often as said", diagonal, diagonal),
        plots.Plane(
            f"Reliability, ECE in % ({RELIABILITY_POINTS} bins of equal size ± standard error)",
            "probability of being correct",
            "fraction that is correct",
            square=True,
        ),
    )


def _splits(records: _Pooled, drawn: Sequence[str], is_binary: bool, folder: str) -> None:
    what = "responses" if is_binary else "responses, of quality ≥ ½ (correct) and < ½ (incorrect)"
    splits = [records.split(score) for score in drawn]
    plots.distributions(os.path.join(folder, "distributions"), splits, f"Scores of {what}")


def _plane(records: _Pooled, pair: tuple[str, str], folder: str) -> None:
    """Draw the paper's EU–AU plane, with all responses and, as in the paper, with equally many of both."""
    both = np.isfinite(records.values(pair[0])) & np.isfinite(records.values(pair[1]))
    title = "Epistemic and aleatoric uncertainty (nats)"
    for name, members in (("eu-au", both), ("eu-au-balanced", both & records.balanced(both))):
        horizontal, vertical = (records.split(score, members) for score in pair)
        plots.plane(os.path.join(folder, name), horizontal, vertical, title)


def _groups(records: _Pooled, drawn: Sequence[str], results: Results, metric: Metric, folder: str) -> None:
    members = [np.array([name == group for name in records.group]) for group in results.groups]
    splits = {score: [records.split(score, part) for part in members] for score in drawn}
    found = {  # NaN for None
        score: np.array([one.scores[score].metrics[metric.name].value for one in results.groups.values()], dtype=float)
        for score in drawn
    }
    plots.groups(
        os.path.join(folder, "groups"),
        list(results.groups),
        splits,
        plots.GroupMetric(metric.title, found, metric.chance),
        f"{metric.title} and scores by {results.options.grouping}",
    )


def _scaling(curves: Scaling, drawn: Sequence[str], options: EvaluationOptions, folder: str) -> None:
    sizes = np.array(options.sizes, dtype=np.float64)

    def line(title: str, score: str | None, method: str) -> plots.Curve:
        points = [curves.point(score, method, size) for size in options.sizes]
        means = np.array([point.value for point in points], dtype=np.float64)  # NaN for None
        return plots.Curve(title, sizes, means, np.array([point.std or 0.0 for point in points]))

    for method, name in VOTES.items():
        found = [line(score, score, method) for score in drawn if (score, method) in curves.accuracies]
        one = curves.point(None, "pass@1", max(options.sizes)).value
        plots.lines(
            os.path.join(folder, f"scaling-{method}"),
            [*found[: plots.MOST_LINES - 1], line("majority of all N", None, "majority")],
            plots.Curve("Pass@1", sizes, np.full(len(sizes), one, dtype=np.float64)),
            plots.Plane(
                f"{name} {kept(options)}",
                "N responses per question",
                "accuracy (mean ± std)",
                sizes=options.sizes,
            ),
        )


def thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return a curve with its ends and at most ``MOST_POINTS`` of its points."""
    if len(x) <= MOST_POINTS:
        return x, y
    kept = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).round().astype(np.intp))
    return x[kept], y[kept]
