"""Records with their labels: what they bring along, else their graded answer, else what the tests of their row say."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokur_cli.answers.code.execution import Execution, ExecutionOutcome
from tokur_cli.answers.extraction import Extraction, extract_answer, is_multiple_choice
from tokur_cli.answers.grading import Grader, Outcome
from tokur_cli.answers.labels import Label, brought_label, label_of
from tokur_cli.answers.rules.gym import answer_to, quality_of, task_of
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.record import SCHEMA, Record
from tokur_cli.records.windows import windows_of

WINDOW = 64
"""Records that are labelled together: enough to share work on, few enough to hold with their token arrays."""

NO_REFERENCE = "no_reference"
NULL_LABEL = "null_label"
CODE_NOT_RUN = "code_not_run"
QUALITY = "quality"

UNLABELLED = {
    NO_REFERENCE: "without a label or a reference",
    NULL_LABEL: "whose label is null",
    CODE_NOT_RUN: "of code, which is run with --allow-code-execution only",
    Outcome.UNPARSABLE_REFERENCE.value: "with a reference that cannot be read",
    Outcome.TIMEOUT.value: "whose comparison ran out of time or memory",
}
"""Outcomes that leave a record without a label, and what to call such records."""

_WORDS = re.compile(r"[^\W\d_]{2}[^\d\\$=]*")
"""A reference in words: neither a number, a formula, nor the letter of a choice."""

_CODE_FIELDS = ("prompt", "test", "entry_point")


@dataclass(slots=True)
class Labelled:
    """A record with its label.

    Attributes:
        record: the record.
        label: 1 for right, 0 for wrong, a quality in between; NaN where it is not known.
        outcome: ``correct``, ``incorrect``, ``no_answer``, ``quality``, or one of ``UNLABELLED``.
        answer: the answer of the response as extracted; None if it gives none or is code.
        source: where the label is from: the name of a field, ``reference`` or ``tests``; None where there is none.
        quality: what the data set's own rule gives for the answer, from 0 to 1, where it is graded by one.
    """

    record: Record
    label: float = math.nan
    outcome: str = NO_REFERENCE
    answer: str | None = None
    source: str | None = None
    quality: float | None = None


class Labeller:
    """Labels records in a stream.

    Args:
        grader: compares answers with references.
        field: the field that holds the label, see ``label_of``.
        run_code: runs responses' code as ``run_all`` does; None where it may not be run.
        answers: whether answers are needed of records that bring their label, too.
        on_error: called with bad records; what it raises ends the stream after all records before.
        unsafe_rules: whether a data set's own rule may run an answer as code.

    Attributes:
        unmarked: how many responses count as wrong since they do not mark which of their words answer the question
            ("The answer is …"), where the reference is words too.
    """

    def __init__(
        self,
        grader: Grader,
        *,
        field: str | None,
        run_code: Callable[[Iterable[tuple[str, Mapping[str, Any]]]], Iterator[Execution]] | None,
        answers: bool,
        on_error: Callable[[RecordError], None],
        unsafe_rules: bool = False,
    ) -> None:
        self._unsafe_rules = unsafe_rules
        self.unmarked = 0
        self._grader, self._field, self._run_code, self._answers, self._on_error = (
            grader,
            field,
            run_code,
            answers,
            on_error,
        )

    def label(self, items: Iterable[Record | RecordError]) -> Iterator[Labelled]:
        """Yield the records in their order, without the bad ones."""
        for window in windows_of(items, WINDOW):
            taken: list[Labelled] = []
            to_grade: list[tuple[Labelled, Extraction | None]] = []
            to_run: list[tuple[Labelled, str]] = []
            for item in window:
                try:
                    if isinstance(item, RecordError):
                        raise item
                    taken.append(self._take(item, to_grade, to_run))
                except RecordError as error:
                    try:
                        self._on_error(error)
                    except RecordError:
                        self._find_out(to_grade, to_run)
                        yield from taken
                        raise
            self._find_out(to_grade, to_run)
            yield from taken

    def _take(
        self,
        record: Record,
        to_grade: list[tuple[Labelled, Extraction | None]],
        to_run: list[tuple[Labelled, str]],
    ) -> Labelled:
        """Return a record with the label that it brings along, or put it on one of the lists."""
        try:
            brought = label_of(record.fields, self._field)
        except RecordError as error:
            raise record.error(error.message) from None
        labelled = Labelled(record)
        if brought is not None:
            _put(labelled, brought)
            if self._answers:
                labelled.answer = _text(found_in(record))
            return labelled
        found = found_in(record)
        labelled.answer = _text(found)
        if is_code(record):
            labelled.outcome = CODE_NOT_RUN
            if self._run_code is not None:
                to_run.append((labelled, record.response))
        elif task_of(record.fields) is not None:
            self._grade_by_rule(labelled)
        elif record.references:
            to_grade.append((labelled, found))
        return labelled

    def _grade_by_rule(self, labelled: Labelled) -> None:
        record = labelled.record
        try:
            labelled.quality = quality_of(record.fields, labelled.answer, may_run_code=self._unsafe_rules)
        except RecordError as error:
            raise record.error(error.message) from None
        labelled.label = float(labelled.quality == 1.0)
        outcome = Outcome.CORRECT if labelled.label else Outcome.INCORRECT
        labelled.outcome = (outcome if labelled.answer is not None else Outcome.NO_ANSWER).value

    def _find_out(self, to_grade: list[tuple[Labelled, Extraction | None]], to_run: list[tuple[Labelled, str]]) -> None:
        """Grade and run what is on the lists."""
        pairs = ((labelled.answer, labelled.record.references) for labelled, _ in to_grade)
        for (labelled, found), outcome in zip(to_grade, self._grader.grade(pairs), strict=True):
            labelled.outcome = outcome.value
            self.unmarked += outcome.correct is False and is_unmarked(found, labelled.record.references)
            if outcome.correct is not None:
                labelled.label, labelled.source = float(outcome.correct), "reference"
        if not to_run or self._run_code is None:
            return
        programs = ((response, labelled.record.fields) for labelled, response in to_run)
        for (labelled, _), execution in zip(to_run, self._run_code(programs), strict=True):
            passed = execution.outcome is ExecutionOutcome.PASSED
            labelled.label, labelled.source = float(passed), "tests"
            labelled.outcome = (Outcome.CORRECT if passed else Outcome.INCORRECT).value


def is_code(record: Record) -> bool:
    """Return whether the response is code, which the tests of its row judge."""
    return all(isinstance(record.get(field), str) for field in _CODE_FIELDS)


def found_in(record: Record) -> Extraction | None:
    """Return the answer of a record's response; None where it gives none, and where it is code."""
    if is_code(record):
        return None
    if task_of(record.fields) is not None:
        return answer_to(record.fields, record.response)
    return extract_answer(record.response, choices=any(map(is_multiple_choice, record.references)))


