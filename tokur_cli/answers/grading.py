"""Grading: how a record gets its answer and its label, by one rule for all commands.

A label that the record brings along stands before everything else:

- ``correct``: true or false.
- ``quality``: a number in [0, 1], such as the share of a text's facts that hold.
- any other field by name (``scores.exact_match`` reaches into objects): true, false or a number in [0, 1]; in logs also
  what the program that wrote them says, such as the ``C`` and ``I`` of Inspect's scorers.

Without one a response is judged by the tests of its row if it is code, by the rule of its data set if that has one, and
else by comparing its answer with the references.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from tokur_cli.answers.equivalence import Equivalence, Outcome
from tokur_cli.answers.extract import Extraction, extract_answer, reference_answer, wanted_of
from tokur_cli.answers.reasoning_gym import answer_to, quality_of, task_of
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.formats import verdicts_of
from tokur_cli.records.mapping import value_at
from tokur_cli.records.record import Record

UNLABELLED: dict[str, str] = {
    Outcome.NO_REFERENCE: "without a label or a reference",
    Outcome.PLACEHOLDER: 'whose reference, "proof" or "notfound", is none',
    Outcome.NULL_LABEL: "whose label is null",
    Outcome.CODE_NOT_RUN: "of code, which is run with --allow-code-execution only",
    Outcome.RULE_NOT_USED: "of a task whose rule cannot be used, or only with --unsafe-code-execution",
    Outcome.UNPARSABLE_REFERENCE: "with a reference that cannot be read",
    Outcome.TIMEOUT: "whose comparison ran out of time or memory",
}
"""Outcomes that leave a record without a label, and what to call such records."""

_WORDS = re.compile(r"[^\W\d_]{2}[^\d\\$=]*")
"""A reference in words: neither a number, a formula, nor the letter of a choice."""

_PLACEHOLDERS = ("proof", "notfound")
"""What NuminaMath has for a reference where a problem asks for a proof, or no answer was found."""

_BATCH = 1024
_PATTERN_SECONDS = 5.0
_PRECEDENCE = (Outcome.CORRECT, Outcome.TIMEOUT, Outcome.INCORRECT, Outcome.UNPARSABLE_REFERENCE)
"""Which outcome stands where there are several references: the first of these."""

_OUTCOMES = {True: Outcome.CORRECT, False: Outcome.INCORRECT}
_CODE_FIELDS = ("prompt", "test", "entry_point")


@dataclass(frozen=True, slots=True)
class Label:
    """A record's label.

    Attributes:
        value: 1 for correct, 0 for incorrect, or a quality in between; None where the field is null.
        field: the field that gave it.
    """

    value: float | None
    field: str

    @property
    def correct(self) -> bool | None:
        """Whether it says correct; None for null and for what is in between."""
        return bool(self.value) if self.value in (0.0, 1.0) else None


@dataclass(slots=True)
class Labelled:
    """A record with its label.

    Attributes:
        record: the record.
        label: 1 for correct, 0 for incorrect, a quality in between; NaN where it is not known, or not yet.
        outcome: ``correct``, ``incorrect``, ``no_answer``, ``quality``, or one of ``UNLABELLED``.
        answer: the answer of the response; None if it gives none or is code, or if it was not looked for.
        source: where the label is from: the name of a field, ``reference`` or ``tests``; None where there is none.
        quality: what the data set's own rule gives for the answer, from 0 to 1, where it is graded by one.
        awaits: what is yet to tell the label; None where nothing is.
        is_unmarked: whether the references are words and the response does not mark which of its own words answer the
            question, so that it can hardly be right; of responses that are compared.
    """

    record: Record
    label: float = math.nan
    outcome: Outcome = Outcome.NO_REFERENCE
    answer: str | None = None
    source: str | None = None
    quality: float | None = None
    awaits: Literal["comparison", "tests"] | None = None
    is_unmarked: bool = False

    @property
    def correct(self) -> bool | None:
        """Whether the response is correct; None where that is not known or in between."""
        return bool(self.label) if self.label in (0.0, 1.0) else None

    def bring(self, label: Label) -> None:
        """Take the label that the record brings along."""
        if label.value is None:
            self.outcome = Outcome.NULL_LABEL
            return
        self.label, self.source = label.value, label.field
        is_graded = label.field == Outcome.QUALITY or label.correct is None
        self.outcome = Outcome.QUALITY if is_graded else _OUTCOMES[label.value == 1.0]

    def compared(self, outcome: Outcome) -> None:
        """Take what the comparison of the answer with the references gave."""
        self.awaits, self.outcome = None, outcome
        if outcome.correct is not None:
            self.label, self.source = float(outcome.correct), "reference"

    def tested(self, passed: bool) -> None:
        """Take whether the code passed the tests of its row."""
        self.awaits, self.label, self.source = None, float(passed), "tests"
        self.outcome = _OUTCOMES[passed]


@dataclass(frozen=True, slots=True)
class LabelRule:
    """How a record gets its answer and its label.

    Args:
        field: the field that holds the label, see ``label_of``; None for those that a record brings along by itself.
        pattern: of ``answer_pattern``: what reads the answer in place of ``extract_answer``.
        may_run_code: whether a data set's own rule may run an answer as code.
        is_strict: whether a data set's own rule that cannot be used is an error, and not an unknown label.
    """

    field: str | None = None
    pattern: Any = None
    may_run_code: bool = False
    is_strict: bool = True

    def answer(self, record: Record) -> Extraction | None:
        """Return the answer of a record's response; None where it gives none, and where it is code."""
        if is_code(record):
            return None
        if self.pattern is not None:
            try:
                text = last_match(self.pattern, record.response)
            except TimeoutError:  # nested repeats such as (a+)+$ may take forever
                message = f"--answer takes more than {_PATTERN_SECONDS:g} s on this response: simplify it"
                raise record.error(message) from None
            return None if text is None else Extraction(text, "pattern")
        if task_of(record.fields) is not None:
            return answer_to(record.fields, record.response)
        return extract_answer(record.response, wanted=wanted_of(record.references))

    def label(self, record: Record, *, answers: bool = True) -> Labelled:
        """Return a record with its label, or with what its label awaits.

        Args:
            record: the record.
            answers: whether its answer is wanted though it brings its label along.

        Raises:
            RecordError: its label is none, its response or references are not text, or its data set's rule cannot be
                used.
            UsageError: it has the verdicts of several scorers and none is named, or the library of its data set's rule
                is missing.
        """
        brought = self.brought(record)
        labelled = Labelled(record)
        answer = self.answer(record) if brought is None or answers else None
        labelled.answer = None if answer is None else answer.text
        if brought is not None:
            labelled.bring(brought)
        elif is_code(record):
            labelled.outcome, labelled.awaits = Outcome.CODE_NOT_RUN, "tests"
        elif task_of(record.fields) is not None:
            self._put_quality(labelled)
        elif record.references and all(reference in _PLACEHOLDERS for reference in record.references):
            labelled.outcome = Outcome.PLACEHOLDER
        else:
            labelled.awaits = "comparison"
            is_marked = answer is not None and answer.rule != "closing"
            labelled.is_unmarked = (
                not is_marked and bool(record.references) and all(map(_WORDS.fullmatch, record.references))
            )
        return labelled

    def brought(self, record: Record) -> Label | None:
        """Return the label that a record brings along; None where it brings none."""
        try:
            return label_of(record.fields, self.field)
        except RecordError as error:
            raise record.error(error.message) from None

    def _put_quality(self, labelled: Labelled) -> None:
        """Label a record by its data set's rule."""
        record = labelled.record
        try:
            labelled.quality = quality_of(record.fields, labelled.answer, may_run_code=self.may_run_code)
        except (RecordError, UsageError) as error:
            if self.is_strict:
                raise record.error(error.message) if isinstance(error, RecordError) else error from None
            labelled.outcome = Outcome.RULE_NOT_USED
            return
        labelled.label = float(labelled.quality == 1.0)
        labelled.outcome = Outcome.NO_ANSWER if labelled.answer is None else _OUTCOMES[labelled.quality == 1.0]


