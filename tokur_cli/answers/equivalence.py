"""Whether two answers are the same: by text and number first, else by math-verify in worker processes.

Numbers are compared exactly, as rationals. Beyond that:

- A decimal with at least six decimals and six significant digits equals what it is the rounding or truncation of
  (``0.333333`` is 1/3, ``0.3333`` is not).
- ``50%`` equals 1/2 and, because people leave the sign out when the question asks for percent, 50. Two percentages, and
  two plain numbers, must be equal as they are; so must ``5 million``, which is 5,000,000 and not 5.
- ``127/3 ≈ 42.33`` equals 127/3 and 42.33.
- Two units that we know must be of one dimension and are converted (``1 hour`` is ``60 minutes``); a unit on one side
  alone is not compared. Two names must agree (``x = 5`` is not ``y = 5``); a name on one side alone is not compared.

The relation is symmetric, except that an equation may answer where a value is asked for (``a + b = 7`` for 7), not the
other way. Because signs and units may be left out it is not transitive; ``classes`` says how votes cope.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from fractions import Fraction
from typing import Any

from tokur_cli.answers.canonical import Canonical, canonical, name_of
from tokur_cli.answers.numbers import Number
from tokur_cli.answers.symbolic import WorkerPool


class Outcome(str, Enum):
    """What became of a response, and of a comparison of an answer with a reference."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    NO_ANSWER = "no_answer"
    """The response gives no answer: it counts as incorrect."""
    QUALITY = "quality"
    """The label is a quality between 0 and 1."""
    UNPARSABLE_REFERENCE = "unparsable_reference"
    """The reference is not mathematics that math-verify can read, and the answer is not the same text."""
    TIMEOUT = "timeout"
    """The comparison ran out of time or memory."""
    NO_REFERENCE = "no_reference"
    PLACEHOLDER = "placeholder"
    NULL_LABEL = "null_label"
    CODE_NOT_RUN = "code_not_run"
    RULE_NOT_USED = "rule_not_used"

    __str__ = str.__str__

    @classmethod
    def of(cls, correct: bool) -> Outcome:
        """Return the outcome of a response that is correct, or is not."""
        return cls.CORRECT if correct else cls.INCORRECT

    @property
    def correct(self) -> bool | None:
        """Whether the response is correct; None where that is not known."""
        return self is Outcome.CORRECT if self in (Outcome.CORRECT, Outcome.INCORRECT, Outcome.NO_ANSWER) else None


_OUTCOMES = {True: Outcome.CORRECT, "unparsable": Outcome.UNPARSABLE_REFERENCE, None: Outcome.TIMEOUT}
"""What the replies of workers mean; all else is ``INCORRECT``."""

_FOREIGN_WORD = re.compile("[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0400-\u1fff\u3040-\ud7ff]")

_WORD = re.compile(r"[^\W\d_]{2}")
_SIGN = re.compile(r"[\\=<>^+*/|{}\[\]]")

MIN_PLACES = 6
"""From how many decimals on a decimal may stand for the number that it abbreviates."""

_MIN_SIGNIFICAND = 10**5
_REMEMBERED = 100_000  # replies of workers; then all are forgotten


def numbers_equal(first: Number, second: Number) -> bool:
    """Return whether two numbers are the same by the rules in this module's docstring."""
    if first.name and second.name and first.name != second.name:
        return False
    if first.unit and second.unit and first.unit.dimension != second.unit.dimension:
        return False
    has_units = first.unit is not None and second.unit is not None
    one_is_percent = {first.scale, second.scale} == {Fraction(1), Fraction(1, 100)}
    ones, others = (_values(number, has_units, one_is_percent) for number in (first, second))
    return any(one == other or abs(one - other) < max(last, final) for one, last in ones for other, final in others)


