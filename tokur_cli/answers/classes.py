r"""Classes of equal answers among the responses to one question, for voting.

Equality of a single pair is not transitive (``50%`` may be written 1/2 or 50), so classes are built in an order that
does not depend on the order of the answers, plainest forms first:

1. plain numbers, by exact value; a long decimal joins the value that it rounds (``0.333333`` joins 1/3);
2. scaled numbers (``50%``, ``5 million``) and exact ones with a rounding (``127/3 ≈ 42.33``) join the class of their
   exact value, else of the number in front of the per cent sign or of the rounding;
3. numbers with a unit join the plain class of the same number, else those with the same quantity (``1 hour``,
   ``60 minutes``): the answers to one question share the unit that it asks for;
4. letters and words, by text; a small letter joins the choice of its capital where there is one, and a number that of
   the letter that an answer has beside it (``(C) 17``, ``C`` and ``17`` are one);
5. expressions, by text, then by value: math-verify reads each distinct one once and gives a fingerprint (its exact
   value, or its value at a fixed point), kept apart by unit like numbers; lists, intervals and relations with one
   fingerprint are compared in pairs.

Names (the ``x`` of ``x = 5``) do not separate votes. A missing answer belongs to no class.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tokur_cli.answers.canonical import MAX_SYMBOLIC_LENGTH, Canonical, canonical
from tokur_cli.answers.equivalence import MIN_PLACES, Equivalence, Outcome, compare_cheaply, numbers_equal
from tokur_cli.answers.numbers import Number
from tokur_cli.answers.units import Unit


@dataclass(frozen=True, slots=True)
class AnswerClasses:
    """Classes of equal answers.

    Attributes:
        labels: for each answer the number of its class, or None where there was no answer.
        representatives: for each class its plainest answer; classes are in the order of these.
    """

    labels: list[int | None]
    representatives: list[str]


def answer_classes(answers: Sequence[str | None], equivalence: Equivalence) -> AnswerClasses:
    """Sort the answers to one question into classes of equal answers.

    Args:
        answers: the texts as extracted; None or a blank text for no answer.
        equivalence: compares expressions; it is not asked while all answers are numbers, letters or words.
    """
    forms = {answer: canonical(answer) for answer in set(answers) if answer is not None and answer.strip()}
    keys = _Keys()
    both: dict[Canonical, Canonical] = {}
    for form in sorted(set(forms.values()), key=_plainness):
        if form.beside and form.beside.kind in ("number", "expression"):
            both.setdefault(form.beside, Canonical("choice", form.text, form.text))
    lettered = {
        answer: next((letter for value, letter in both.items() if compare_cheaply(value, form)), form)
        for answer, form in forms.items()
        if form.kind != "choice"
    }
    forms |= lettered
    distinct = sorted(set(forms.values()), key=_plainness)
    keys.add_numbers([form for form in distinct if form.number])
    for form in distinct:
        if form.kind in ("choice", "words"):
            keys.put(form, (form.kind, form.text))
        elif form.kind == "expression" and keys.knows("choice", form.text.upper()):
            keys.put(form, ("choice", form.text.upper()))
    keys.add_expressions([form for form in distinct if form not in keys.classes], equivalence)

    shown: dict[int, str] = {}
    for answer, form in sorted(forms.items(), key=lambda item: (_plainness(item[1]), len(item[0]), item[0])):
        shown.setdefault(keys.classes[form], answer)
    order = {number: rank for rank, number in enumerate(sorted(shown, key=lambda number: shown[number]))}
    return AnswerClasses(
        [order[keys.classes[forms[answer]]] if answer in forms else None for answer in answers],
        sorted(shown.values()),
    )


def _plainness(form: Canonical) -> tuple[int, bool, int, bool, int, str, str]:
    """Sort key: plain numbers before others, exact ones before long decimals (the longest first), short texts first."""
    number = form.number
    kind = ("number", "choice", "words", "expression").index(form.kind)
    qualified = form.unit is not None or (number is not None and (number.scale != 1 or number.name != ""))
    long_places = number.places if number and number.places >= MIN_PLACES else 0
    # A pair in brackets comes before a bare list: "1, 2" equals both (1, 2) and (2, 1), which are not equal.
    bare = not form.text.startswith(("(", "["))
    return kind, qualified, -long_places if long_places else -1_000_000, bare, len(form.text), form.text, form.latex


class _Keys:
    """Canonical forms and the class that each is in; a class can be found under several keys."""

    def __init__(self) -> None:
        self.classes: dict[Canonical, int] = {}
        self._known: dict[Hashable, int] = {}
        self._count = 0

    def knows(self, *key: Hashable) -> bool:
        """Return whether a class has this key."""
        return key in self._known

    def put(self, form: Canonical, *keys: Hashable) -> None:
        """Put a form into the class of its first known key, or a new class, and make its first key known."""
        found = next((self._known[key] for key in keys if key in self._known), None)
        if found is None:
            found = self._count
            self._count += 1
        self.classes[form] = found
        self._known.setdefault(keys[0], found)

    def add_numbers(self, forms: list[Canonical]) -> None:
        numbers = [(form, form.number) for form in forms if form.number]
        plain = [
            (form, number)
            for form, number in numbers
            if number.scale == 1 and not number.unit and number.rounded is None
        ]
        self._add_plain(plain)
        for form, number in numbers:
            if not number.unit and (number.scale != 1 or number.rounded is not None):
                self.put(form, *_values(number))
        later = []
        for form, number in numbers:
            if number.unit:
                bare = next((key for key in _values(number) if key in self._known), None)
                if bare is None:
                    later.append((form, number))
                else:
                    self.put(form, bare)
                    self._known.setdefault(_quantity(number.value * number.scale, number.unit), self._known[bare])
        for form, number in later:
            assert number.unit is not None
            self.put(form, _quantity(number.value * number.scale, number.unit))

    def _add_plain(self, numbers: list[tuple[Canonical, Number]]) -> None:
        """Add plain numbers by value, a decimal of six or more places by the first value that it abbreviates."""
        values: dict[Fraction, Number] = {}
        for form, number in numbers:
            key = number.value
            if number.places >= MIN_PLACES and key not in values:
                key = next((value for value, other in values.items() if numbers_equal(number, other)), key)
            values.setdefault(key, number)
            self.put(form, key)
            self._known.setdefault(number.value, self.classes[form])

    def add_expressions(self, forms: list[Canonical], equivalence: Equivalence) -> None:
        open_forms = []
        for form in forms:
            if len(form.text) > MAX_SYMBOLIC_LENGTH or (form.kind, form.text) in self._known:
                self.put(form, (form.kind, form.text))
            else:
                self._known[form.kind, form.text] = self._count
                self._count += 1
                open_forms.append(form)
        if not open_forms:
            return
        alone = self._count == 1
        fingerprints = [None] * len(open_forms) if alone else equivalence.fingerprints(open_forms)
        heads: dict[str, list[Canonical]] = {}
        merged: dict[int, int] = {}
        for form, fingerprint in zip(open_forms, fingerprints, strict=True):
            own = self._known[form.kind, form.text]
            merged[own] = self._same_as(form, fingerprint, own, heads, equivalence)
        for form in forms:
            if form not in self.classes:
                self.classes[form] = merged[self._known[form.kind, form.text]]

    def _same_as(
        self,
        form: Canonical,
        fingerprint: str | None,
        own: int,
        heads: dict[str, list[Canonical]],
        equivalence: Equivalence,
    ) -> int:
        """Return the class that an expression belongs to: one with its fingerprint, or its own."""
        if fingerprint is None:
            return own
        if fingerprint.startswith("@"):
            value = _exact(fingerprint)
            key: Hashable = value
            if form.unit and value not in self._known:
                key = _quantity(value, form.unit) if isinstance(value, Fraction) else (form.unit, value)
            return self._known.setdefault(key, own)
        candidates = heads.setdefault(fingerprint, [])
        outcomes = equivalence.compare_canonical([(head, form) for head in candidates])
        for head, outcome in zip(candidates, outcomes, strict=True):
            if outcome is Outcome.CORRECT:
                return self._known[head.kind, head.text]
        candidates.append(form)
        return own


def _values(number: Number) -> list[Fraction]:
    """Return what a number may be written as without its unit and per cent sign, its exact value first."""
    values = [number.value * number.scale]
    if number.scale == Fraction(1, 100):
        values.append(number.value)
    if number.rounded is not None:
        values.append(number.rounded * number.scale)
    return values


def _quantity(value: Fraction, unit: Unit) -> Hashable:
    return unit.dimension, value * unit.factor


def _exact(fingerprint: str) -> Fraction | str:
    """Return the key of a fingerprint: the number where it is one, so that ``2+3`` joins the class of 5."""
    return fingerprint if ":" in fingerprint else Fraction(fingerprint[1:])
