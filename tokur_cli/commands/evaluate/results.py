"""The results of ``tokur evaluate``, of all runs together, and as rows of JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Equivalence
from tokur_cli.commands.evaluate.choice import baselines
from tokur_cli.commands.evaluate.questions import samples_of
from tokur_cli.commands.evaluate.reading import Columns, group_names
from tokur_cli.commands.options.evaluate import EvaluationOptions
from tokur_cli.metrics.adaptive_consistency import stopping
from tokur_cli.metrics.catalogue import leading
from tokur_cli.metrics.estimate import Estimate, over_runs
from tokur_cli.metrics.evaluation import Evaluation, evaluate_scores
from tokur_cli.metrics.scaling import Scaling
from tokur_cli.records.errors import TokurError


@dataclass(frozen=True, slots=True)
class Results:
    """What all scores achieve."""

    overall: Evaluation  # on all records
    groups: dict[str, Evaluation]  # on each group of records, by its name, in order; empty where none was asked for
    outcomes: Counter[str]  # how often each outcome came out
    scaling: Scaling | None  # among N responses per question; None where that was not asked for
    # Of votes that end when they are settled, by the level; empty where that was not asked for
    stopping: Mapping[float, Mapping[str, Estimate]]
    options: EvaluationOptions  # how they were evaluated
    # How the probabilities were fitted that the scores stand for; empty where they stand for themselves
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
        evaluation = evaluate_scores(
            {name: run.confidence(name)[members] for name in dict.fromkeys((*names, *against)) if name in run.scores},
            label,
            cluster=np.array(run.question)[members],
            response=np.array(run.response)[members] if run.wanted.spans else None,
            length=None if run.wanted.spans else np.array(run.length)[members],
            probabilities=[name for name in names if name in run.probabilities],
            baselines=against,
            bootstrap=options.bootstrap,
            seed=options.seed,
        )
        found.append(evaluation._replace(scores={name: evaluation.scores[name] for name in names}))
    together: Evaluation = over_runs(found or [evaluate_scores({}, ())])
    return together


def _votes(
    runs: Sequence[Columns], names: Sequence[str], options: EvaluationOptions
) -> tuple[Scaling, dict[float, dict[str, Estimate]]]:
    """Return what votes among N give, and those that end when they are settled."""
    curves = Scaling(options.sizes, repeats=options.repeats, keep=options.kept, seed=options.seed)
    stopped: list[dict[float, dict[str, Estimate]]] = []
    with Equivalence() as equivalence:
        for run in runs:
            label, question = np.array(run.label), np.array(run.question)
            if np.isin(question, question[np.isnan(label)]).all():
                raise TokurError(f"--scaling: in {run.name} every question has a response without a label")
            samples, classes = samples_of(run), np.empty(len(label), dtype=object)
            for places in samples:
                classes[places] = answer_classes([run.answer[place] for place in places], equivalence)
            answers, length, most = classes.tolist(), np.array(run.length), max(options.sizes)
            curves.add(samples, answers, label, {name: run.confidence(name) for name in names})
            how = {"repeats": options.repeats, "resamples": options.bootstrap, "seed": options.seed}
            levels = options.levels
            stopped.append({one: stopping(samples, answers, label, length, most, one, **how) for one in levels})
    return curves, {level: over_runs([of_run[level] for of_run in stopped]) for level in options.levels}


def verdicts(evaluation: Evaluation, name: str) -> dict[str, Estimate]:
    """Return by baseline the differences in the leading metric that say whether a score is better or worse."""
    if evaluation.undecided is not None:
        return {}
    leads = leading(is_binary=evaluation.is_binary).name
    differences = evaluation.scores[name].differences
    return {other: found[leads] for other, found in differences.items() if leads in found and found[leads].verdict}


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
            missing = evaluation.records - score.records
            row = {"score": name, **method, **common, "records": score.records, "missing": missing}
            row |= {metric: estimate.as_json() for metric, estimate in score.metrics.items()}
            if found := verdicts(evaluation, name):
                row["verdicts"] = {
                    other: {"verdict": estimate.verdict, "difference": {leads: estimate.as_json()}}
                    for other, estimate in found.items()
                }
            if versus is not None and name != versus:
                row["versus"] = versus
                differences = score.differences.get(versus, {})
                row["difference"] = {metric: estimate.as_json() for metric, estimate in differences.items()}
            if curves is not None:
                row["scaling"] = _points(curves, name)
            rows.append(row)
        if curves is not None:
            stopped = [
                {"stop_at": level, "n": max(results.options.sizes)}
                | {name: estimate.as_json() for name, estimate in of.items()}
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
