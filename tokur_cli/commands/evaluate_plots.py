"""The plots of ``tokur evaluate``, on the records of all runs together."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tokur_cli.commands.columns import Columns
from tokur_cli.commands.evaluate_tables import TITLES
from tokur_cli.commands.findings import Curve, Findings, ScalingFindings, Settings
from tokur_cli.metrics.ranked import Ranked
from tokur_cli.metrics.rejection import risk_coverage
from tokur_cli.views import plots

MOST_POINTS = 2_000
"""Points of a curve: more cannot be seen, and would make the SVG of 100,000 records megabytes."""

_GROUP_PANELS = ("au", "tu", "eu")

_PLANES = (("eu_mean", "au_mean"), ("eu", "au"))
"""Axes of the plane: per token, as the paper's figure, where there are such scores, else the sums."""

Floats = NDArray[np.float64]


class _Pooled:
    """The labelled records of all runs."""

    def __init__(self, runs: Sequence[Columns]) -> None:
        self._runs = runs
        label = np.concatenate([np.array(run.label) for run in runs])
        self._labelled = np.isfinite(label)
        self.label = label[self._labelled]
        groups = [name for run in runs for name in run.group]
        self.group = [name for name, known in zip(groups, self._labelled, strict=True) if known] if groups else []

    def values(self, score: str) -> Floats:
        """(N,) values of a score, NaN where a record has none."""
        values: Floats = np.concatenate([np.array(run.scores[score]) for run in self._runs])[self._labelled]
        return values

    def confidence(self, score: str) -> tuple[Floats, Floats]:
        """Confidences and labels of the records that have the score."""
        values = np.concatenate([run.confidence(score) for run in self._runs])[self._labelled]
        held = np.isfinite(values)
        return values[held], self.label[held]

    def split(self, score: str, members: NDArray[np.bool_] | None = None) -> plots.Split:
        """The values of right and wrong records, of graded ones above and below one half, or of some of them."""
        values = self.values(score)
        held = np.isfinite(values) if members is None else np.isfinite(values) & members
        right = self.label >= 0.5
        return plots.Split(score, values[held & right], values[held & ~right])


def write_plots(
    runs: Sequence[Columns],
    names: Sequence[str],
    findings: Sequence[Findings],
    curves: ScalingFindings | None,
    settings: Settings,
    folder: str,
) -> None:
    """Write all plots that the records give into a folder.

    Args:
        runs: the records.
        names: the scores.
        findings: of all records, then of the groups.
        curves: scaling.
        settings: how it was evaluated.
        folder: is made if it is not there.

    Raises:
        TokurError: it cannot be written.
    """
    records = _Pooled(runs)
    everything, *groups = findings
    metric = "auroc" if everything.is_binary else "prr"
    best = _best(everything, metric, settings.versus)
    if metric == "auroc":
        _roc(records, everything, best, folder)
    _risk(records, everything, best, folder)
    _splits(records, best, everything.is_binary, folder)
    for pair in _PLANES:
        if set(pair) <= set(names):
            _plane(records, pair, folder)
            break
    if groups:
        _groups(
            records, [name for name in _GROUP_PANELS if name in names] or best[:3], groups, metric, settings, folder
        )
    if curves is not None:
        _scaling(curves, best, settings, folder)


def _best(findings: Findings, metric: str, versus: str | None) -> list[str]:
    """The scores to draw, the best first: as many as can be told apart, the baseline among them."""

    def value(name: str) -> float:
        figure = next(score for score in findings.scores if score.score == name).metrics[metric]
        return -math.inf if figure.value is None else figure.value

    ranked = sorted((score.score for score in findings.scores), key=value, reverse=True)
    drawn = ranked[: plots.MOST_LINES - 1]
    if versus is not None and versus not in drawn:
        drawn = [*drawn[: plots.MOST_LINES - 2], versus]
    return drawn


def _shown(findings: Findings, drawn: Sequence[str]) -> str:
    total = len(findings.scores)
    return f"{len(drawn)} of {total} scores" if len(drawn) < total else "all scores" if total > 1 else drawn[0]


def _named(findings: Findings, score: str, metric: str) -> str:
    figure = next(one for one in findings.scores if one.score == score).metrics[metric]
    return score if figure.value is None else f"{score} ({100 * figure.value:.1f})"


