"""The responses to look at first: those that the model is least sure of, a line each."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tokur_cli.answers.judging import Labelled
from tokur_cli.commands.options.evaluate import EvaluationOptions, EvaluationOutput
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.labelled import Labeller
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.commands.shared.scored_tokens import scored_tokens
from tokur_cli.records.encoding import encode_value
from tokur_cli.records.errors import RecordError, TokurError, UsageError
from tokur_cli.records.outputs import writing_whole
from tokur_cli.records.record import Record
from tokur_cli.records.streams import STDIN, display_name
from tokur_cli.scores.catalogue import Score, choose_scores
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.views.heatmap.steps import doubtful_step, steps_of
from tokur_cli.views.tables import MISSING, table_console
from tokur_cli.views.visible import picture, shorten, width_of

if TYPE_CHECKING:
    from rich.console import Console

COMMAND = "evaluate"
DEFAULT_SCORE = "eu"
_MOST_COLUMNS = 24  # of an answer and of an id
_GAP = 2


def show_worst(
    paths: Sequence[str],
    source: InputOptions,
    options: EvaluationOptions,
    labels: LabelOptions,
    target: EvaluationOutput,
    count: int,
) -> None:
    """Print the least sure responses by one score, the least sure one first; of equals the one that was read first."""
    score = _chosen(options)
    invalid = InvalidRecords(COMMAND, source.skip_invalid)
    lines, records, without = _read(paths, source, labels, score, invalid, count)
    if not records + without:
        invalid.finish(none_of=", ".join(map(display_name, paths)))
        return
    if not records:
        raise TokurError(f"no record has the score {score.name}: run tokur score first, or name another with --scores")
    if without:
        say(COMMAND, f"left out {without:,} record{'s' * (without != 1)} without {score.name}")
    with writing_whole(target.path or STDIN) as file:
        if target.is_table:
            with table_console(file) as console:
                _print(lines, records, score, console)
        else:
            file.writelines(encode_value(line).decode("utf-8") + "\n" for line in lines)
    invalid.finish()


def _chosen(options: EvaluationOptions) -> Score:
    scores = choose_scores(options.scores or DEFAULT_SCORE)
    if len(scores) > 1:
        raise UsageError(f"--worst ranks by one score, and --scores {options.scores} names {len(scores)}")
    return scores[0]


def _read(
    paths: Sequence[str],
    source: InputOptions,
    labels: LabelOptions,
    score: Score,
    invalid: InvalidRecords,
    count: int,
) -> tuple[list[dict[str, Any]], int, int]:
    """Return the least sure of the records that have the score, how many these are, and how many lack it."""
    records = without = 0
    least: list[tuple[float, int, dict[str, Any]]] = []
    sign = 1.0 if score.orientation == "uncertainty" else -1.0
    with Labeller(labels, invalid, is_strict=False) as labelling:
        for path in paths:
            for labelled in labelling.good(read_input(COMMAND, replace(source, path=path))):
                try:
                    record = labelled.record
                    value = record.number(f'"tokur.scores.{score.name}"', record.scores.get(score.name))
                    if value is None:
                        without += 1
                        continue
                    records += 1
                    entry = sign * value, -records
                    if len(least) == count and entry < least[0][:2]:
                        continue
                    line = _line(labelled, score, value)
                    (heapq.heappush if len(least) < count else heapq.heapreplace)(least, (*entry, line))
                except RecordError as error:
                    invalid.skip_or_raise(error)
    return [line for _, _, line in sorted(least, reverse=True)], records, without


def _line(labelled: Labelled, score: Score, value: float) -> dict[str, Any]:
    record = labelled.record
    label = None if math.isnan(labelled.label) else labelled.label
    return {
        "id": record.id,
        "sample": record.sample,
        "place": f"{record.source}:{record.line}",
        "score": score.name,
        "value": value,
        "answer": labelled.answer,
        "reference": record.reference,
        "correct": label if label not in (0.0, 1.0) else label == 1.0,
        "step": _least_sure_step(record, score),
    }


def _least_sure_step(record: Record, score: Score) -> dict[str, Any] | None:
    """Return the least sure step by the quantity that the score is made of, else by the first that the record has.

    None without the values of single tokens.
    """
    tokens = record.computed("tokens")
    if not isinstance(tokens, dict):
        return None
    names = [name for name in (*score.needs, *QUANTITIES) if name in QUANTITIES]
    quantity = next((QUANTITIES[name] for name in names if name in tokens), None)
    if quantity is None:
        return None
    response = scored_tokens(record, [quantity.name])
    steps = steps_of(response.steps, response.values[quantity.name], quantity)
    index = doubtful_step(steps)
    if index is None:
        return None
    step = steps[index]
    text = response.response[step.start : step.end].strip()
    return {"start": step.start, "end": step.end, "text": text, "quantity": quantity.name, "sum": step.total}


def _print(lines: Sequence[Mapping[str, Any]], records: int, score: Score, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    titles = [score.name, "", "answer", "id", "sample", "the least sure step"]
    rows = [titles, *(_cells(line) for line in lines)]
    if not any(line["sample"] for line in lines):
        rows = [[*row[:4], row[5]] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    room = max(width_of(titles[-1]), console.width - sum(widths[:-1]) - _GAP * (len(widths) - 1))
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for title in rows[0]:
        table.add_column(title, no_wrap=True, justify="right" if title in (score.name, "sample") else "left")
    for row in rows[1:]:
        table.add_row(*map(Text, row[:-1]), Text(shorten(row[-1], room)))
    direction = "higher" if score.orientation == "uncertainty" else "lower"
    console.print(f"the least sure {len(lines):,} of {records:,} responses by {score.name} ({direction} is less sure)")
    console.print()
    console.print(table, crop=False)


def _cells(line: Mapping[str, Any]) -> list[str]:
    answer = MISSING if line["answer"] is None else shorten(picture(line["answer"]), _MOST_COLUMNS)
    name = shorten(picture(line["id"] or line["place"]), _MOST_COLUMNS)
    step = line["step"]["text"] if line["step"] else MISSING
    sample = str(line["sample"])
    return [f"{line['value']:.4g}", _verdict(line["correct"]), answer, name, sample, picture(" ".join(step.split()))]


def _verdict(correct: bool | float | None) -> str:
    if correct is None:
        return MISSING
    return ("right" if correct else "wrong") if isinstance(correct, bool) else f"{correct:.2f}"
