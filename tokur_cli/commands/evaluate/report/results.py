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
from tokur_cli.metrics.catalogue import leading
from tokur_cli.metrics.evaluation import Evaluation, Plan, evaluate_scores
from tokur_cli.metrics.ranked import Floats
from tokur_cli.metrics.scaling import Scaling, scaling
from tokur_cli.metrics.stopping import EndingEarly, Rule, Stopped, stopping
from tokur_cli.records.errors import TokurError
from tokur_cli.scores.calibration import P_CORRECT
from tokur_cli.scores.catalogue import GROUP_TOKENS, group_confidences

_WHOLE = 16  # responses that DeepConf draws whole
_REACHED = (0.1, 0.9)  # by these parts of them, its thresholds


@dataclass(frozen=True, slots=True)
class Results:
    """What all scores achieve.

    Attributes:
        overall: on all records.
        groups: on each group of records, by its name, in order; empty where none was asked for.
        outcomes: how often each outcome came out.
        scaling: among N responses per question; None where that was not asked for.
        stopping: of votes that end when they are settled, by the rule; empty where that was not asked for.
        options: how they were evaluated.
        methods: how the probabilities were fitted that the scores stand for; empty where they stand for themselves.
    """

    overall: Evaluation
    groups: dict[str, Evaluation]
    outcomes: Counter[str]
    scaling: Scaling | None
    stopping: Mapping[Rule | EndingEarly, Stopped]
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
) -> tuple[Scaling, dict[Rule | EndingEarly, Stopped]]:
    """Return what votes among N give, and those that end when they are settled."""
    for run in runs:
        incomplete = np.array(run.question)[np.isnan(np.array(run.label))]
        if np.isin(np.array(run.question), incomplete).all():
            raise TokurError(f"--scaling: in {run.name} every question has a response without a label")
    with Equivalence() as equivalence:
        classes = [_classes(run, equivalence) for run in runs]
    curves = [_scaling(run, of, names, options) for run, of in zip(runs, classes, strict=True)]
    rules: list[Rule | EndingEarly] = []
    if options.levels:
        ways = (False, True) if P_CORRECT in names else (False,)
        rules += [Rule(is_weighted, level) for is_weighted in ways for level in options.levels]
        rules += _ending_early(runs, max(options.sizes))
    stopped = [_stopping(run, of, options, rules) for run, of in zip(runs, classes, strict=True)]
    return Scaling.over_runs(curves), {
        rule: Stopped.over_runs([of_run[rule] for of_run in stopped]) for rule in stopped[0]
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
        keep=options.kept.part,
        least=options.kept.least,
        seed=options.seed,
    )


def _ending_early(runs: Sequence[Columns], size: int) -> list[EndingEarly]:
    """Return DeepConf's online rules, where all tokens have their confidence.

    Where there are too few responses, the first half is drawn whole; where they are short, a window is a quarter of the
    median one.
    """
    lengths = [len(tokens) for run in runs for tokens in run.confidences]
    known = all(np.isfinite(tokens).all() for run in runs for tokens in run.confidences)
    if not lengths or not min(lengths) or not known:
        return []
    window = min(GROUP_TOKENS, max(1, int(np.median(lengths)) // 4))
    return [EndingEarly(part, min(_WHOLE, max(1, size // 2)), window) for part in _REACHED]


def _stopping(
    run: Columns, classes: NDArray[np.intp], options: EvaluationOptions, rules: Sequence[Rule | EndingEarly]
) -> dict[Rule | EndingEarly, Stopped]:
    if not rules:
        return {}
    order = run.in_order()
    windows = {rule.window for rule in rules if isinstance(rule, EndingEarly)}
    return stopping(
        np.array(run.question)[order],
        classes,
        np.array(run.label)[order],
        np.array(run.length)[order],
        max(options.sizes),
        rules,
        probability=run.confidence(P_CORRECT)[order] if P_CORRECT in run.scores else None,
        lowest=[_lowest(run.confidences[place], *windows) for place in order] if windows else None,
        repeats=options.repeats,
        resamples=options.bootstrap,
        seed=options.seed,
    )


def _lowest(confidences: Sequence[float], window: int) -> Floats:
    lowest: Floats = np.minimum.accumulate(group_confidences(np.array(confidences), window))
    return lowest


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
                row["delong_p"] = score.delong_p
            if curves is not None:
                row["scaling"] = _points(curves, name)
            rows.append(row)
        if curves is not None:
            stopped = [
                {**_described(rule), "n": max(results.options.sizes)}
                | {each.name: getattr(of, each.name).as_json() for each in fields(of)}
                for rule, of in results.stopping.items()
            ]
            more = {"stopping": stopped} if stopped else {}
            rows.append({"score": None, **common, "scaling": _points(curves, None), **more})
    return rows


def _described(rule: Rule | EndingEarly) -> dict[str, Any]:
    if isinstance(rule, EndingEarly):
        return {"stop_at": rule.part, "by": "deepconf", "whole": rule.first, "window": rule.window}
    return {"stop_at": rule.level, "by": P_CORRECT if rule.is_weighted else None}


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
