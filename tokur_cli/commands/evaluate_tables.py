"""The tables of ``tokur evaluate``, from what was found."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tokur_cli.commands.findings import Curve, Figure, Findings, ScalingFindings, ScoreFindings, Settings
from tokur_cli.commands.labelling import UNLABELLED
from tokur_cli.metrics.evaluation import LOWER_IS_BETTER
from tokur_cli.scores.catalogue import CATALOGUE
from tokur_cli.views.tables import MISSING, Better, Cell, Column, Row, Table

TITLES = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "acc": "ACC*",
    "aurc": "AURC",
    "prr": "PRR",
    "brier": "Brier",
    "ece": "ECE",
}
_RANKING = ("auroc", "auprc", "acc")
_REJECTION = ("aurc", "prr", "brier", "ece")
_METHODS = {"pass@1": "Pass@1", "majority": "majority of all N", "pass@n": "Pass@N (any right)"}
_VOTES = {"maj": "Maj@N", "wbon": "WBoN"}


def tables(findings: Sequence[Findings], curves: ScalingFindings | None, settings: Settings) -> list[Table]:
    """All tables, in the order in which they are shown.

    Args:
        findings: of all records, then of the groups.
        curves: scaling.
        settings: how it was evaluated.
    """
    everything, *groups = findings
    found = [_metrics_table(everything, "Right above wrong", _RANKING), _rejection_table(everything)]
    if settings.versus is not None:
        found.append(_comparison_table(everything, settings))
    if groups:
        found.append(_group_table(groups, settings))
    if curves is not None:
        found += [_scaling_table(curves, method, settings) for method in _VOTES]
    return found


def heading(findings: Findings) -> str:
    """How many records there are, the accuracy, and what was left out and why."""
    runs = f" in {findings.runs} runs" if findings.runs > 1 else ""
    parts = [f"{findings.records + findings.unlabelled:,} records{runs}, {findings.records:,} with a label"]
    if findings.runs == 1 and findings.questions < findings.records:
        parts.append(f"{findings.questions:,} questions")
    if findings.accuracy.value is not None:
        what = "accuracy" if findings.is_binary else "mean quality"
        cell = _cell(findings.accuracy)
        parts.append(f"{what} {cell.shown} % {cell.aside(1)}".rstrip())
    labelled = [name for name in findings.outcomes if name not in UNLABELLED]
    parts.append(", ".join(f"{findings.outcomes[name]:,} {name.replace('_', ' ')}" for name in sorted(labelled)))
    return "; ".join(part for part in parts if part)


def left_out(findings: Findings) -> list[str]:
    """A line for each kind of record without a label, and for each score that labelled records lack."""
    lines = [
        f"left out {_count(findings.outcomes[name])} {reason}"
        for name, reason in UNLABELLED.items()
        if findings.outcomes[name]
    ]
    missing: dict[int, list[str]] = {}
    for score in findings.scores:
        if score.missing:
            missing.setdefault(score.missing, []).append(score.score)
    return lines + [f"left out for {', '.join(names)}: {_count(count)} without it" for count, names in missing.items()]


def reasons(findings: Findings) -> list[str]:
    """Why metrics are not defined, each reason once."""
    told: dict[str, dict[str, None]] = {}
    for score in findings.scores:
        for metric, figure in score.metrics.items():
            if figure.reason:
                told.setdefault(figure.reason, {})[TITLES[metric]] = None
    return [f"no {', '.join(names)}: {reason}" for reason, names in told.items()]


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """The JSON rows as CSV, a row a score and group: ``auroc``, ``auroc_low``, …, ``maj@16``, ``maj@16_std``, …."""
    flat = [_flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name == "scaling":
            for point in value:
                key = f"{point['method'].removesuffix('@n')}@{point['n']}"
                flat[key], flat[f"{key}_std"] = point["mean"], point["std"]
        elif name == "difference":
            for metric, figure in value.items():
                flat |= _flat_figure(f"{metric}_difference", figure)
        elif name == "outcomes":
            flat |= {f"outcome_{outcome}": count for outcome, count in value.items()}
        elif isinstance(value, dict):
            flat |= _flat_figure(name, value)
        else:
            flat[name] = value
    return flat


def _flat_figure(name: str, figure: dict[str, Any]) -> dict[str, Any]:
    parts = {f"{name}_{part}": figure[part] for part in ("low", "high", "std", "p", "reason") if part in figure}
    return {name: figure["value"], **parts}


def _metrics_table(findings: Findings, title: str, metrics: Sequence[str]) -> Table:
    columns = [_column(metric) for metric in metrics]
    rows = [Row(score.score, [_cell(score.metrics[metric]) for metric in metrics]) for score in findings.scores]
    baseline = [_cell(findings.accuracy) if metric == "acc" else MISSING for metric in metrics]
    return Table(
        f"{title} (%){_interval_note(findings)}",
        "score",
        columns,
        [Row("all records", baseline, competes=False), *rows],
    )


def _rejection_table(findings: Findings) -> Table:
    columns = [_column(metric) for metric in _REJECTION]
    rows = [Row(score.score, [_cell(score.metrics[metric]) for metric in _REJECTION]) for score in findings.scores]
    return Table(f"Rejection and calibration (%){_interval_note(findings)}", "score", columns, rows)


def _interval_note(findings: Findings) -> str:
    if findings.runs > 1:
        return f", mean ± std over {findings.runs} runs"
    has_interval = any(figure.low is not None for score in findings.scores for figure in score.metrics.values())
    return " with 95 % intervals" if has_interval else ""


def _comparison_table(findings: Findings, settings: Settings) -> Table:
    metrics = ("auroc", "acc") if findings.is_binary else ("prr", "acc")
    columns = []
    for metric in metrics:
        columns += [Column(f"Δ{TITLES[metric]}"), Column("p")]
        if metric == "auroc":
            columns.append(Column("DeLong p"))
    rows = []
    for score in findings.scores:
        if score.score != settings.versus:
            rows.append(Row(score.score, _compared(score, metrics), competes=False))
    title = f"Score − {settings.versus} (percentage points){_interval_note(findings)}, paired"
    has_interval = any(figure.low is not None for score in findings.scores for figure in score.differences.values())
    notes = ["where an interval holds 0, these records do not tell which of the two is better"] if has_interval else []
    return Table(title, "score", columns, rows, notes)


def _compared(score: ScoreFindings, metrics: Sequence[str]) -> list[Cell | str]:
    cells: list[Cell | str] = []
    for metric in metrics:
        figure = score.differences.get(metric)
        cells += [MISSING if figure is None else replace(_cell(figure), signed=True), _p(figure.p if figure else None)]
        if metric == "auroc":
            cells.append(_p(score.delong_p))
    return cells


def _group_table(groups: Sequence[Findings], settings: Settings) -> Table:
    metric = "auroc" if all(group.is_binary for group in groups) else "prr"
    rows = [
        Row("records", [f"{group.records:,}" for group in groups], competes=False),
        Row("accuracy", [Cell(group.accuracy.value) for group in groups], competes=False),
    ]
    for place, score in enumerate(groups[0].scores):
        cells = [Cell(group.scores[place].metrics[metric].value) for group in groups]
        rows.append(Row(score.score, cells))
    columns = [Column(group.group or "", _better(metric)) for group in groups]
    notes = []
    for group in groups:
        undefined = {score.metrics[metric].reason: None for score in group.scores if score.metrics[metric].reason}
        notes += [f"{group.group}: {reason}" for reason in undefined]
    return Table(f"{TITLES[metric]} (%) by {settings.group_by}", "score", columns, rows, notes)


def _scaling_table(curves: ScalingFindings, method: str, settings: Settings) -> Table:
    columns = [Column(f"N = {size}", "higher") for size in settings.sizes]
    plain = {curve.method: curve for curve in curves.curves if curve.score is None}
    rows = [Row(title, _points(plain[name], settings), competes=False) for name, title in _METHODS.items()]
    rows += [
        Row(curve.score, _points(curve, settings))
        for curve in curves.curves
        if curve.method == method and curve.score in CATALOGUE
    ]
    keep = f"{float(100 * settings.keep):g} %"
    title = f"{_VOTES[method]} among the most confident {keep} of N responses (%), mean ± std over the draws"
    return Table(title, "score", columns, rows, _scaling_notes(curves, settings))


def _scaling_notes(curves: ScalingFindings, settings: Settings) -> list[str]:
    notes = [f"{curves.questions:,} questions, {settings.repeats} draws each"]
    if curves.unlabelled:
        notes.append(f"left out {curves.unlabelled:,} questions with a response that has no label")
    if curves.fewest < max(settings.sizes):
        notes.append(f"a question has only {curves.fewest} responses: where N is larger, it gives all that it has")
    return notes


def _points(curve: Curve, settings: Settings) -> list[Cell | str]:
    return [_cell(curve.points[size]) for size in settings.sizes]


def _better(metric: str) -> Better:
    return "lower" if metric in LOWER_IS_BETTER else "higher"


def _column(metric: str) -> Column:
    better = _better(metric)
    return Column(f"{TITLES[metric]} {'↓' if better == 'lower' else '↑'}", better)


def _cell(figure: Figure) -> Cell:
    return Cell(figure.value, figure.low, figure.high, figure.std)


def _p(value: float | None) -> str:
    if value is None:
        return MISSING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _count(number: int) -> str:
    return f"{number:,} record{'s' if number != 1 else ''}"
