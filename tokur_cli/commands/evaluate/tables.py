"""The tables of ``tokur evaluate``, and its sentences."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tokur_cli.answers.judging import UNLABELLED
from tokur_cli.commands.evaluate.results import Results
from tokur_cli.commands.options.evaluate import EvaluationOptions
from tokur_cli.metrics.calibration import log_losses
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.evaluation import LOWER_IS_BETTER, Evaluation, ScoreResult
from tokur_cli.metrics.scaling import Scaling
from tokur_cli.metrics.within import WITHIN
from tokur_cli.views.tables import MISSING, Better, Column, Percentage, Row, Table
from tokur_cli.views.visible import paragraphs

TITLES = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "acc": "ACC*",
    "aurc": "AURC",
    "prr": "PRR",
    "brier": "Brier",
    "ece": "ECE",
    "log_loss": "log loss",
    "within": "AUROC within",
    "hit1": "hit@1",
    "hit3": "hit@3",
}
VOTES = {"maj": "Maj@N", "wbon": "WBoN"}
_METHODS = {"pass@1": "Pass@1", "majority": "majority of all N", "pass@n": "Pass@N (any right)"}


def tables(results: Results) -> list[Table]:
    """Return all tables, in the order in which they are shown."""
    found = [
        _metrics_table(results, "Right above wrong", ("auroc", "auprc", "acc")),
        _metrics_table(results, "Rejection and calibration", ("aurc", "prr", "brier", "ece")),
    ]
    if any("log_loss" in score.metrics for score in results.overall.scores.values()):
        found[1 if results.methods else 2 :] = [_probabilities_table(results.overall)]
    if results.options.level == "step":
        found.insert(1, _metrics_table(results, "The wrong spans within their responses", WITHIN))
    if results.options.versus is not None:
        found.append(_comparison_table(results, results.options.versus))
    if results.groups:
        found.append(_group_table(results))
    if results.scaling is not None:
        found += [_scaling_table(results.scaling, method, results.options) for method in VOTES]
    return found


def heading(results: Results) -> str:
    """Return how many records there are, the accuracy, and what was left out and why."""
    overall, outcomes = results.overall, results.outcomes
    runs = f" in {overall.runs} runs" if overall.runs > 1 else ""
    noun = _noun(results)
    parts = [f"{overall.records + overall.unlabelled:,} {noun}s{runs}, {overall.records:,} with a label"]
    if overall.runs == 1 and overall.questions < overall.records:
        parts.append(_count(overall.questions, "question"))
    if overall.accuracy.value is not None:
        what = "accuracy" if overall.is_binary else "mean quality"
        cell = _cell(overall.accuracy)
        parts.append(f"{what} {cell.shown} % {cell.aside(1)}".rstrip())
    labelled = sorted(name for name in outcomes if name not in UNLABELLED)
    parts.append(", ".join(f"{outcomes[name]:,} {name.replace('_', ' ')}" for name in labelled))
    return "; ".join(part for part in parts if part)


def left_out(results: Results) -> list[str]:
    """Return a line for each kind of record without a label, and for each score that labelled records lack."""
    outcomes, noun = results.outcomes, _noun(results)
    lines = [
        f"left out {_count(outcomes[name], noun)} {reason}" for name, reason in UNLABELLED.items() if outcomes[name]
    ]
    missing: dict[int, list[str]] = {}
    for name, score in results.overall.scores.items():
        if score.missing:
            missing.setdefault(score.missing, []).append(name)
    return lines + [
        f"left out for {', '.join(names)}: {_count(count, noun)} without it" for count, names in missing.items()
    ]


def reasons(results: Results) -> list[str]:
    """Return why metrics are not defined, each reason once."""
    told: dict[str, dict[str, None]] = {}
    for score in results.overall.scores.values():
        for metric, estimate in score.metrics.items():
            if estimate.reason:
                told.setdefault(estimate.reason, {})[TITLES[metric]] = None
    if results.options.bootstrap and results.overall.runs == results.overall.questions == 1:
        told["fewer than 2 questions to resample"] = {"intervals": None}
    return [f"no {', '.join(names)}: {reason}" for reason, names in told.items()]


def kept(options: EvaluationOptions) -> str:
    """Return in words which responses vote."""
    return f"among the most confident {float(100 * options.kept_part):g} % of N responses"


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return CSV with a row for each score and group: ``auroc``, ``auroc_low``, …, ``maj@16``, ``maj@16_std``."""
    flat = [{name: _csv_cell(value) for name, value in _flat(row).items()} for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue()


def _csv_cell(value: Any) -> Any:
    """Return a value for CSV; text with pictures for control codes, quoted where a spreadsheet would take a formula."""
    if not isinstance(value, str):
        return value
    text = paragraphs(value)
    return "'" + text if text.lstrip().startswith(("=", "+", "-", "@")) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d+)?", text, re.ASCII) is not None


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name == "scaling":
            for point in value:
                key = f"{point['method'].removesuffix('@n')}@{point['n']}"
                flat[key], flat[f"{key}_std"] = point["mean"], point["std"]
        elif name == "difference":
            for metric, estimate in value.items():
                flat |= _flat_estimate(f"{metric}_difference", estimate)
        elif name == "outcomes":
            flat |= {f"outcome_{outcome}": count for outcome, count in value.items()}
        elif isinstance(value, dict):
            flat |= _flat_estimate(name, value)
        else:
            flat[name] = value
    return flat


