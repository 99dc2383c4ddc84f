"""Questions by their difficulty: how many of N samples, of these records or of another model's, are wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tokur_cli.commands.evaluate.reading.columns import Columns
from tokur_cli.records.errors import TokurError


def group_by_difficulty(runs: Sequence[Columns], count: int, telling: Sequence[Columns] | None) -> None:
    """Group records by how many samples of their question are wrong; None where that is not known.

    Args:
        runs: the records.
        count: N, how many samples of each question count; a question with fewer, or with one without a label, is not
            known.
        telling: runs with the samples, by the questions' ids, else their prompts; None for each run's own.
    """
    known = {name: failed for run in telling or () for name, failed in _failures(run, count).items()}
    for run in runs:
        failed = _failures(run, count) if telling is None else known
        names = {number: str(failed[name]) for name, number in run.numbers.items() if name in failed}
        run.group = [names.get(number) for number in run.question]
    if not any(name is not None for run in runs for name in run.group):
        raise TokurError(f"--difficulty {count}: no question has {count} samples with labels")


def _failures(run: Columns, count: int) -> dict[str, int]:
    """Return how many of a question's first samples are wrong, by what tells the question."""
    labels: dict[int, list[float]] = {}
    for place in run.in_order():
        labels.setdefault(run.question[place], []).append(run.label[place])
    return {
        name: sum(label < 1 for label in labels[number][:count])
        for name, number in run.numbers.items()
        if len(labels[number]) >= count and not any(map(math.isnan, labels[number][:count]))
    }
