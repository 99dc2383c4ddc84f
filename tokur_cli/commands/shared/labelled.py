"""The one reading of records with their labels: ``evaluate``, ``select`` and ``heatmap`` go by it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack

from tokur_cli.answers.equivalence import Equivalence, Outcome
from tokur_cli.answers.grading import Labelled, LabelRule, grade
from tokur_cli.commands.options.labels import LabelOptions
from tokur_cli.commands.shared.errors import InvalidRecords, say
from tokur_cli.commands.shared.windows import windows
from tokur_cli.records.errors import RecordError, count_of
from tokur_cli.records.record import SCHEMA, Record

WINDOW = 64  # records that are labelled together: enough to share work on, few enough to hold with their token arrays


class Labeller(ExitStack):
    """Labels records; use it as a context manager, because it may start processes.

    With ``answers``, records that bring their label get an answer, too. If it ``is_strict``, a record that its data
    set's own rule cannot judge is a bad one, and not one without a label. ``equivalence`` tells equal answers.
    """

    def __init__(
        self, options: LabelOptions, invalid: InvalidRecords, *, answers: bool = True, is_strict: bool = True
    ) -> None:
        super().__init__()
        self._options, self._invalid, self._answers = options, invalid, answers
        self._rule = LabelRule(
            options.label_field, options.answer, may_run_code=options.unsafe_code_execution, is_strict=is_strict
        )
        self.equivalence = self.enter_context(Equivalence())
        self._has_run_code = False

    def read(self, items: Iterable[Record | RecordError]) -> Iterator[Labelled | RecordError]:
        """Yield the records with their labels, and the errors of bad ones, in order; so many are labelled together."""
        batches: Iterator[list[Record | RecordError]] = windows(items, itertools.repeat(WINDOW))
        for batch in batches:
            taken: list[Labelled | RecordError] = []
            for item in batch:
                taken.append(self.take(item))
                if isinstance(taken[-1], RecordError) and not self._invalid.skip:
                    break  # with which the command ends: no code of later records is run
            self._settle([one for one in taken if isinstance(one, Labelled)])
            yield from taken
            batch.clear()  # neither is held while the next ones are read
            taken.clear()

    def take(self, item: Record | RecordError) -> Labelled | RecordError:
        """Return a record with its label, or with what its label awaits: the caller is to compare it, or to test it."""
        if isinstance(item, RecordError):
            return item
        try:
            labelled = self._rule.label(item, answers=self._answers)
        except RecordError as error:
            return error
        runs_code = self._options.allow_code_execution or self._options.unsafe_code_execution
        if labelled.awaits == "tests" and not runs_code:
            labelled.awaits = None
        return labelled

    def test(self, records: Sequence[Record]) -> list[bool]:
        """Return whether the code of each record passes the tests of its row; code may be run."""
        if not records:
            return []
        from tokur_cli.answers.code.execution import run_all

        isolated = not self._options.unsafe_code_execution
        passed = list(run_all(((record.response, record.fields) for record in records), isolated=isolated))
        if not self._has_run_code:
            say(self._invalid.command, f"HumanEval tests run {'in bubblewrap' if isolated else 'without isolation'}")
            self._has_run_code = True
        return passed

    def _settle(self, taken: Sequence[Labelled]) -> None:
        """Find out what labels await."""
        compared = [one for one in taken if one.awaits == "comparison" and one.record.references]
        pairs = ((one.answer, one.record.references) for one in compared)
        for one, outcome in zip(compared, grade(pairs, self.equivalence), strict=True):
            one.settle(outcome, "reference")
        tested = [one for one in taken if one.awaits == "tests"]
        for one, passed in zip(tested, self.test([one.record for one in tested]), strict=True):
            one.settle(Outcome.of(passed), "tests")


def unmarked_note(count: int) -> str:
    """Return what to say of so many unmarked responses that count as incorrect."""
    responses = count_of(count, "response")
    return f'{responses} without a marked answer ("The answer is …"), incorrect beside words as reference'


def graded(labelled: Labelled) -> Record:
    """Return the record with ``correct`` (or ``quality``) and ``tokur.answer``; a label field of its own stays."""
    record = labelled.record
    is_quality = labelled.outcome == Outcome.QUALITY
    if labelled.quality is not None:
        record.set("quality", labelled.quality)
    if (name := "quality" if is_quality else "correct") not in record.fields:
        label = labelled.label if is_quality else labelled.label == 1.0
        record.set(name, None if math.isnan(labelled.label) else label)
    answer = None if isinstance(record.tokur.get("withheld"), str) else labelled.answer  # it stays withheld
    record.set("tokur", {"schema": SCHEMA, **record.tokur, "answer": answer})
    return record