def _roc(records: _Pooled, findings: Findings, drawn: Sequence[str], folder: str) -> None:
    found = []
    for score in drawn:
        confidence, label = records.confidence(score)
        if 0 < label.sum() < len(label):
            sums = Ranked(confidence, label).sums()
            right = np.concatenate(([0.0], sums.right[0])) / sums.all_right[0]
            wrong = np.concatenate(([0.0], sums.total[0] - sums.right[0])) / (sums.all[0] - sums.all_right[0])
            found.append(plots.Line(_named(findings, score, "auroc"), *_thinned(wrong, right)))
    if found:
        diagonal = np.array([0.0, 1.0])
        plots.lines(
            os.path.join(folder, "roc"),
            found,
            title=f"ROC, AUROC in % ({_shown(findings, drawn)})",
            x_label="wrong responses taken for right",
            y_label="right responses found",
            reference=plots.Line("chance (50)", diagonal, diagonal),
            square=True,
        )


def _risk(records: _Pooled, findings: Findings, drawn: Sequence[str], folder: str) -> None:
    found = []
    for score in drawn:
        curve = risk_coverage(*records.confidence(score))
        found.append(plots.Line(_named(findings, score, "aurc"), *_thinned(curve.coverage, curve.risk)))
    count = np.arange(1, len(records.label) + 1)
    best = 1 - np.cumsum(np.sort(records.label)[::-1]) / count
    plots.lines(
        os.path.join(folder, "risk-coverage"),
        found,
        title=f"Risk and coverage, AURC in % ({_shown(findings, drawn)})",
        x_label="coverage: part answered, the most confident first",
        y_label="risk: part of these that is wrong",
        reference=plots.Line("perfect ranking", *_thinned(count / len(count), best)),
    )


def _splits(records: _Pooled, drawn: Sequence[str], is_binary: bool, folder: str) -> None:
    what = "right and wrong responses" if is_binary else "responses of quality ≥ ½ (right) and < ½ (wrong)"
    splits = [records.split(score) for score in drawn]
    plots.distributions(os.path.join(folder, "distributions"), splits, f"Scores of {what}")


def _plane(records: _Pooled, pair: tuple[str, str], folder: str) -> None:
    """The paper's EU–AU plane."""
    both = np.isfinite(records.values(pair[0])) & np.isfinite(records.values(pair[1]))
    horizontal, vertical = (records.split(name, both) for name in pair)
    plots.plane(os.path.join(folder, "eu-au"), horizontal, vertical, "Epistemic and aleatoric uncertainty (nats)")


def _groups(
    records: _Pooled, drawn: Sequence[str], groups: Sequence[Findings], metric: str, settings: Settings, folder: str
) -> None:
    names = [group.group or "" for group in groups]
    members = [np.array([name == group for name in records.group]) for group in names]
    splits = {score: [records.split(score, part) for part in members] for score in drawn}
    by_score = {score: np.array([_metric(group, score, metric) for group in groups]) for score in drawn}
    plots.groups(
        os.path.join(folder, "groups"),
        names,
        splits,
        by_score,
        f"{TITLES[metric]} and scores by {settings.group_by}",
        TITLES[metric],
    )


def _metric(findings: Findings, score: str, metric: str) -> float:
    value = next(one for one in findings.scores if one.score == score).metrics[metric].value
    return math.nan if value is None else value


def _scaling(curves: ScalingFindings, drawn: Sequence[str], settings: Settings, folder: str) -> None:
    by_key = {(curve.score, curve.method): curve for curve in curves.curves}
    sizes = np.array(settings.sizes, dtype=np.float64)
    for method, name in (("maj", "Maj@N"), ("wbon", "WBoN")):
        found = [_line(score, by_key[score, method], settings) for score in drawn if (score, method) in by_key]
        found = [*found[: plots.MOST_LINES - 1], _line("majority of all N", by_key[None, "majority"], settings)]
        one = by_key[None, "pass@1"].points[max(settings.sizes)].value
        plots.lines(
            os.path.join(folder, f"scaling-{method}"),
            found,
            title=f"{name} among the most confident {float(100 * settings.keep):g} % of N responses",
            x_label="N responses a question",
            y_label="accuracy (mean ± std)",
            reference=plots.Line("Pass@1", sizes, np.full(len(sizes), one, dtype=np.float64)),
            markers=True,
            sizes=settings.sizes,
        )


def _line(name: str, curve: Curve, settings: Settings) -> plots.Line:
    points = [curve.points[size] for size in settings.sizes]
    means = np.array([point.value for point in points], dtype=np.float64)
    spread = np.array([point.std or 0.0 for point in points])
    return plots.Line(name, np.array(settings.sizes, dtype=np.float64), means, spread)


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """A curve with its ends and at most ``MOST_POINTS`` of its points."""
    if len(x) <= MOST_POINTS:
        return x, y
    kept = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).round().astype(np.intp))
    return x[kept], y[kept]
