"""Runs whose figures are averaged are runs of the same questions, made in one way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record

if TYPE_CHECKING:
    from tokur_cli.commands.evaluate.columns import Columns

_OF_A_RUN = ("seed", "attempt_seed", "version")
"""What may differ between runs."""


def settings_of(record: Record) -> dict[str, Any]:
    """Return how a record's response and its scores were made, without what may differ between runs.

    Raises:
        RecordError: ``tokur`` is not an object, or of a newer schema.
    """
    parts = {of: record.computed(of) for of in ("generation", "run")}
    return {
        f"{of}.{name}": value
        for of, part in parts.items()
        if isinstance(part, Mapping)
        for name, value in _lasting(part).items()
    }


def _lasting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, and those within them, without what may differ."""
    return {
        name: _lasting(value) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if name not in _OF_A_RUN
    }


def check_runs(runs: Sequence[Columns]) -> int:
    """Refuse runs without a question in common, or whose first records were made in different ways.

    Returns:
        How many questions are not in all runs: a record that failed in one of them may leave a gap there.

    Raises:
        RecordError: so it is; it names the first record that shows it.
    """
    for run in runs[1:]:
        for name, value in run.settings.items():
            if name in runs[0].settings and value != runs[0].settings[name]:
                raise RecordError(
                    f"has {name} {value}, {runs[0].name} has {runs[0].settings[name]}: files are runs of one kind, "
                    "whose figures are averaged; evaluate them apart, or put them into one file and use --group-by",
                    run.path,
                    run.lines[0] or None,
                )
        if run.numbers and runs[0].numbers and run.numbers.keys().isdisjoint(runs[0].numbers):
            raise RecordError(
                f"answers no question of {runs[0].name}: files are runs of the same questions, whose figures are "
                "averaged; put the questions of one run into one file",
                run.path,
            )
    runs_with: Counter[str] = Counter(name for run in runs for name in run.numbers)
    return sum(count < len(runs) for count in runs_with.values())
