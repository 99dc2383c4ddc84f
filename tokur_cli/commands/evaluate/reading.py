"""Labelled responses, or labelled spans of them, in columns: a few numbers each, one set of columns a run.

A run is a file, or what a file holds of one seed; runs whose figures are averaged are made in one way.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tokur_cli.answers.equivalence import Outcome
from tokur_cli.answers.grading import Labelled
from tokur_cli.commands.evaluate.spans import CLAIMS, span_rows
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.options.marks import number
from tokur_cli.commands.options.streams import InputOptions
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.labelled import Labeller, graded, unmarked_note
from tokur_cli.commands.shared.progress import Progress, count_lines
from tokur_cli.commands.shared.reading import read_input
from tokur_cli.metrics.ranking import Floats
from tokur_cli.records.encoding import json_type
from tokur_cli.records.errors import RecordError, TokurError, count_of
from tokur_cli.records.mapping import find_value
from tokur_cli.records.outputs import writing_whole
from tokur_cli.records.quantity import Orientation
from tokur_cli.records.question import Questions
from tokur_cli.records.record import Record, differences, flat_settings
from tokur_cli.records.streams import display_name
from tokur_cli.records.writer import RecordWriter
from tokur_cli.scores.calibration import P_CORRECT
from tokur_cli.scores.catalogue import CATALOGUE, LENGTH

# A labelled response, or the labelled spans of one, each with its scores
Rows = Iterable[tuple[Labelled, Mapping[str, float]]]

Collect = Callable[[Labelled, Mapping[str, float]], None]  # takes of a record what columns do not keep

MOST_GROUP_VALUES = 100

_MAY_DIFFER = ("seed", "attempt_seed", "version")  # what may differ between runs
_SIZE_DEPENDS_ON = ("model", "quantize", "computed_from")
# Settings on which the size of scores depends: it is said where a file has several
_SIZE_OF_DRAWS_DEPENDS_ON = ("rank", "sigma", "draws", "sampling", "estimator", "targets", "layers")
_WHERE_MISSING = {"layers": "all", "quantize": "none", "computed_from": "the model itself"}  # or null


@dataclass(frozen=True)
class Wanted:
    """What is kept of a record."""

    scores: Mapping[str, Orientation]  # and which way each points
    group_by: str | None = None  # the field whose value tells the group; None for no groups
    answers: bool = False  # whether answers are kept, and every record must tell its question
    spans: bool = False  # whether its labelled spans are what is kept


@dataclass
class Columns:
    """The records of one run: one file, or what of a file was scored under one seed."""

    name: str  # what messages call the run: the file, with the seed where there are several
    wanted: Wanted
    label: array[float] = field(default_factory=lambda: array("d"))  # NaN where there is none
    length: array[float] = field(default_factory=lambda: array("d"))  # numbers of tokens, NaN where that is not known
    scores: dict[str, array[float]] = field(init=False)  # values by score, NaN where a record has none
    # Number of the question of each record, from 0; a record with neither an id nor a prompt is a question by itself
    question: array[int] = field(default_factory=lambda: array("q"))
    sample: array[int] = field(default_factory=lambda: array("q"))  # −1 where a record tells none
    # Numbers of the responses; the spans of one stand together, in the order of the text
    response: array[int] = field(default_factory=lambda: array("q"))
    group: list[str | None] = field(default_factory=list)  # None where a record has none; empty without groups
    answer: list[str | None] = field(default_factory=list)  # empty unless answers are wanted
    outcomes: Counter[str] = field(default_factory=Counter)  # how often each outcome came out
    probabilities: Collection[str] = (P_CORRECT,)  # the scores that are probabilities of being correct
    numbers: dict[str, int] = field(default_factory=dict)  # the questions' numbers by their keys
    questions: Questions = field(default_factory=Questions)  # which question each record belongs to
    settings: dict[str, Any] = field(default_factory=dict)  # how the first record was made
    made: dict[str, dict[str, None]] = field(default_factory=dict)  # settings on which the size of scores depends
    _count: int = 0  # of questions
    _responses: int = 0

    def __post_init__(self) -> None:
        self.scores = {name: array("d") for name in self.wanted.scores}

    def add(self, record: Record, rows: Rows, group: str | None) -> None:
        """Add a response, or labelled spans of one; nothing of it where it raises an error."""
        sample = record.sample if "sample" in record.tokur else -1
        question = self.questions.of(record) if self.wanted.answers else self.questions.known(record)
        number = self._count if question is None else self.numbers.setdefault(question.key, self._count)
        if not self._count:
            self.settings = flat_settings({of: record.computed(of) for of in ("generation", "run")})
        self._count += number == self._count
        for labelled, values in rows:
            self.label.append(labelled.label)
            self.outcomes[labelled.outcome] += 1
            self.length.append(abs(values.get(LENGTH, math.nan)))
            for name, column in self.scores.items():
                column.append(values.get(name, math.nan))
            self.question.append(number)
            self.sample.append(sample)
            self.response.append(self._responses)
            if self.wanted.group_by is not None:
                self.group.append(group)
            if self.wanted.answers:
                self.answer.append(labelled.answer)
        self._responses += 1

    def confidence(self, name: str) -> Floats:
        """Return (N,) confidences: the score, negated where it is an uncertainty."""
        values = np.array(self.scores[name], dtype=np.float64)
        return -values if self.wanted.scores[name] == "uncertainty" else values


class _RunsOfFile:
    """The runs of one file: one for each seed that its records were scored under."""

    def __init__(self, path: str, wanted: Wanted) -> None:
        self._name, self._wanted = display_name(path), wanted
        self._found: dict[str | None, Columns] = {}

    def of(self, record: Record) -> Columns:
        """Return the run that a record belongs to; nothing was drawn for one without a seed: it is of the first run."""
        settings = record.computed("run")
        seed = None if settings.get("seed") is None else str(settings["seed"])
        if seed is None:
            seed = next(iter(self._found), None)
        elif None in self._found:
            self._found[seed] = self._found.pop(None)
        if seed not in self._found:
            self._found[seed] = Columns(self._name, self._wanted)
        run = self._found[seed]
        of_draws = () if settings.get("rank") is None else _SIZE_OF_DRAWS_DEPENDS_ON
        for name in (*_SIZE_DEPENDS_ON, *of_draws):
            value = _WHERE_MISSING.get(name) if settings.get(name) is None else settings[name]
            if value is not None:
                run.made.setdefault(name, {})[str(value)] = None
        return run

    def named(self) -> list[Columns]:
        """Return the runs that have records, each with a name of its own."""
        runs = {seed: run for seed, run in self._found.items() if run.label}
        for seed, run in runs.items() if len(runs) > 1 else ():
            run.name = f"{self._name}, seed {seed}"
        return list(runs.values())

    def notes(self) -> Iterator[str]:
        """Yield what the user should know of the runs."""
        name = self._name
        if len(seeds := [str(seed) for seed, run in self._found.items() if run.label]) > 1:
            yield f"{name} was scored under the seeds {', '.join(seeds)}: each is a run of its own"
        yield from dict.fromkeys(filter(None, (run.questions.merged() for run in self._found.values())))
        for run in self._found.values():
            first = np.unique(run.response, return_index=True)[1]  # of each response's spans
            samples = np.array(run.sample)[first]
            numbered = (np.array(run.question)[first] * 2**32 + samples)[samples >= 0]
            if again := len(numbered) - len(np.unique(numbered)):
                yield f"records of {name} whose question and sample came before count again: {again:,}"
            for setting, values in run.made.items() if self._wanted.group_by is None else ():
                if len(values) > 1:
                    parts = f"--group-by tokur.run.{setting} parts them"
                    yield f"{run.name} has scores with {setting} {', '.join(values)}, evaluated together: {parts}"


def read_runs(
    paths: Sequence[str],
    source: InputOptions,
    wanted: Wanted,
    labels: LabelOptions,
    invalid: InvalidRecords,
    collect: Collect | None = None,
    graded_file: str | None = None,
) -> list[Columns]:
    """Return the runs of labelled files, and say what the user should know of them.

    ``collect`` is given each record, too; the file ``graded_file`` gets them with their labels.
    """
    runs: list[Columns] = []
    notes: list[str] = []
    counts: Counter[str] = Counter()
    unread, claims = "", labels.label_field or CLAIMS
    with ExitStack() as stack:
        writer = None
        if graded_file is not None:
            writer = RecordWriter(stack.enter_context(writing_whole(graded_file)).buffer, graded_file)
        labeller = stack.enter_context(Labeller(labels, invalid, answers=wanted.answers or writer is not None))
        progress = stack.enter_context(Progress(invalid.command))
        progress.start(lambda: count_lines(*paths, limit=source.limit and source.limit * len(paths)))
        for path in paths:
            of_file = _RunsOfFile(path, wanted)
            is_labelled = wanted.spans or labels.label_field is not None
            items = read_input("evaluate", replace(source, path=path), is_labelled=is_labelled)
            for labelled in map(Labelled, invalid.good(items)) if wanted.spans else invalid.good(labeller.read(items)):
                progress.advance(1)
                record = labelled.record
                try:
                    rows = span_rows(record, claims) if wanted.spans else [(labelled, scores_of(record, progress.note))]
                    if rows is None:
                        counts["without spans"] += 1
                        continue
                    group = None if wanted.group_by is None else group_of(record, wanted.group_by)
                    if collect is not None:
                        collect(*rows[0])
                    of_file.of(record).add(record, rows, group)
                except RecordError as error:
                    invalid.skip_or_raise(error)
                    continue
                if labelled.outcome == Outcome.NO_ANSWER:
                    counts["no answer"] += 1
                    unread = unread or f"{record.source}:{record.line}"
                counts["withheld"] += record.tokur.get("withheld") not in (None, False)
                counts["unmarked"] += labelled.correct is False and labelled.is_unmarked
                if writer is not None:
                    writer.write(graded(labelled).encode())
            runs += of_file.named()
            notes += of_file.notes()
    if counts["without spans"] and not runs:
        raise TokurError(
            f'no record has labelled spans: give each "{claims}", a list such as '
            '[{"start": 0, "end": 12, "correct": true}]'
        )
    for line in (*notes, *_notes_on_records(counts, unread)):
        say(invalid.command, line)
    return runs


def _notes_on_records(counts: Counter[str], unread: str) -> Iterator[str]:
    if count := counts["no answer"]:
        have = "1 response has" if count == 1 else f"{count:,} responses have"
        yield f"{have} no answer that could be read: incorrect. --answer REGEX reads them your way; the first: {unread}"
    if counts["withheld"]:
        yield f"withheld answers count as if they were given: {counts['withheld']:,}"
    if counts["unmarked"]:
        yield unmarked_note(counts["unmarked"]) + ': label them by a field "correct" if that is not meant'
    if counts["without spans"]:
        yield f"skipped {count_of(counts['without spans'], 'response')} without labelled spans"


def scores_of(record: Record, note: Callable[[str], None]) -> dict[str, float]:
    """Return the scores of a record that the catalogue knows, NaN for null; say which ones it does not know."""
    values = {}
    for name, value in record.scores.items():
        if name in CATALOGUE:
            number = record.number(f'"tokur.scores.{name}"', value)
            if name == P_CORRECT and number is not None and not 0 <= number <= 1:
                raise record.error(f'"tokur.scores.{name}" is {number:g}, which is no probability')
            values[name] = math.nan if number is None else number
        else:
            note(f"skipped the score {name}: the catalogue does not know it")
    return values


def group_of(record: Record, path: str) -> str | None:
    """Return the record's group: the value of a field, dots reaching inward; None where it is missing or null."""
    value = find_value(record.fields, path)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (list, Mapping)):
        raise record.error(f"--group-by {path}: is {json_type(value)}, not a name or a number")
    return json.dumps(value)


