"""What was found, ready to be shown: of one run with its intervals, of several as mean ± standard deviation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Equivalence
from tokur_cli.commands.columns import Columns
from tokur_cli.metrics.evaluation import Difference, Estimate, Evaluation, ScoreResult, evaluate
from tokur_cli.metrics.scaling import Scaling, scaling
from tokur_cli.records.errors import TokurError

METRICS = ("auroc", "auprc", "acc", "aurc", "prr", "brier", "ece")


@dataclass(frozen=True, slots=True)
class Settings:
    """How it is evaluated.

    Attributes:
        bootstrap: number of resamples; 0 for no intervals.
        seed: of the resamples, the folds of the calibration and the draws of scaling.
        versus: the baseline; None for no comparison.
        sizes: values of N for scaling; empty for none.
        repeats: draws for each N.
        keep: the part of the N responses that is kept.
        group_by: the field whose value tells the group; None for no groups.
    """

    bootstrap: int = 1000
    seed: int = 0
    versus: str | None = None
    sizes: tuple[int, ...] = ()
    repeats: int = 10
    keep: Fraction = Fraction(1, 10)
    group_by: str | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric of one run, with its interval, or of several, with their standard deviation.

    Attributes:
        value: of one run, or the mean; None where it is not defined.
        low: lower end of the 95 % interval.
        high: upper end.
        p: p-value of no difference.
        std: sample standard deviation (n − 1) over the runs.
        values: one a run in which it is defined; empty for one run.
        reason: why it is not defined.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    std: float | None = None
    values: tuple[float, ...] = ()
    reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        """What there is to say, by name."""
        named = {name: getattr(self, name) for name in ("low", "high", "p", "std", "values", "reason")}
        return {"value": self.value, **{name: value for name, value in named.items() if value not in (None, ())}}


@dataclass(frozen=True, slots=True)
class ScoreFindings:
    """What one score achieves, see ``ScoreResult``; numbers of records are summed over runs."""

    score: str
    records: int
    missing: int
    metrics: dict[str, Figure]
    differences: dict[str, Figure]
    delong_p: float | None


@dataclass(frozen=True, slots=True)
class Findings:
    """What all scores achieve, on all records or on a group.

    Attributes:
        group: the group's name; None for all records.
        runs: how many runs there are.
        records: how many records have a label.
        questions: how many questions these answer, summed over runs.
        unlabelled: how many records have no label.
        accuracy: mean label.
        is_binary: whether every label is right or wrong.
        scores: in the catalogue's order.
        outcomes: how often each outcome came out; empty for a group.
    """

    group: str | None
    runs: int
    records: int
    questions: int
    unlabelled: int
    accuracy: Figure
    is_binary: bool
    scores: list[ScoreFindings]
    outcomes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Curve:
    """Accuracy of one way to choose, by N.

    Attributes:
        score: the score that ranks the responses; None for the methods that need none.
        method: ``maj``, ``wbon``, ``majority``, ``pass@1`` or ``pass@n``.
        points: by N, over all repeats of all runs.
    """

    score: str | None
    method: str
    points: dict[int, Figure]


@dataclass(frozen=True, slots=True)
class ScalingFindings:
    """Scaling curves with what they are computed on, numbers summed over runs; ``fewest`` is the smallest."""

    curves: list[Curve]
    questions: int
    unlabelled: int
    fewest: int


def find(runs: Sequence[Columns], names: Sequence[str], settings: Settings, group: str | None = None) -> Findings:
    """Evaluate every run, or one group of its records.

    Args:
        runs: the records.
        names: the scores.
        settings: how.
        group: the group's name; None for all records.
    """
    found = (_evaluate(run, names, settings, group) for run in runs)
    evaluations = [evaluation for evaluation in found if evaluation is not None]
    outcomes: Counter[str] = Counter()
    if group is None:
        for run in runs:
            outcomes.update(run.outcomes)
    return Findings(
        group,
        len(evaluations),
        sum(evaluation.records for evaluation in evaluations),
        sum(evaluation.questions for evaluation in evaluations),
        sum(evaluation.unlabelled for evaluation in evaluations),
        _over_runs([Estimate(one.accuracy if one.records else None) for one in evaluations]),
        all(evaluation.is_binary for evaluation in evaluations),
        [_combined(name, [_result(one, name) for one in evaluations]) for name in names],
        outcomes,
    )


def find_scaling(runs: Sequence[Columns], names: Sequence[str], settings: Settings) -> ScalingFindings:
    """Scaling curves of every run, the repeats of all runs together.

    Raises:
        TokurError: a run has no question whose responses all have labels.
    """
    for run in runs:
        incomplete = np.array(run.question)[np.isnan(np.array(run.label))]
        if np.isin(np.array(run.question), incomplete).all():
            raise TokurError(f"--scaling: in {run.name} every question has a response without a label")
    with Equivalence() as equivalence:
        found = [_scaling(run, names, settings, equivalence) for run in runs]
    accuracies: dict[tuple[str | None, str], dict[int, list[float]]] = {}
    for one in found:
        for point in one.points:
            curve = accuracies.setdefault((point.score, point.method), {})
            curve.setdefault(point.n, []).extend(point.accuracies)
    curves = [
        Curve(score, method, {n: _spread(values) for n, values in points.items()})
        for (score, method), points in accuracies.items()
    ]
    return ScalingFindings(
        curves,
        sum(one.questions for one in found),
        sum(one.unlabelled for one in found),
        min((one.fewest for one in found if one.questions), default=0),
    )


def _evaluate(run: Columns, names: Sequence[str], settings: Settings, group: str | None) -> Evaluation | None:
    """The evaluation of a run; None if it has no record of the group."""
    members = slice(None) if group is None else np.array([name == group for name in run.group], dtype=bool)
    label = np.array(run.label)[members]
    if not len(label):
        return None
    with np.errstate(invalid="ignore"):  # a resample may hold no record of a score: it counts as undefined
        return evaluate(
            {name: run.confidence(name)[members] for name in names},
            label,
            bootstrap=settings.bootstrap,
            seed=settings.seed,
            versus=settings.versus,
            cluster=np.array(run.question)[members],
        )


def _scaling(run: Columns, names: Sequence[str], settings: Settings, equivalence: Equivalence) -> Scaling:
    order = run.in_order()
    question = np.array(run.question)[order]
    answers = [run.answer[place] for place in order]
    classes = np.full(len(order), -1)
    starts = np.flatnonzero(np.diff(question, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        labels = answer_classes(answers[start:end], equivalence).labels
        classes[start:end] = [-1 if label is None else label for label in labels]
    return scaling(
        question,
        classes,
        np.array(run.label)[order],
        {name: run.confidence(name)[order] for name in names},
        settings.sizes,
        repeats=settings.repeats,
        keep=settings.keep,
        seed=settings.seed,
    )


def _result(evaluation: Evaluation, name: str) -> ScoreResult:
    return next(result for result in evaluation.results if result.score == name)


def _combined(name: str, results: Sequence[ScoreResult]) -> ScoreFindings:
    metrics = {metric: _over_runs([result.metrics[metric] for result in results]) for metric in METRICS}
    compared = {metric: [one.differences[metric] for one in results if metric in one.differences] for metric in METRICS}
    return ScoreFindings(
        name,
        sum(result.records for result in results),
        sum(result.missing for result in results),
        metrics,
        {metric: _difference(found) for metric, found in compared.items() if found},
        results[0].delong_p if len(results) == 1 else None,
    )


def _over_runs(estimates: Sequence[Estimate]) -> Figure:
    if len(estimates) == 1:
        return Figure(estimates[0].value, estimates[0].low, estimates[0].high, reason=estimates[0].reason)
    values = [estimate.value for estimate in estimates if estimate.value is not None]
    if not values:
        return Figure(None, reason=next((estimate.reason for estimate in estimates), None))
    return _spread(values)


def _difference(differences: Sequence[Difference]) -> Figure:
    if len(differences) == 1:
        one = differences[0]
        return Figure(one.value, one.low, one.high, one.p)
    return _spread([difference.value for difference in differences])


def _spread(values: Sequence[float]) -> Figure:
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    if min(values) == max(values) and std is not None:
        std = 0.0  # rounding in the mean must not show
    return Figure(float(np.mean(values)), std=std, values=tuple(values))


def as_rows(findings: Sequence[Findings], curves: ScalingFindings | None, settings: Settings) -> list[dict[str, Any]]:
    """One JSON object a score and group, numbers unrounded; and one without a score for the methods that need none.

    Args:
        findings: of all records, then of the groups.
        curves: scaling, of all records.
        settings: how it was evaluated.
    """
    rows: list[dict[str, Any]] = []
    for one in findings:
        for score in one.scores:
            row = {"score": score.score, **_facts(one), "records": score.records, "missing": score.missing}
            row |= {metric: figure.as_json() for metric, figure in score.metrics.items()}
            if settings.versus is not None and score.score != settings.versus:
                row["versus"] = settings.versus
                row["difference"] = {metric: figure.as_json() for metric, figure in score.differences.items()}
                row["delong_p"] = score.delong_p
            if one.group is None and curves is not None:
                row["scaling"] = _scaling_rows(curves, score.score)
            rows.append(row)
        if one.group is None and curves is not None:
            rows.append({"score": None, **_facts(one), "scaling": _scaling_rows(curves, None)})
    return rows


def _facts(findings: Findings) -> dict[str, Any]:
    facts: dict[str, Any] = {} if findings.group is None else {"group": findings.group}
    if findings.runs > 1:
        facts["runs"] = findings.runs
    facts |= {"labelled": findings.records, "questions": findings.questions, "unlabelled": findings.unlabelled}
    facts["accuracy"] = findings.accuracy.as_json()
    return facts if findings.group is not None else facts | {"outcomes": dict(findings.outcomes)}


def _scaling_rows(curves: ScalingFindings, score: str | None) -> list[dict[str, Any]]:
    return [
        {"method": curve.method, "n": n, **_point(figure)}
        for curve in curves.curves
        if curve.score == score
        for n, figure in curve.points.items()
    ]


def _point(figure: Figure) -> Mapping[str, Any]:
    return {"mean": figure.value, "std": figure.std, "accuracies": figure.values}
