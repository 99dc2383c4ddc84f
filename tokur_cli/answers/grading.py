"""Grading: the answer of each response against its reference, with what cannot be decided kept apart from wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from tokur_cli.answers.canonical import canonical
from tokur_cli.answers.equivalence import Comparison, Equivalence
from tokur_cli.answers.extraction import ExtractionRule, extract_answer, reference_answer

_BATCH = 1024


class Outcome(str, Enum):
    """What became of a response."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    NO_ANSWER = "no_answer"
    """The response gives no answer: it counts as wrong."""
    UNPARSABLE_REFERENCE = "unparsable_reference"
    """There is no reference, or none that can be read: the response has no label."""
    TIMEOUT = "timeout"
    """The comparison ran out of time or memory: the response has no label."""


_PRECEDENCE = (
    Outcome.CORRECT,
    Outcome.TIMEOUT,
    Outcome.INCORRECT,
    Outcome.NO_ANSWER,
    Outcome.UNPARSABLE_REFERENCE,
)
"""Which outcome stands where there are several references: the first of these."""

_OUTCOMES = {
    Comparison.EQUAL: Outcome.CORRECT,
    Comparison.DIFFERENT: Outcome.INCORRECT,
    Comparison.UNPARSABLE: Outcome.UNPARSABLE_REFERENCE,
    Comparison.OUT_OF_LIMITS: Outcome.TIMEOUT,
}


@dataclass(frozen=True, slots=True)
class Grade:
    """The outcome for one response, with its answer as extracted and the rule that found it."""

    outcome: Outcome
    answer: str | None = None
    rule: ExtractionRule | None = None

    @property
    def correct(self) -> bool | None:
        """Whether the response is right; None where that is not known."""
        if self.outcome in (Outcome.UNPARSABLE_REFERENCE, Outcome.TIMEOUT):
            return None
        return self.outcome is Outcome.CORRECT


class Grader:
    """Grades responses in a stream; use it as a context manager, because it may start worker processes.

    Args:
        equivalence: compares the answers; by default one of its own with its default limits.

    Attributes:
        counts: how often each outcome has come out so far.
    """

    def __init__(self, equivalence: Equivalence | None = None) -> None:
        self.equivalence = equivalence or Equivalence()
        self.counts: Counter[Outcome] = Counter()

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.equivalence.__exit__(*exception)

    def grade(self, items: Iterable[tuple[str, object]]) -> Iterator[Grade]:
        """Grade (response, reference) pairs, in order and a thousand at a time, so that workers share the work.

        Args:
            items: the text of each response, and the value of its reference: a text, a number, or a list of texts, any
                of which is right.
        """
        stream = iter(items)
        while batch := list(islice(stream, _BATCH)):
            golds = [value if isinstance(value, list) else [value] for _, value in batch]
            pairs = [(response, gold) for (response, _), several in zip(batch, golds, strict=True) for gold in several]
            grades = iter(self._grade_batch(pairs))
            for several in golds:
                grade = min((next(grades) for _ in several), key=lambda grade: _PRECEDENCE.index(grade.outcome))
                self.counts[grade.outcome] += 1
                yield grade

    def _grade_batch(self, batch: list[tuple[str, object]]) -> list[Grade]:
        grades: list[Grade | None] = []
        pairs = []
        found = []
        for response, reference_value in batch:
            reference = reference_answer(reference_value)
            if reference is None:
                grades.append(Grade(Outcome.UNPARSABLE_REFERENCE))
                continue
            gold = canonical(reference)
            extraction = extract_answer(response, choices=gold.kind == "choice")
            if extraction is None:
                grades.append(Grade(Outcome.NO_ANSWER))
                continue
            grades.append(None)
            found.append(extraction)
            pairs.append((gold, canonical(extraction.text)))
        outcomes = zip(found, self.equivalence.compare_canonical(pairs), strict=True)
        graded = (Grade(_OUTCOMES[outcome], extraction.text, extraction.rule) for extraction, outcome in outcomes)
        return [grade if grade is not None else next(graded) for grade in grades]
