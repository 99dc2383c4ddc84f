"""What evaluation keeps of labelled records: a few numbers each, in columns, one set of columns per run."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokur_cli.answers.grading import Labelled
from tokur_cli.metrics.ranking import Floats
from tokur_cli.records.encoding import json_type
from tokur_cli.records.errors import TokurError
from tokur_cli.records.mapping import value_at
from tokur_cli.records.quantity import Orientation
from tokur_cli.records.question import Questions
from tokur_cli.records.record import Record
from tokur_cli.records.streams import display_name
from tokur_cli.scores.calibration import P_CORRECT
from tokur_cli.scores.catalogue import CATALOGUE, LENGTH

MOST_GROUP_VALUES = 100

_OF_A_RUN = ("seed", "attempt_seed", "version")
"""What may differ between runs."""


@dataclass(frozen=True)
class Wanted:
    """What is kept of a record.

    Args:
        scores: the scores, and which way each points.
        group_by: the field whose value tells the group; None for no groups.
        answers: whether answers are kept, and every record must tell its question.
        spans: whether its labelled spans are what is kept.
    """

    scores: Mapping[str, Orientation]
    group_by: str | None = None
    answers: bool = False
    spans: bool = False

    def orientation(self, name: str) -> Orientation:
        """Return which way a score points that is kept."""
        return self.scores[name]


@dataclass
class Columns:
    """The records of one run: one file, or the part of a file that was scored under one seed.

    Attributes:
        path: the run's file.
        name: what messages call the run: the file, with the seed where there are several.
        label: labels, NaN where there is none.
        length: numbers of tokens, NaN where that is not known.
        scores: values by score, NaN where a record has none.
        question: number of the question of each record, from 0; a record with neither an id nor a prompt is a question
            by itself.
        sample: sample numbers.
        response: numbers of the responses; the spans of one stand together, in the order of the text.
        group: names of the groups, None where a record has none.
        answer: answers.
        outcomes: how often each outcome came out.
        are_probabilities: whether all scores are probabilities of being correct, whatever they were made of.
        numbers: the questions' numbers by their keys.
        questions: which question each record belongs to.
        lines: the line of the first record of each question; 0 where that is not known.
        settings: how the first record was made.
    """

    path: str
    wanted: Wanted
    name: str = field(init=False)
    label: array[float] = field(default_factory=lambda: array("d"))
    length: array[float] = field(default_factory=lambda: array("d"))
    scores: dict[str, array[float]] = field(init=False)
    question: array[int] = field(default_factory=lambda: array("q"))
    sample: array[int] = field(default_factory=lambda: array("q"))
    response: array[int] = field(default_factory=lambda: array("q"))
    group: list[str | None] = field(default_factory=list)
    answer: list[str | None] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    are_probabilities: bool = False
    numbers: dict[str, int] = field(default_factory=dict)
    questions: Questions = field(default_factory=Questions)
    lines: array[int] = field(default_factory=lambda: array("q"))
    settings: dict[str, Any] = field(default_factory=dict)
    _responses: int = 0

    def __post_init__(self) -> None:
        self.name = display_name(self.path)
        self.scores = {name: array("d") for name in self.wanted.scores}

    def add(self, record: Record, rows: Iterable[tuple[Labelled, Mapping[str, float]]], group: str | None) -> None:
        """Add a response, or labelled spans of one, each with its scores."""
        number = self._number(record)
        sample = record.sample
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

    def hold(self, names: Iterable[str]) -> None:
        """Have a column for each of these scores, NaN for the records so far."""
        for name in names:
            if name not in self.scores:
                self.scores[name] = array("d", [math.nan]) * len(self.label)

    def confidence(self, name: str) -> Floats:
        """Return (N,) confidences: the score, negated where it is an uncertainty."""
        values = np.array(self.scores[name], dtype=np.float64)
        return -values if self.wanted.orientation(name) == "uncertainty" else values

    def is_probability(self, name: str) -> bool:
        """Return whether a score is a probability of being correct."""
        return self.are_probabilities or name == P_CORRECT

    def in_order(self) -> NDArray[np.intp]:
        """Return (N,) the records in the order of their questions, then of their samples."""
        return np.lexsort((np.array(self.sample), np.array(self.question)))

    def _number(self, record: Record) -> int:
        """Return the number of a record's question."""
        question = self.questions.of(record) if self.wanted.answers else self.questions.known(record)
        count = len(self.lines)
        number = count if question is None else self.numbers.setdefault(question.key, count)
        if number == count:
            self.settings = self.settings if count else settings_of(record)
            self.lines.append(record.line or 0)
        return number


def settings_of(record: Record) -> dict[str, Any]:
    """Return how a record's response and its scores were made, without what may differ between runs."""
    return {
        f"{of}.{name}": value for of in ("generation", "run") for name, value in _lasting(record.settings(of)).items()
    }


def _lasting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, and those within them, without what may differ."""
    return {
        name: _lasting(value) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if name not in _OF_A_RUN
    }


def scores_of(record: Record, unknown: Counter[str]) -> dict[str, float]:
    """Return the scores of a record that the catalogue knows, NaN for null; count the names that it does not know."""
    values = {}
    for name, value in record.scores.items():
        if name in CATALOGUE:
            number = record.number(f'"tokur.scores.{name}"', value)
            if name == P_CORRECT and number is not None and not 0 <= number <= 1:
                raise record.error(f'"tokur.scores.{name}" is {number:g}, which is no probability')
            values[name] = math.nan if number is None else number
        else:
            unknown[name] += 1
    return values


def group_of(record: Record, path: str) -> str | None:
    """Return the record's group: the value of a field, dots reaching inward; None where it is missing or null."""
    try:
        value = value_at(record.fields, path)
    except LookupError:
        return None
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (list, Mapping)):
        raise record.error(f"--group-by {path}: is {json_type(value)}, not a name or a number")
    return json.dumps(value)


def group_names(runs: Iterable[Columns], path: str) -> list[str]:
    """Return the groups of all runs in order: numbers by value, before names."""
    found = {name for run in runs for name in run.group if name is not None}
    if not found:
        raise TokurError(f"--group-by {path}: no record has this field")
    if len(found) > MOST_GROUP_VALUES:
        raise TokurError(
            f"--group-by {path}: has {len(found):,} values, more than {MOST_GROUP_VALUES}: name a field that has few"
        )
    return sorted(found, key=lambda name: (_as_number(name), name))


def _as_number(name: str) -> float:
    try:
        number = float(name)
    except ValueError:
        return math.inf
    return number if math.isfinite(number) else math.inf