def _values(number: Number, has_unit: bool, has_no_percent: bool) -> list[tuple[Fraction, Fraction]]:
    """Return the values that a number may have, each with the size of its last decimal if it may be off by as much."""
    unit = number.unit.factor if number.unit and has_unit else Fraction(1)
    factors = {number.scale * unit, unit} if has_no_percent else {number.scale * unit}
    last = Fraction(1, 10**number.places)
    if number.places < MIN_PLACES or abs(number.value) < _MIN_SIGNIFICAND * last:
        last = Fraction(0)
    written = [number.value] if number.rounded is None else [number.value, number.rounded]
    return [(value * factor, last * factor) for value in written for factor in factors]


def compare_cheaply(reference: Canonical, answer: Canonical) -> bool | None:
    """Return whether two answers are the same as text or number; None where only a symbolic comparison can tell."""
    if reference.number and answer.number:
        return numbers_equal(reference.number, answer.number)
    forms, kinds = (reference, answer), {reference.kind, answer.kind}
    if kinds == {"choice"}:
        named = [form.beside for form in forms if form.beside and form.beside.kind == "words"]
        return reference.text == answer.text and len({form.text for form in named}) < 2  # "A. Ada" is not "A. Alan"
    if "choice" in kinds:
        letter, other = forms if reference.kind == "choice" else (answer, reference)
        beside = letter.beside
        if beside is None or other.text.upper() == letter.text:
            return other.text.upper() == letter.text
        return compare_cheaply(beside, other) if letter is reference else compare_cheaply(other, beside)
    if len(kinds) == 1 and reference.text in (answer.text, f"[{answer.text}]"):  # a list as Python has it
        return True
    if all(map(_is_prose, forms)) and name_of(reference.text) == name_of(answer.text):
        return True
    expressions = [form.text for form in forms if form.kind == "expression"]
    words = [form.text for form in forms if form.kind == "words"]
    if not expressions or any(word not in expressions[0].casefold() for word in words):
        return False
    # Of what is no mathematics a parser would take the numbers among the words.
    return False if any(map(_FOREIGN_WORD.search, expressions)) else None


def _is_prose(form: Canonical) -> bool:
    """Return whether an answer is a name of several words or with digits, "St. Louis", and no formula."""
    return form.kind in ("words", "expression") and bool(_WORD.search(form.text)) and not _SIGN.search(form.text)


class Equivalence:
    """Compares answers, symbolically where needed, and remembers what it found; use it as a context manager.

    Args:
        workers: the processes for symbolic comparison; by default a pool of its own.
    """

    def __init__(self, workers: WorkerPool | None = None) -> None:
        self._workers = workers or WorkerPool()
        self._known: dict[tuple[str, ...], Any] = {}

    def __enter__(self) -> Equivalence:
        return self

    def __exit__(self, *exception: object) -> None:
        self._workers.close()

    def compare(self, pairs: Iterable[tuple[str, str]]) -> list[Outcome]:
        """Compare each (reference, answer); what is the same or different at sight never reaches a worker.

        Args:
            pairs: the texts of reference and answer, as extracted.
        """
        outcomes: list[Outcome | None] = []
        asked: list[tuple[str, ...]] = []
        for texts in pairs:
            reference, answer = map(canonical, texts)
            same = compare_cheaply(reference, answer)
            outcomes.append(None if same is None else Outcome.of(same))
            if same is None:  # of a choice, what stands beside its letter
                asked.append(("verify", (reference.beside or reference).latex, (answer.beside or answer).latex))
        replies = iter(self._ask(asked))
        return [_OUTCOMES.get(next(replies), Outcome.INCORRECT) if one is None else one for one in outcomes]

    def fingerprints(self, answers: Sequence[str]) -> dict[str, str]:
        """Return for each expression a text that equal ones share, where it has one; math-verify reads each once."""
        found = self._ask([("fingerprint", canonical(answer).latex) for answer in answers])
        return {answer: fingerprint for answer, fingerprint in zip(answers, found, strict=True) if fingerprint}

    def _ask(self, requests: Sequence[tuple[str, ...]]) -> list[Any]:
        """Return the replies to all requests; only those not yet known go to the workers."""
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        unknown = [request for request in dict.fromkeys(requests) if request not in self._known]
        if unknown:
            self._known.update(zip(unknown, self._workers.map(unknown), strict=True))
        return [self._known[request] for request in requests]