def group_names(runs: Iterable[Columns], path: str) -> list[str]:
    """Return the groups of all runs in order: numbers by value, before names."""
    found = {name for run in runs for name in run.group if name is not None}
    if not found:
        raise TokurError(f"--group-by {path}: no record, or no question as a whole, has this field")
    if len(found) > MOST_GROUP_VALUES:
        raise TokurError(f"--group-by {path}: has {len(found):,} values, more than {MOST_GROUP_VALUES}: name another")
    return sorted(found, key=_group_order)


def _group_order(name: str) -> tuple[float, str]:
    return value if math.isfinite(value := number(name)) else math.inf, name


def check_runs(runs: Sequence[Columns]) -> int:
    """Refuse runs without a question in common, or whose first records were made in different ways.

    Returns:
        How many questions are not in all runs: a record that failed in one of them may leave a gap there.
    """
    for run in runs[1:]:
        compared = run.settings.keys() & runs[0].settings.keys() | {f"run.{name}" for name in _WHERE_MISSING}
        for name, value, first in differences(run.settings, runs[0].settings):
            if name in compared and name.rpartition(".")[2] not in _MAY_DIFFER:
                raise TokurError(
                    f"{run.name}: has {name} {value}, {runs[0].name} has {first}: runs whose figures are averaged are "
                    "of one kind; evaluate them apart or, if of one seed, in one file with --group-by"
                )
        if run.numbers and runs[0].numbers and run.numbers.keys().isdisjoint(runs[0].numbers):
            raise TokurError(
                f"{run.name}: answers no question of {runs[0].name}: files are runs of the same questions, whose "
                "figures are averaged; put the questions of one run into one file"
            )
    runs_with: Counter[str] = Counter(name for run in runs for name in run.numbers)
    return sum(count < len(runs) for count in runs_with.values())
