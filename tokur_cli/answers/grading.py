"""Grading: how a record gets its answer and its label, by one rule for all commands.

A label that the record brings along stands before everything else:

- ``correct``: true or false, or a number as quality is one; ``is_correct`` where it is true or false.
- ``quality``: a number in [0, 1], such as the share of a text's facts that hold.
- any other field by name (``scores.exact_match`` reaches into objects): true, false or a number in [0, 1]; in logs also
  what the program that wrote them says, such as the ``C`` and ``I`` of Inspect's scorers.

Without one a response is judged by the tests of its row if it is code, by the rule of its data set if that has one, and
else by comparing its answer with the references.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import regex

from tokur_cli.answers.canonical import canonical
from tokur_cli.answers.equivalence import Equivalence, Outcome, compare_cheaply
from tokur_cli.answers.extract import Extraction, extract_answer, reference_answer, wanted_of
from tokur_cli.answers.reasoning_gym import answer_to, quality_of, task_of
from tokur_cli.answers.text import plain
from tokur_cli.records.errors import RecordError, UsageError
from tokur_cli.records.formats import verdicts_of
from tokur_cli.records.mapping import value_at, with_fields
from tokur_cli.records.prompt import THINK_BEGINS
from tokur_cli.records.record import LABELS, Record

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

_PLACEHOLDERS = ("proof", "notfound")  # NuminaMath's, where a problem asks for a proof, or no answer was found
_PATTERN_SECONDS = 5.0
_LISTED = re.compile(  # a choice in a question
    r"(?:^[^\w\n]*|[(\[]|\s(?=[A-J]\)))([A-J])[.):\]](?!\s*(?:[.,;]|(?:or|and)\b))[^\S\n]*(.+?)\s*"
    r"(?=[(\[][B-J][)\]]|\s[B-J]\)|$)",
    re.MULTILINE,
)
_TYPESET = re.compile(r"\\(?:text|math)\w+\s*\{\s*(\([A-J]\))[\s\\]*\}(?:\\ )?|\\q?quad|\$")  # as AMC's are
_PRECEDENCE = (Outcome.CORRECT, Outcome.TIMEOUT, Outcome.INCORRECT, Outcome.UNPARSABLE_REFERENCE)
"""Which outcome stands where there are several references: the first of these."""


@dataclass(slots=True)
class Labelled:
    """A record with its label."""

    record: Record
    label: float = math.nan  # 1 for correct, 0 for incorrect, a quality in between; NaN if not known, or not yet
    outcome: Outcome = Outcome.NO_REFERENCE  # correct, incorrect, no_answer, quality, or of ``UNLABELLED``
    answer: str | None = None  # None if the response gives none or is code, or if it was not looked for
    source: str | None = None  # of the label: a field, ``reference``, ``tests`` or ``rule`` (the data set's own)
    quality: float | None = None  # what the data set's own rule gives for the answer, from 0 to 1
    awaits: Literal["comparison", "tests"] | None = None  # what is yet to tell the label
    # Whether the references are words and the response, which is compared, does not mark which of its own words answer
    # the question, so that it can hardly be right
    is_unmarked: bool = False

    @property
    def correct(self) -> bool | None:
        """Whether the response is correct; None where that is not known or in between."""
        return is_correct(self.label)

    def settle(self, outcome: Outcome, source: str, label: float | None = None) -> None:
        """Take what became of the response, what says so, and its label where the outcome is none that tells it."""
        self.awaits, self.outcome = None, outcome
        known = label if outcome.correct is None else outcome.correct
        if known is not None:
            self.label, self.source = float(known), source


@dataclass(frozen=True, slots=True)
class LabelRule:
    """How a record gets its answer and its label."""

    field: str | None = None  # that holds the label, see ``label_of``
    pattern: str | None = None  # the expression that reads the answer in place of ``extract_answer``
    may_run_code: bool = False  # whether a data set's own rule may run an answer as code
    is_strict: bool = True  # whether a data set's own rule that cannot be used is an error, and not an unknown label

    def label(self, record: Record, *, answers: bool = True) -> Labelled:
        """Return a record with its label, or with what its label awaits.

        Args:
            record: the record.
            answers: whether its answer is wanted though it brings its label along.

        Raises:
            RecordError: its label is none, or its response, its references or its data set's rule cannot be used.
            UsageError: a scorer's name or the library of its data set's rule is missing.
        """
        brought = label_of(record, self.field)
        answer = self.answer(record) if brought is None or answers else None
        labelled = Labelled(record, answer=None if answer is None else answer.text)
        if brought is not None:
            value, field = brought
            is_quality = field == "quality" and value is not None
            labelled.settle(Outcome.QUALITY if is_quality else Outcome.of(value), field, value)
        elif is_code(record):
            labelled.outcome, labelled.awaits = Outcome.CODE_NOT_RUN, "tests"
        elif task_of(record) is not None:
            self._put_quality(labelled)
        elif record.references and all(reference in _PLACEHOLDERS for reference in record.references):
            labelled.outcome = Outcome.PLACEHOLDER
        else:
            labelled.awaits = "comparison"
            is_marked = answer is not None and answer.rule != "closing"
            labelled.is_unmarked = not is_marked and wanted_of(record.references) in ("verdict", "words")
        return labelled

    def answer(self, record: Record) -> Extraction | None:
        """Return the answer of a record's response; None where it gives none, and where it is code."""
        if is_code(record):
            return None
        if record.tokur.get("reasoning") == "begun":  # by the prompt
            record = with_fields(record, response=THINK_BEGINS + record.response)
        if self.pattern is not None:
            return _last_match(self.pattern, record)
        if task_of(record) is not None:
            return answer_to(record)
        references, choices = record.references, dict[str, str]()
        with suppress(RecordError, IndexError):  # of turns that hold more than text, or of none
            choices = _choices_of(str(record.turns[-1]["content"])) if references else {}
        are_letters = choices and {reference.upper() for reference in references} <= choices.keys()
        wanted = "choice" if are_letters else wanted_of(references)
        names = {reference_answer(reference) or "" for reference in references}.union(choices.values())
        found = extract_answer(record.response, wanted=wanted, names=names)
        form = canonical(found.text if found else "")
        if found is None or (wanted == "choice") == (form.kind == "choice") or form.beside:
            return found
        alike = [letter for letter, text in choices.items() if compare_cheaply(canonical(text), form)]
        said = [choices.get(form.text, found.text)] if form.kind == "choice" else alike
        return replace(found, text=said[0]) if len(said) == 1 else found

    def _put_quality(self, labelled: Labelled) -> None:
        """Label a record by its data set's rule."""
        try:
            labelled.quality = quality_of(labelled.record, labelled.answer, may_run_code=self.may_run_code)
        except (RecordError, UsageError):
            if self.is_strict:
                raise
            labelled.outcome = Outcome.RULE_NOT_USED
        else:
            outcome = Outcome.NO_ANSWER if labelled.answer is None else Outcome.of(labelled.quality == 1.0)
            labelled.settle(outcome, "rule")