def is_code(record: Record) -> bool:
    """Return whether the response is code, which the tests of its row judge."""
    return all(isinstance(record.get(field), str) for field in _CODE_FIELDS)


def label_of(record: Mapping[str, Any], field: str | None = None) -> Label | None:
    """Return the label that a record brings along, or None where it brings none.

    Args:
        record: the record's fields.
        field: the field to read instead of ``correct`` and ``quality``; it must then be there.

    Raises:
        RecordError: the field is missing though named, or holds no label.
        UsageError: the record has the verdicts of several scorers, and none is named.
    """
    verdicts = verdicts_of(record)
    said = verdicts or {}
    if field is not None:
        try:
            value = said[field] if field in said else value_at(record, field)
            return Label(_number(value, field), field)
        except LookupError:
            if verdicts is None:
                return Label(None, field)
            known = f"; its scores are {', '.join(said)}" if said else ""
            raise RecordError(f'"{field}" is missing: --label-field names no field of this record{known}') from None
    if "correct" in record:
        value = record["correct"]
        if value is not None and not isinstance(value, bool):
            raise RecordError(f'"correct" must be true or false, not {value!r:.40}; --label-field takes other labels')
        return Label(_number(value, "correct"), "correct")
    if "quality" in record:
        return Label(_number(record["quality"], "quality"), "quality")
    if len(said) > 1:
        raise UsageError(f"the records have several scores: choose the label with --label-field {' or '.join(said)}")
    return None