def brings_label(record: Record) -> bool:
    """Return whether a record has a field that says how good its response is, whatever it says."""
    return "correct" in record.fields or QUALITY in record.fields


def is_compared(record: Record) -> bool:
    """Return whether it is the comparison with its references that tells if a response is right."""
    return not (brings_label(record) or is_code(record) or task_of(record.fields) is not None)


def verdict_of(record: Record, answer: str | None) -> bool | None:
    """Return whether a response is right by its label, else by its data set's rule; None where neither says so.

    Args:
        record: the record. Its label is in ``correct``, else in ``quality``, of which 1 is right and 0 wrong.
        answer: the answer of its response.

    Raises:
        RecordError: its label is none.
    """
    try:
        brought = brought_label(record.fields)
    except RecordError as error:
        raise record.error(error.message) from None
    if brought is not None:
        return bool(brought.value) if brought.value in (0.0, 1.0) else None
    if is_compared(record) or is_code(record):
        return None
    try:
        return quality_of(record.fields, answer) == 1
    except (RecordError, UsageError):  # a rule that is not there or may not be used
        return None


def is_unmarked(found: Extraction | None, references: Sequence[str]) -> bool:
    """Return whether the references are words and a response does not mark its answer, so that it can hardly be right.

    Args:
        found: the answer; None where the response gives none.
        references: the right answers, one or more.
    """
    return (found is None or found.rule == "last_expression") and all(map(_WORDS.fullmatch, references))


def told_unmarked(count: int) -> str:
    """Return what to tell of ``count`` unmarked responses that count as wrong."""
    return (
        f"{count:,} responses count as wrong whose reference is words and which do not mark their answer "
        '("The answer is …")'
    )


def graded(labelled: Labelled) -> Record:
    """Return the record with ``correct`` (or ``quality``) and ``tokur.answer``; a label field of its own stays."""
    record = labelled.record
    if labelled.quality is not None:
        record.set(QUALITY, labelled.quality)
    name = QUALITY if labelled.outcome == QUALITY else "correct"
    if name not in record.fields:
        record.set(name, _json_label(labelled))
    record.set("tokur", {"schema": SCHEMA, **record.tokur, "answer": labelled.answer})
    return record


def _json_label(labelled: Labelled) -> Any:
    if math.isnan(labelled.label):
        return None
    return labelled.label if labelled.outcome == QUALITY else labelled.label == 1.0


def _text(found: Extraction | None) -> str | None:
    return None if found is None else found.text


def _put(labelled: Labelled, brought: Label) -> None:
    if brought.value is None:
        labelled.outcome = NULL_LABEL
        return
    labelled.label, labelled.source = brought.value, brought.field
    is_graded = brought.field == QUALITY or brought.value not in (0.0, 1.0)
    outcome = Outcome.CORRECT if brought.value == 1.0 else Outcome.INCORRECT
    labelled.outcome = QUALITY if is_graded else outcome.value
