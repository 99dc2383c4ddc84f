"""Questions by their difficulty: how many of N samples, of these records or of another model's, are wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tokur_cli.commands.evaluate.reading.columns import Columns
from tokur_cli.records.errors import TokurError


def failures_of(run: Columns, count: int) -> dict[str, int]:
    """Return how many of a question's first samples are wrong, by what tells the question (its id, else its prompt).

    Args:
        run: the samples.
        count: N, how many of each question count; a question with fewer, or with one without a label, is left out.
    """
    labels: dict[int, list[float]] = {}
    for place in run.in_order():
        labels.setdefault(run.question[place], []).append(run.label[place])
    return {
        name: sum(label < 1 for label in labels[number][:count])
        for name, number in run.numbers.items()
        if len(labels[number]) >= count and not any(map(math.isnan, labels[number][:count]))
    }


def group_by_difficulty(runs: Sequence[Columns], failures: Sequence[Mapping[str, int]], count: int) -> None:
    """Group records by how many of ``count`` samples of their question are wrong; None where that is not known."""
    for run, failed in zip(runs, failures, strict=True):
        names = {number: str(failed[name]) for name, number in run.numbers.items() if name in failed}
        run.group = [names.get(number) for number in run.question]
    if not any(name is not None for run in runs for name in run.group):
        raise TokurError(f"--difficulty {count}: no question has {count} samples with labels")