def _number(value: Any, field: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, (bool, int, float)) and 0 <= value <= 1:
        return float(value)
    raise RecordError(f'"{field}" must be true, false or a number from 0 to 1, not {value!r:.40}')


def grade(items: Iterable[tuple[str | None, Sequence[str]]], equivalence: Equivalence) -> Iterator[Outcome]:
    """Yield the outcome of each (answer, references) pair, a thousand at a time, so that workers share the work.

    Args:
        items: the answer of each response, None for none, and its references, any of which is correct.
        equivalence: compares the answers.
    """
    stream = iter(items)
    while batch := list(islice(stream, _BATCH)):
        golds = [[gold for gold in map(reference_answer, references) if gold] for _, references in batch]
        pairs = zip(batch, golds, strict=True)
        compared = iter(equivalence.compare((one, answer) for (answer, _), gold in pairs if answer for one in gold))
        for (answer, _), gold in zip(batch, golds, strict=True):
            if gold and answer:
                yield min((next(compared) for _ in gold), key=_PRECEDENCE.index)
            else:
                yield Outcome.NO_ANSWER if gold else Outcome.UNPARSABLE_REFERENCE


def answer_pattern(pattern: str, option: str) -> Any:
    """Return a user's own expression that reads answers, compiled by the ``regex`` library, which can be timed.

    Args:
        pattern: the expression.
        option: where the user gave it.

    Raises:
        UsageError: it is none.
    """
    import regex

    try:
        return regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{option} {pattern}: this is no regular expression: {error}") from None


def last_match(pattern: Any, text: str) -> str | None:
    """Return what an expression reads in a text: the first group of its last match, else the whole match.

    None without a match, or where that group took no part in it or is blank.

    Raises:
        TimeoutError: the search takes too long.
    """
    last = None
    for match in pattern.finditer(text, timeout=_PATTERN_SECONDS):
        last = match
    found = (last[1] if pattern.groups else last[0]) if last else None
    return (found or "").strip() or None