def _flat_estimate(name: str, estimate: dict[str, Any]) -> dict[str, Any]:
    parts = {f"{name}_{part}": estimate[part] for part in ("low", "high", "std", "p", "reason") if part in estimate}
    return {name: estimate["value"], **parts}


def _metrics_table(results: Results, title: str, metrics: Sequence[str]) -> Table:
    overall = results.overall
    rows = [Row(name, [_cell(score.metrics[metric]) for metric in metrics]) for name, score in overall.scores.items()]
    if "acc" in metrics:
        baseline = [_cell(overall.accuracy) if metric == "acc" else MISSING for metric in metrics]
        rows.insert(0, Row(f"all {_noun(results)}s", baseline, competes=False))
    arrows = {"lower": "↓", "higher": "↑"}
    columns = [Column(f"{TITLES[metric]} {arrows[_better(metric)]}", _better(metric)) for metric in metrics]
    return Table(f"{title} (%){_interval_note(overall)}", "score", columns, rows)


def _probabilities_table(overall: Evaluation) -> Table:
    """Return how good the scores that are probabilities are as such, beside one probability for all: the accuracy."""
    rows = []
    if overall.is_binary and (mean := overall.accuracy.value) is not None:
        surprise = Estimate(float(log_losses([mean], [mean])[0]))
        rows.append(Row("the accuracy", [Percentage(mean * (1 - mean)), MISSING, _nats(surprise)], competes=False))
    for name, score in overall.scores.items():
        if "log_loss" in score.metrics:
            cells: list[Percentage | str] = [_cell(score.metrics[metric]) for metric in ("brier", "ece")]
            rows.append(Row(name, [*cells, _nats(score.metrics["log_loss"])]))
    columns = [Column("Brier (%) ↓", "lower"), Column("ECE (%) ↓", "lower"), Column("log loss (nats) ↓")]
    return Table(f"Probabilities of being right{_interval_note(overall)}", "score", columns, rows)


def _nats(estimate: Estimate, sign: str = "") -> str:
    if estimate.value is None:
        return MISSING
    aside = f" [{estimate.low:{sign}.3f}, {estimate.high:{sign}.3f}]" if estimate.low is not None else ""
    return f"{estimate.value:{sign}.3f}{aside}"


def _interval_note(overall: Evaluation) -> str:
    if overall.runs > 1:
        return f", mean ± std over {overall.runs} runs"
    return " with 95 % intervals" if _have_intervals(score.metrics for score in overall.scores.values()) else ""


