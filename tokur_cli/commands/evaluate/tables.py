"""The tables of ``tokur evaluate``, and its sentences."""

from __future__ import annotations

from collections.abc import Sequence

from tokur_cli.answers.grading import UNLABELLED
from tokur_cli.commands.evaluate.choice import baselines
from tokur_cli.commands.evaluate.results import Results, verdicts
from tokur_cli.commands.options.evaluate import EvaluationOptions
from tokur_cli.metrics.catalogue import METRICS, Metric, leading
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.evaluation import Evaluation
from tokur_cli.metrics.scaling import Scaling
from tokur_cli.records.errors import count_of
from tokur_cli.scores.catalogue import LENGTH
from tokur_cli.views.tables import MISSING, Cell, Column, Row, Table

VOTES = {"maj": "Maj@N", "wbon": "WBoN"}
FEW_QUESTIONS = 40  # of fewer questions the percentile bootstrap's 95 % intervals cover 88 to 91 %
_METHODS = {"pass@1": "Pass@1", "majority": "majority of all N", "pass@n": "Pass@N (any correct)"}


def tables(results: Results) -> list[Table]:
    """Return all tables, in the order in which they are shown."""
    titles = dict.fromkeys(metric.table for metric in METRICS.values())
    found = [_metric_table(results, title, metrics) for title in titles if (metrics := _having(results.overall, title))]
    if results.options.versus is not None:
        found.append(_comparison_table(results, results.options.versus))
    if any(verdicts(results.overall, name) for name in results.overall.scores):
        found.append(_verdict_table(results))
    if results.groups:
        found.append(_group_table(results))
    if results.scaling is not None:
        found += [_scaling_table(results.scaling, method, results.options) for method in VOTES]
    if results.stopping:
        found.append(_stopping_table(results))
    return found


def heading(results: Results) -> str:
    """Return how many records there are, the accuracy, and what was left out and why."""
    overall, outcomes = results.overall, results.outcomes
    runs = f" in {overall.runs} runs" if overall.runs > 1 else ""
    noun = _noun(results)
    parts = [f"{count_of(overall.records + overall.unlabelled, noun)}{runs}, {overall.records:,} with a label"]
    if overall.runs == 1 and overall.questions < overall.records:
        parts.append(count_of(overall.questions, "question"))
    if overall.accuracy.value is not None:
        what = "accuracy" if overall.is_binary else "mean quality"
        cell = figure(overall.accuracy)
        parts.append(f"{what} {cell.text} % {cell.aside}".rstrip())
    labelled = sorted(name for name in outcomes if name not in UNLABELLED)
    parts.append(", ".join(f"{outcomes[name]:,} {name.replace('_', ' ')}" for name in labelled))
    return "; ".join(part for part in parts if part)


def left_out(results: Results) -> list[str]:
    """Return a line for each kind of record without a label, and for each score that labelled records lack."""
    outcomes, noun = results.outcomes, _noun(results)
    lines = [f"skipped {count_of(outcomes[name], noun)} {why}" for name, why in UNLABELLED.items() if outcomes[name]]
    missing: dict[int, list[str]] = {}
    for name, score in results.overall.scores.items():
        missing.setdefault(results.overall.records - score.records, []).append(name)
    lacking = ((count_of(count, noun), ", ".join(names)) for count, names in missing.items() if count)
    return lines + [f"skipped for {names}: {records} without it" for records, names in lacking]


def reasons(results: Results) -> list[str]:
    """Return why metrics are not defined, each reason once."""
    found: dict[str, dict[str, None]] = {}
    bootstrap, scores = results.options.bootstrap, results.overall.scores.values()
    for score in scores:
        for metric, estimate in score.metrics.items():
            if estimate.reason:
                found.setdefault(estimate.reason, {})[METRICS[metric].title] = None
    if bootstrap and results.overall.undecided and any(score.differences for score in scores):
        found.setdefault(results.overall.undecided, {})["verdicts"] = None
    if bootstrap and results.overall.runs == results.overall.questions == 1:
        found["fewer than 2 questions to resample"] = {"intervals": None}
    return [f"no {', '.join(names)}: {reason}" for reason, names in found.items()]


def kept(options: EvaluationOptions) -> str:
    """Return in words which responses vote."""
    percent, minimum = float(100 * options.kept.fraction), options.kept.minimum
    return f"among the most confident {percent:g} %{f', at least {minimum},' * (minimum > 1)} of N responses"


def _having(overall: Evaluation, title: str) -> list[Metric]:
    """Return the metrics of a table in which any score has a figure."""
    return [
        metric
        for name, metric in METRICS.items()
        if metric.table == title
        and any(name in score.metrics and score.metrics[name].value is not None for score in overall.scores.values())
    ]


def _metric_table(results: Results, title: str, metrics: Sequence[Metric]) -> Table:
    rows = [
        Row(name, [figure(score.metrics.get(metric.name, Estimate(None)), metric.unit) for metric in metrics])
        for name, score in results.overall.scores.items()
    ]
    arrows = {"lower": "↓", "higher": "↑"}
    columns = [Column(f"{metric.title}{_unit(metric)} {arrows[metric.better]}", metric.better) for metric in metrics]
    return Table(title.format(noun=_noun(results)) + _in_brackets("%", results.overall), "score", columns, rows)


def _unit(metric: Metric) -> str:
    """Return the unit of a column in a table of percentages."""
    return "" if metric.unit == "%" else f" ({metric.unit})"


