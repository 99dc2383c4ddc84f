"""Runs: the records of a file, told apart by their seed; those whose figures are averaged are made in one way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from tokur_cli.commands.evaluate.reading.columns import Columns, Wanted, group_of
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.records.encoding import json_type
from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record
from tokur_cli.records.streams import display_name

Item = TypeVar("Item")

_OF_SCORES = {
    "model": "models",
    "quantize": "quantisations",
    "rank": "ranks",
    "sigma": "strengths",
    "draws": "numbers of draws",
    "sampling": "samplings",
    "estimator": "estimators",
    "targets": "targets",
    "layers": "layers",
}
"""Settings on which the size of scores depends, so that it is said where a file has several; and their plurals."""
_WHERE_MISSING = {"layers": "all", "quantize": "none"}
_SHOWN = 5


class RunsOfFile:
    """The runs of one file: one for each seed that its records were scored under."""

    def __init__(self, path: str, wanted: Wanted) -> None:
        self._path, self._wanted = path, wanted
        self._found: dict[object, Columns] = {}
        self._made: dict[str, dict[str, None]] = {}
        self._last: object = None

    def of(self, record: Record) -> Columns:
        """Return the run that a record belongs to; nothing was drawn for one without a seed: it is of the first run."""
        run = record.computed("run")
        settings = run if isinstance(run, dict) else {}
        seed = settings.get("seed")
        if isinstance(seed, (list, dict)):
            raise record.error(f'"tokur.run.seed" is {json_type(seed)}, not a number')
        if run != self._last:
            self._last = run
            drawn = settings.get("rank") is not None  # else what is of the draws is null
            for setting in _OF_SCORES if drawn else ("model", "quantize"):
                value = settings.get(setting)
                if value is None:
                    value = _WHERE_MISSING.get(setting)
                if value is not None:
                    self._made.setdefault(setting, {})[str(value)] = None
        if seed is None:
            seed = next(iter(self._found), None)
        elif None in self._found:
            self._found[seed] = self._found.pop(None)
        if seed not in self._found:
            self._found[seed] = Columns(self._path, self._wanted)
        return self._found[seed]

    def named(self) -> list[Columns]:
        """Return the runs that have records, each with a name of its own."""
        runs = {seed: run for seed, run in self._found.items() if run.label}
        if len(runs) > 1:
            for seed, run in runs.items():
                run.name = f"{display_name(self._path)}, seed {seed}"
        return list(runs.values())

    def told(self, *, grouped: bool) -> Iterator[str]:
        """Yield what the user should know of the runs; ``grouped``: groups of records are evaluated apart."""
        name = display_name(self._path)
        if len(runs := [str(seed) for seed, run in self._found.items() if run.label]) > 1:
            yield f"{name} was scored under the seeds {', '.join(runs)}: each is a run of its own"
        yield from dict.fromkeys(filter(None, (run.questions.merged() for run in self._found.values())))
        for setting, values in self._made.items():
            if len(values) > 1 and not grouped:
                shown = ", ".join([*list(values)[:_SHOWN], *(["…"] if len(values) > _SHOWN else [])])
                plural = _OF_SCORES[setting]
                yield (
                    f"{name} has scores of the {plural} {shown}, evaluated together: "
                    f"--group-by tokur.run.{setting} parts them"
                )


class RunReader(ABC, Generic[Item]):
    """Reads files into columns: one run a file, and within a file one for each seed.

    Attributes:
        told: what the user should know of the runs, a line each.
    """

    def __init__(self, source: InputOptions, wanted: Wanted, invalid: InvalidRecords) -> None:
        self.source, self.wanted, self.invalid = source, wanted, invalid
        self.told: list[str] = []

    def read_files(self, paths: Sequence[str]) -> list[Columns]:
        """Return the runs of all files."""
        with Progress(self.invalid.command) as progress:
            progress.start(lambda: count_lines(*paths))
            return [run for path in paths for run in self._read_file(path, progress)]

    def _read_file(self, path: str, progress: Progress) -> list[Columns]:
        runs = RunsOfFile(path, self.wanted)
        for item in self.good(read_input("evaluate", replace(self.source, path=path))):
            progress.advance(1)
            try:
                self.add(item, runs)
            except RecordError as error:
                self.invalid.skip_or_raise(error)
        self.told += runs.told(grouped=self.wanted.group_by is not None)
        return runs.named()

    def group(self, record: Record) -> str | None:
        """Return the group of a record; None where it has none or none are wanted."""
        return None if self.wanted.group_by is None else group_of(record, self.wanted.group_by)

    @abstractmethod
    def good(self, items: Iterable[Record | RecordError]) -> Iterable[Item]:
        """Yield what is added of the records, without the bad ones."""

    @abstractmethod
    def add(self, item: Item, runs: RunsOfFile) -> None:
        """Add it to the run that it belongs to."""


def check_runs(runs: Sequence[Columns]) -> int:
    """Refuse runs without a question in common, or whose first records were made in different ways.

    Returns:
        How many questions are not in all runs: a record that failed in one of them may leave a gap there.
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
