"""How a record gets its answer and its label: one rule for all commands.

A label that the record brings along stands before everything else (``labels``). Without one a response is judged by the
tests of its row if it is code, by the rule of its data set if that has one, and else by comparing its answer with the
references.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tokur_cli.answers.extract import extract_answer, wanted_of
from tokur_cli.answers.grading import Outcome
from tokur_cli.answers.labels import Label, label_of
from tokur_cli.answers.patterns import last_match
from tokur_cli.answers.rules.gym import answer_to, quality_of, task_of
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.record import Record

NO_REFERENCE = "no_reference"
PLACEHOLDER = "placeholder"
NULL_LABEL = "null_label"
CODE_NOT_RUN = "code_not_run"
RULE_NOT_USED = "rule_not_used"
QUALITY = "quality"

UNLABELLED = {
    NO_REFERENCE: "without a label or a reference",
    PLACEHOLDER: 'whose reference, "proof" or "notfound", is none',
    NULL_LABEL: "whose label is null",
    CODE_NOT_RUN: "of code, which is run with --allow-code-execution only",
    RULE_NOT_USED: "of a task whose rule cannot be used, or only with --unsafe-code-execution",
    Outcome.UNPARSABLE_REFERENCE.value: "with a reference that cannot be read",
    Outcome.TIMEOUT.value: "whose comparison ran out of time or memory",
}
"""Outcomes that leave a record without a label, and what to call such records."""

_WORDS = re.compile(r"[^\W\d_]{2}[^\d\\$=]*")
"""A reference in words: neither a number, a formula, nor the letter of a choice."""

_PLACEHOLDERS = ("proof", "notfound")
"""What NuminaMath has for a reference where a problem asks for a proof, or no answer was found."""

_CODE_FIELDS = ("prompt", "test", "entry_point")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a response.

    Attributes:
        text: as it stands there.
        is_marked: whether the response says that this is its answer.
    """

    text: str
    is_marked: bool


@dataclass(slots=True)
class Labelled:
    """A record with its label.

    Attributes:
        record: the record.
        label: 1 for right, 0 for wrong, a quality in between; NaN where it is not known, or not yet.
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
    outcome: str = NO_REFERENCE
    answer: str | None = None
    source: str | None = None
    quality: float | None = None
    awaits: Literal["comparison", "tests"] | None = None
    is_unmarked: bool = False

    @property
    def correct(self) -> bool | None:
        """Whether the response is right; None where that is not known, or it is neither right nor wrong."""
        return bool(self.label) if self.label in (0.0, 1.0) else None

    def compared(self, outcome: Outcome) -> None:
        """Take what the comparison of the answer with the references gave."""
        self.awaits, self.outcome = None, outcome.value
        if outcome.correct is not None:
            self.label, self.source = float(outcome.correct), "reference"

    def tested(self, passed: bool) -> None:
        """Take whether the code passed the tests of its row."""
        self.awaits, self.label, self.source = None, float(passed), "tests"
        self.outcome = (Outcome.CORRECT if passed else Outcome.INCORRECT).value


@dataclass(frozen=True, slots=True)
class LabelRule:
    """How a record gets its answer and its label.

    Args:
        field: the field that holds the label, see ``label_of``; None for those that a record brings along by itself.
        pattern: what reads the answer in place of ``extract_answer``.
        may_run_code: whether a data set's own rule may run an answer as code.
        is_strict: whether a data set's own rule that cannot be used is an error, and not an unknown label.
    """

    field: str | None = None
    pattern: re.Pattern[str] | None = None
    may_run_code: bool = False
    is_strict: bool = True

    def answer(self, record: Record) -> Answer | None:
        """Return the answer of a record's response; None where it gives none, and where it is code."""
        if is_code(record):
            return None
        if self.pattern is not None:
            try:
                text = last_match(self.pattern, record.response)
            except RecordError as error:
                raise record.error(error.message) from None
            return None if text is None else Answer(text, is_marked=True)
        if task_of(record.fields) is not None:
            found = answer_to(record.fields, record.response)
        else:
            found = extract_answer(record.response, wanted=wanted_of(record.references))
        return None if found is None else Answer(found.text, found.rule != "closing")

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
            _put(labelled, brought)
        elif is_code(record):
            labelled.outcome, labelled.awaits = CODE_NOT_RUN, "tests"
        elif task_of(record.fields) is not None:
            self._put_quality(labelled)
        elif record.references and all(reference in _PLACEHOLDERS for reference in record.references):
            labelled.outcome = PLACEHOLDER
        else:
            labelled.awaits, labelled.is_unmarked = "comparison", _is_unmarked(answer, record.references)
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
            labelled.outcome = RULE_NOT_USED
            return
        labelled.label = float(labelled.quality == 1.0)
        outcome = Outcome.CORRECT if labelled.label else Outcome.INCORRECT
        labelled.outcome = (outcome if labelled.answer is not None else Outcome.NO_ANSWER).value


def is_code(record: Record) -> bool:
    """Return whether the response is code, which the tests of its row judge."""
    return all(isinstance(record.get(field), str) for field in _CODE_FIELDS)


def _is_unmarked(answer: Answer | None, references: Sequence[str]) -> bool:
    is_marked = answer is not None and answer.is_marked
    return not is_marked and bool(references) and all(map(_WORDS.fullmatch, references))


def _put(labelled: Labelled, brought: Label) -> None:
    if brought.value is None:
        labelled.outcome = NULL_LABEL
        return
    labelled.label, labelled.source = brought.value, brought.field
    is_graded = brought.field == QUALITY or brought.value not in (0.0, 1.0)
    outcome = Outcome.CORRECT if brought.value == 1.0 else Outcome.INCORRECT
    labelled.outcome = QUALITY if is_graded else outcome.value
