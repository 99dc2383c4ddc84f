"""Grading: the answer of each response against its reference, with what cannot be decided kept apart from wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import islice

from tokur_cli.answers.equivalence import Comparison, Equivalence
from tokur_cli.answers.extract import reference_answer

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

    @property
    def correct(self) -> bool | None:
        """Whether the response is right; None where that is not known."""
        return None if self in (Outcome.UNPARSABLE_REFERENCE, Outcome.TIMEOUT) else self is Outcome.CORRECT


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


def grade(items: Iterable[tuple[str | None, object]], equivalence: Equivalence) -> Iterator[Outcome]:
    """Yield the outcome of each (answer, reference) pair, a thousand at a time, so that workers share the work.

    Args:
        items: the answer of each response, None for none, and the value of its reference: a text, a number, or a list
            of texts, any of which is right.
        equivalence: compares the answers.
    """
    stream = iter(items)
    while batch := list(islice(stream, _BATCH)):
        golds = [value if isinstance(value, list) else [value] for _, value in batch]
        pairs = [(answer, gold) for (answer, _), several in zip(batch, golds, strict=True) for gold in several]
        outcomes = iter(_grade_batch(pairs, equivalence))
        for several in golds:
            found = {next(outcomes) for _ in several} or {Outcome.UNPARSABLE_REFERENCE}
            yield min(found, key=_PRECEDENCE.index)


def _grade_batch(batch: list[tuple[str | None, object]], equivalence: Equivalence) -> list[Outcome]:
    golds = [reference_answer(reference) for _, reference in batch]
    pairs = [
        (gold, answer)
        for (answer, _), gold in zip(batch, golds, strict=True)
        if gold is not None and answer is not None
    ]
    compared = iter(equivalence.compare(pairs))
    return [
        Outcome.UNPARSABLE_REFERENCE
        if gold is None
        else Outcome.NO_ANSWER
        if answer is None
        else _OUTCOMES[next(compared)]
        for (answer, _), gold in zip(batch, golds, strict=True)
    ]