def _have_intervals(scores: Iterable[Mapping[str, Estimate]]) -> bool:
    return any(estimate.low is not None for metrics in scores for estimate in metrics.values())


def _comparison_table(results: Results, versus: str) -> Table:
    overall = results.overall
    metrics: tuple[str, ...] = ("auroc", "acc") if overall.is_binary else ("prr", "acc")
    if results.options.level == "step":
        metrics = ("auroc", "within")
    elif any("log_loss" in score.differences for score in overall.scores.values()):
        metrics = (metrics[0], "brier", "log_loss")
    columns = []
    for metric in metrics:
        columns += [Column(f"Δ{TITLES[metric]}{' (nats)' * (metric == 'log_loss')}"), Column("p")]
        if metric == "auroc":
            columns.append(Column("DeLong p"))
    others = {name: score for name, score in overall.scores.items() if name != versus}
    rows = [Row(name, _compared(score, metrics), competes=False) for name, score in others.items()]
    title = f"Score − {versus} (percentage points){_interval_note(overall)}, paired"
    notes = []
    if _have_intervals(score.differences for score in others.values()):
        notes = ["where an interval holds 0, these records do not tell which of the two is better"]
    return Table(title, "score", columns, rows, notes)


def _compared(score: ScoreResult, metrics: Sequence[str]) -> list[Percentage | str]:
    cells: list[Percentage | str] = []
    for metric in metrics:
        difference = score.differences.get(metric, Estimate(None))
        shown = _nats(difference, "+") if metric == "log_loss" else replace(_cell(difference), signed=True)
        cells += [shown, _p(difference.p)]
        if metric == "auroc":
            cells.append(_p(score.delong_p))
    return cells


def _group_table(results: Results) -> Table:
    groups = results.groups
    metric = "auroc" if all(group.is_binary for group in groups.values()) else "prr"
    rows = [
        Row(f"{_noun(results)}s", [f"{group.records:,}" for group in groups.values()], competes=False),
        Row("accuracy", [Percentage(group.accuracy.value) for group in groups.values()], competes=False),
    ]
    for score in results.overall.scores:
        rows.append(Row(score, [Percentage(group.scores[score].metrics[metric].value) for group in groups.values()]))
    notes = []
    for name, group in groups.items():
        undefined = dict.fromkeys(score.metrics[metric].reason for score in group.scores.values())
        notes += [f"{name}: {reason}" for reason in undefined if reason]
    columns = [Column(name, _better(metric)) for name in groups]
    return Table(f"{TITLES[metric]} (%) by {results.options.grouping}", "score", columns, rows, notes)


def _scaling_table(curves: Scaling, method: str, options: EvaluationOptions) -> Table:
    def row(title: str, score: str | None, method: str) -> Row:
        cells = [_cell(curves.point(score, method, size)) for size in options.sizes]
        return Row(title, cells, competes=score is not None)

    rows = [row(title, None, plain) for plain, title in _METHODS.items()]
    rows += [row(score, score, method) for score, vote in curves.accuracies if score is not None and vote == method]
    columns = [Column(f"N = {size}", "higher") for size in options.sizes]
    title = f"{VOTES[method]} {kept(options)} (%), mean ± std over the draws"
    notes = [f"{curves.questions:,} questions, {options.repeats} draws each"]
    if curves.unlabelled:
        notes.append(f"left out {curves.unlabelled:,} questions with a response that has no label")
    if curves.fewest < max(options.sizes):
        notes.append(f"a question has only {curves.fewest} responses: where N is larger, it gives all that it has")
    return Table(title, "score", columns, rows, notes)


def _better(metric: str) -> Better:
    return "lower" if metric in LOWER_IS_BETTER else "higher"


def _cell(estimate: Estimate) -> Percentage:
    return Percentage(estimate.value, estimate.low, estimate.high, estimate.std)


def _p(value: float | None) -> str:
    if value is None:
        return MISSING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _noun(results: Results) -> str:
    return "span" if results.options.level == "step" else "record"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"
