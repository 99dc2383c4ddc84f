"""The results of ``tokur evaluate``, of all runs together, and as rows of JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Equivalence
from tokur_cli.commands.evaluate.choice import baselines
from tokur_cli.commands.evaluate.reading.columns import Columns, group_names
from tokur_cli.commands.options.evaluate import EvaluationOptions
from tokur_cli.metrics.adaptive_consistency import Stopped, stopping
from tokur_cli.metrics.catalogue import leading
from tokur_cli.metrics.evaluation import Evaluation, Plan, evaluate_scores
from tokur_cli.metrics.scaling import Scaling, scaling
from tokur_cli.records.errors import TokurError


@dataclass(frozen=True, slots=True)
class Results:
    """What all scores achieve.

    Attributes:
        overall: on all records.
        groups: on each group of records, by its name, in order; empty where none was asked for.
        outcomes: how often each outcome came out.
        scaling: among N responses per question; None where that was not asked for.
        stopping: of votes that end when they are settled, by the level; empty where that was not asked for.
        options: how they were evaluated.
        methods: how the probabilities were fitted that the scores stand for; empty where they stand for themselves.
    """

    overall: Evaluation
    groups: dict[str, Evaluation]
    outcomes: Counter[str]
    scaling: Scaling | None
    stopping: Mapping[float, Stopped]
    options: EvaluationOptions
    methods: Mapping[str, str] = field(default_factory=dict)


def evaluate_runs(
    runs: Sequence[Columns], names: Sequence[str], options: EvaluationOptions, methods: Mapping[str, str]
) -> Results:
    """Evaluate every run and put the runs together; without names of scores there are neither groups nor scaling."""
    groups = group_names(runs, options.grouping) if names and options.grouping is not None else []
    outcomes: Counter[str] = Counter()
    for run in runs:
        outcomes.update(run.outcomes)
    curves, stopped = _votes(runs, names, options) if names and options.sizes else (None, {})
    return Results(
        _evaluate(runs, names, options),
        {group: _evaluate(runs, names, options, group) for group in groups},
        outcomes,
        curves,
        stopped,
        options,
        methods,
    )


def _evaluate(
    runs: Sequence[Columns], names: Sequence[str], options: EvaluationOptions, group: str | None = None
) -> Evaluation:
    """Evaluate all records, or those of a group in the runs that have any."""
    against = baselines(options) if names else ()
    found = []
    for run in runs:
        members = slice(None) if group is None else np.array([name == group for name in run.group], dtype=bool)
        label = np.array(run.label)[members]
        if not len(label):
            continue
        with np.errstate(invalid="ignore"):  # a resample may hold no record of a score: it counts as undefined
            evaluation = evaluate_scores(
                {name: run.confidence(name)[members] for name in (*names, *against) if name in run.scores},
                label,
                Plan(options.bootstrap, options.seed, options.versus, against),
                cluster=np.array(run.question)[members],
                response=np.array(run.response)[members] if run.wanted.spans else None,
                length=None if run.wanted.spans else np.array(run.length)[members],
                probabilities=[name for name in names if run.is_probability(name)],
            )
        found.append(replace(evaluation, scores={name: evaluation.scores[name] for name in names}))
    return Evaluation.over_runs(found)


def _votes(
    runs: Sequence[Columns], names: Sequence[str], options: EvaluationOptions
) -> tuple[Scaling, dict[float, Stopped]]:
    """Return what votes among N give, and those that end when they are settled."""
    for run in runs:
        incomplete = np.array(run.question)[np.isnan(np.array(run.label))]
        if np.isin(np.array(run.question), incomplete).all():
            raise TokurError(f"--scaling: in {run.name} every question has a response without a label")
    with Equivalence() as equivalence:
        classes = [_classes(run, equivalence) for run in runs]
    curves = [_scaling(run, of, names, options) for run, of in zip(runs, classes, strict=True)]
    stopped = [_stopping(run, of, options) for run, of in zip(runs, classes, strict=True)]
    return Scaling.over_runs(curves), {
        level: Stopped.over_runs([of_run[level] for of_run in stopped]) for level in options.levels
    }


def _classes(run: Columns, equivalence: Equivalence) -> NDArray[np.intp]:
    """Return the number of each response's class of answers among those of its question, -1 for none; in order."""
    order = run.in_order()
    question = np.array(run.question)[order]
    answers = [run.answer[place] for place in order]
    classes = np.full(len(order), -1)
    starts = np.flatnonzero(np.diff(question, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        labels = answer_classes(answers[start:end], equivalence).labels
        classes[start:end] = [-1 if label is None else label for label in labels]
    return classes


def _scaling(run: Columns, classes: NDArray[np.intp], names: Sequence[str], options: EvaluationOptions) -> Scaling:
    order = run.in_order()
    return scaling(
        np.array(run.question)[order],
        classes,
        np.array(run.label)[order],
        {name: run.confidence(name)[order] for name in names},
        options.sizes,
        repeats=options.repeats,
        keep=options.kept,
        seed=options.seed,
    )


def _stopping(run: Columns, classes: NDArray[np.intp], options: EvaluationOptions) -> dict[float, Stopped]:
    order = run.in_order()
    return stopping(
        np.array(run.question)[order],
        classes,
        np.array(run.label)[order],
        np.array(run.length)[order],
        max(options.sizes),
        options.levels,
        repeats=options.repeats,
        resamples=options.bootstrap,
        seed=options.seed,
    )


def as_rows(results: Results) -> list[dict[str, Any]]:
    """Return an object for each score and group, numbers unrounded, and one for the methods that need no score."""
    rows: list[dict[str, Any]] = []
    versus = results.options.versus
    for group, evaluation in [(None, results.overall), *results.groups.items()]:
        common = _counts(evaluation, results.outcomes) if group is None else {"group": group, **_counts(evaluation)}
        curves = results.scaling if group is None else None
        leads = leading(is_binary=evaluation.is_binary).name
        for name, score in evaluation.scores.items():
            method = {"method": results.methods[name]} if name in results.methods else {}
            row = {"score": name, **method, **common, "records": score.records, "missing": score.missing}
            row |= {metric: estimate.as_json() for metric, estimate in score.metrics.items()}
            if verdicts := {other: estimate for other, estimate in score.against.items() if estimate.verdict}:
                row["verdicts"] = {
                    other: {"verdict": estimate.verdict, "difference": {leads: estimate.as_json()}}
                    for other, estimate in verdicts.items()
                }
            if versus is not None and name != versus:
                row["versus"] = versus
                row["difference"] = {metric: estimate.as_json() for metric, estimate in score.differences.items()}
            if curves is not None:
                row["scaling"] = _points(curves, name)
            rows.append(row)
        if curves is not None:
            stopped = [
                {"stop_at": level, "n": max(results.options.sizes)}
                | {each.name: getattr(of, each.name).as_json() for each in fields(of)}
                for level, of in results.stopping.items()
            ]
            more = {"stopping": stopped} if stopped else {}
            rows.append({"score": None, **common, "scaling": _points(curves, None), **more})
    return rows


def _counts(evaluation: Evaluation, outcomes: Counter[str] | None = None) -> dict[str, Any]:
    counts: dict[str, Any] = {"runs": evaluation.runs} if evaluation.runs > 1 else {}
    counts |= {"labelled": evaluation.records, "questions": evaluation.questions, "unlabelled": evaluation.unlabelled}
    counts["accuracy"] = evaluation.accuracy.as_json()
    return counts if outcomes is None else counts | {"outcomes": dict(outcomes)}


def _points(curves: Scaling, score: str | None) -> list[dict[str, Any]]:
    return [
        {"method": method, "n": size, "mean": point.value, "std": point.std, "accuracies": point.values}
        for (ranking, method), curve in curves.accuracies.items()
        if ranking == score
        for size in curve
        for point in [curves.point(score, method, size)]
    ]