def _in_brackets(unit: str, overall: Evaluation) -> str:
    """Return the unit of a table's figures, and what stands beside them."""
    aside = ""
    if overall.runs > 1:
        aside = f"mean ± std over {overall.runs} runs"
    elif any(estimate.low is not None for score in overall.scores.values() for estimate in score.metrics.values()):
        few = f", too narrow for fewer than {FEW_QUESTIONS} questions" if overall.questions < FEW_QUESTIONS else ""
        aside = f"95 % CI{few}"
    said = ", ".join(filter(None, (unit, aside)))
    return f" ({said})" if said else ""


def figure(estimate: Estimate, unit: str = "%", *, signed: bool = False) -> Cell:
    """Return a figure with its interval, to a decimal less, or its standard deviation."""
    scale, decimals = (100, 2) if unit == "%" else (1, 3)

    def rounded(value: float, places: int) -> str:
        number = round(scale * value, places) + 0.0  # -0.0 would show its sign
        return f"{number:{'+' if signed and number else ''}.{places}f}"

    if estimate.value is None:
        return Cell(MISSING)
    aside = "" if estimate.std is None else f"±{scale * estimate.std:.{decimals}f}"
    if not aside and estimate.low is not None and estimate.high is not None:
        aside = f"[{rounded(estimate.low, decimals - 1)}, {rounded(estimate.high, decimals - 1)}]"
    return Cell(rounded(estimate.value, decimals), aside)


def _comparison_table(results: Results, versus: str) -> Table:
    others = {name: one.differences.get(versus, {}) for name, one in results.overall.scores.items() if name != versus}
    compared = {name for differences in others.values() for name in differences}
    leads = leading(is_binary=results.overall.is_binary)
    metrics = [leads, *(metric for name, metric in METRICS.items() if metric.compared and name in compared)]
    has_p = any(gap.p is not None for differences in others.values() for gap in differences.values())
    columns: list[Column] = []
    rows: dict[str, list[Cell]] = {name: [] for name in others}
    for metric in metrics:
        columns += [Column(f"Δ{metric.title}{_unit(metric)}"), *[Column("p")] * has_p]
        for name, differences in others.items():
            difference = differences.get(metric.name, Estimate(None))
            rows[name] += [figure(difference, metric.unit, signed=True), *[Cell(_p(difference.p))] * has_p]
    title = f"Score − {versus}, paired" + _in_brackets("percentage points", results.overall)
    return Table(title, "score", columns, [Row(name, cells, competes=False) for name, cells in rows.items()])


def _verdict_table(results: Results) -> Table:
    found = {name: verdicts(results.overall, name) for name in results.overall.scores}
    others = [name for name in baselines(results.options) if any(name in of for of in found.values())]
    columns = [Column("against the length" if other == LENGTH else f"against {other}") for other in others]
    rows = [
        Row(name, [Cell(f"{of[one].verdict} {one}" if one in of else MISSING) for one in others], competes=False)
        for name, of in found.items()
    ]
    metric = leading(is_binary=results.overall.is_binary)
    notes = ["about 1 in 20 of these verdicts is a false alarm"]
    return Table(f"Verdicts by the paired 95 % intervals of Δ{metric.title}", "score", columns, rows, notes)


def _group_table(results: Results) -> Table:
    groups = results.groups
    metric = leading(is_binary=all(group.is_binary for group in groups.values()))
    rows = [
        Row(f"{_noun(results)}s", [Cell(f"{group.records:,}") for group in groups.values()], competes=False),
        Row("accuracy", [figure(Estimate(group.accuracy.value)) for group in groups.values()], competes=False),
    ]
    for name in results.overall.scores:
        values = [group.scores[name].metrics[metric.name].value for group in groups.values()]
        rows.append(Row(name, [figure(Estimate(value)) for value in values]))
    notes = []
    for name, group in groups.items():
        undefined = dict.fromkeys(score.metrics[metric.name].reason for score in group.scores.values())
        notes += [f"{name}: {reason}" for reason in undefined if reason]
    columns = [Column(name, metric.better) for name in groups]
    return Table(f"{metric.title} (%) by {results.options.grouping}", "score", columns, rows, notes)


def _scaling_table(curves: Scaling, method: str, options: EvaluationOptions) -> Table:
    def row(title: str, score: str | None, method: str) -> Row:
        cells = [figure(curves.point(score, method, size)) for size in options.sizes]
        return Row(title, cells, competes=score is not None)

    rows = [row(title, None, plain) for plain, title in _METHODS.items()]
    rows += [row(score, score, method) for score, vote in curves.accuracies if score is not None and vote == method]
    columns = [Column(f"N = {size}", "higher") for size in options.sizes]
    title = f"{VOTES[method]} {kept(options)} (%), mean ± std over the draws"
    notes = [f"{count_of(curves.questions, 'question')}, {options.repeats} draws each"]
    if curves.unlabelled:
        notes.append(f"skipped {count_of(curves.unlabelled, 'question')} with a response that has no label")
    if curves.fewest < max(options.sizes):
        notes.append(f"a question has only {curves.fewest} responses: where N is larger, it gives all that it has")
    return Table(title, "score", columns, rows, notes)


def _stopping_table(results: Results) -> Table:
    rows = []
    for level, of in results.stopping.items():
        cells = [figure(estimate, signed=name == "difference") for name, estimate in of.items()]
        rows.append(Row(f"stop at {level:g}", cells, competes=False))
    columns = [Column(title) for title in ("accuracy", "− all N", "tokens of all N", "samples of all N", "settled")]
    title = f"The vote ends when it is settled, at most N = {max(results.options.sizes)}"
    return Table(title + _in_brackets("%", results.overall), "", columns, rows)


def _p(value: float | None) -> str:
    if value is None:
        return MISSING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _noun(results: Results) -> str:
    return {"step": "span", "question": "question"}.get(results.options.level, "record")
