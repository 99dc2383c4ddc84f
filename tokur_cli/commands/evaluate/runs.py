"""Runs: the records of a file, told apart by their seed; those whose figures are averaged are made in one way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record
from tokur_cli.records.scan import kind
from tokur_cli.records.streams import display_name

if TYPE_CHECKING:
    from tokur_cli.commands.evaluate.columns import Columns

_Run = TypeVar("_Run", bound="Columns")

_OF_A_RUN = ("seed", "attempt_seed", "version")
"""What may differ between runs."""


class RunsOfFile(Generic[_Run]):
    """The runs of one file: one for each seed that its records were scored under.

    Args:
        path: the file.
        make: makes a run without records.
    """

    def __init__(self, path: str, make: Callable[[], _Run]) -> None:
        self._path, self._make = path, make
        self._found: dict[object, _Run] = {}
        self._models: dict[str, None] = {}

    def of(self, record: Record) -> _Run:
        """Return the run that a record belongs to; nothing was drawn for one without a seed: it is of the first run.

        Raises:
            RecordError: its seed is no number.
        """
        run = record.computed("run")
        settings = run if isinstance(run, dict) else {}
        seed = settings.get("seed")
        if isinstance(seed, (list, dict)):
            raise record.error(f'"tokur.run.seed" is {kind(seed)}, not a number')
        if isinstance(model := settings.get("model"), str):
            self._models[model] = None
        if seed is None:
            seed = next(iter(self._found), None)
        elif None in self._found:
            self._found[seed] = self._found.pop(None)
        if seed not in self._found:
            self._found[seed] = self._make()
        return self._found[seed]

    def named(self) -> list[_Run]:
        """Return the runs that have records, each with a name of its own."""
        runs = {seed: run for seed, run in self._found.items() if run.label}
        if len(runs) > 1:
            for seed, run in runs.items():
                run.name = f"{display_name(self._path)}, seed {seed}"
        return list(runs.values())

    def told(self, *, grouped: bool) -> Iterator[str]:
        """Yield what the user should know of the runs.

        Args:
            grouped: whether groups of records are evaluated apart.
        """
        name = display_name(self._path)
        if len(runs := [str(seed) for seed, run in self._found.items() if run.label]) > 1:
            yield f"{name} was scored under the seeds {', '.join(runs)}: each is a run of its own"
        if len(self._models) > 1 and not grouped:
            models = ", ".join(self._models)
            yield f"{name} has scores of the models {models}, evaluated together: --group-by tokur.run.model parts them"


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