@lru_cache(maxsize=1024)
def _choices_of(question: str) -> dict[str, str]:
    """Return the choices that a question lists, by their letters; of several under one letter the last."""
    return dict(_LISTED.findall(re.sub(r"[^\S\n]+", " ", _TYPESET.sub(r" \1 ", plain(question)))))


def is_code(record: Record) -> bool:
    """Return whether the response is code, which the tests of its row judge."""
    return all(isinstance(record.get(field), str) for field in ("prompt", "test", "entry_point"))


def is_correct(label: float | None) -> bool | None:
    """Return whether a label says correct; None for null, NaN and what is in between."""
    return bool(label) if label in (0.0, 1.0) else None


def label_of(record: Record, field: str | None = None) -> tuple[float | None, str] | None:
    """Return the label that a record brings along, from 0 to 1 or None for null, and its field; None without one.

    Args:
        record: the record.
        field: the field to read instead of those named above; it must then be there.

    Raises:
        RecordError: the field is missing though named, or holds no label.
        UsageError: the record has the verdicts of several scorers, and none is named.
    """
    verdicts = verdicts_of(record.fields)
    said = verdicts or {}
    if field is not None:
        try:
            value = said[field] if field in said else value_at(record.fields, field)
        except LookupError:
            if verdicts is not None:
                known = f"; its scores are {', '.join(said)}" if said else ""
                problem = f'"{field}" is missing: --label-field names no field of this record{known}'
                raise record.error(problem) from None
            value = None
    elif (field := next((name for name in LABELS if _is_label(record, name)), None)) is not None:
        value = record.fields[field]
    elif len(said) > 1:
        raise UsageError(f"the records have several scores: choose the label with --label-field {' or '.join(said)}")
    else:
        return None
    if value is None:
        return None, field
    if isinstance(value, str) and re.fullmatch(r"true|false|[01](?:\.\d*)?|\.\d+", value.lower()):  # in a table
        value = value.lower() == "true" if value[0].isalpha() else float(value)
    if isinstance(value, (bool, int, float)) and 0 <= value <= 1:
        return float(value), field
    problem = f'"{field}" must be true, false or a number from 0 to 1, not {value!r:.40}'
    raise record.error(f"{problem}; --label-field names another field")


def _is_label(record: Record, name: str) -> bool:
    """Return whether a field is meant as the label: ``is_correct`` may say something else."""
    return name in record.fields and (
        name != "is_correct" or str(record.fields[name]).lower() in ("0", "1", "0.0", "1.0", "true", "false")
    )


def grade(items: Iterable[tuple[str | None, Sequence[str]]], equivalence: Equivalence) -> list[Outcome]:
    """Return the outcome of each (answer, references) pair; workers share the work on them.

    Args:
        items: the answer of each response, None for none, and its references, any of which is correct.
        equivalence: compares the answers.
    """
    graded = [(answer, [gold for gold in map(reference_answer, golds) if gold]) for answer, golds in items]
    compared = iter(equivalence.compare((gold, answer) for answer, golds in graded if answer for gold in golds))
    outcomes = []
    for answer, golds in graded:
        if answer and golds:
            outcomes.append(min((next(compared) for _ in golds), key=_PRECEDENCE.index))
        else:
            outcomes.append(Outcome.NO_ANSWER if golds else Outcome.UNPARSABLE_REFERENCE)
    return outcomes


def check_pattern(pattern: str) -> None:
    """Check an expression of the user's own that reads answers.

    Raises:
        UsageError: it is none.
    """
    if not pattern:
        raise UsageError("--answer: the expression is empty")
    try:
        regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        raise UsageError(f"--answer {pattern}: this is no regular expression: {error}") from None


def _last_match(pattern: str, record: Record) -> Extraction | None:
    """Return what a user's expression reads in a response: the first group of its last match, else the whole match.

    None without a match, or where that group took no part in it or is blank.
    """
    try:
        found = [*regex.finditer(pattern, record.response, timeout=_PATTERN_SECONDS)]
    except TimeoutError:  # repeats with a choice such as (a|aa)+$ may take forever
        raise record.error(f"--answer takes more than {_PATTERN_SECONDS:g} s on this response: simplify it") from None
    text = found[-1][min(1, found[-1].re.groups)] if found else None
    return Extraction(text.strip(), "pattern") if text and text.strip() else None
