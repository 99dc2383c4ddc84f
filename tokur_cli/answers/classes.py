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
   value, or its value at a fixed point); lists, intervals and relations with one
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
    forms = _lettered({answer: canonical(answer) for answer in set(answers) if answer is not None and answer.strip()})
    classes = _classes(sorted(set(forms.values()), key=_plainness), equivalence)
    shown: dict[Hashable, str] = {}
    for answer, form in sorted(forms.items(), key=lambda item: (_plainness(item[1]), len(item[0]), item[0])):
        shown.setdefault(classes[form], answer)
    order = {key: rank for rank, key in enumerate(sorted(shown, key=lambda key: shown[key]))}
    labels = [order[classes[forms[answer]]] if answer in forms else None for answer in answers]
    return AnswerClasses(labels, sorted(shown.values()))


def _lettered(forms: dict[str, Canonical]) -> dict[str, Canonical]:
    """Return the forms of answers, with the letter in place of a value that another answer has beside it."""
    letters: dict[Canonical, Canonical] = {}
    for form in sorted(set(forms.values()), key=_plainness):
        if form.beside and form.beside.kind in ("number", "expression"):
            letters.setdefault(form.beside, Canonical("choice", form.text, form.text))
    return {
        answer: form
        if form.kind == "choice"
        else next((letter for value, letter in letters.items() if compare_cheaply(value, form)), form)
        for answer, form in forms.items()
    }


def _plainness(form: Canonical) -> tuple[int, bool, int, bool, int, str, str]:
    """Sort key: plain numbers before others, exact ones before long decimals (the longest first), short texts first."""
    number = form.number
    kind = ("number", "choice", "words", "expression").index(form.kind)
    qualified = number is not None and (number.unit is not None or number.scale != 1 or number.name != "")
    long_places = number.places if number and number.places >= MIN_PLACES else 0
    # A pair in brackets comes before a bare list: "1, 2" equals both (1, 2) and (2, 1), which are not equal.
    bare = not form.text.startswith(("(", "["))
    return kind, qualified, -long_places if long_places else -1_000_000, bare, len(form.text), form.text, form.latex


def _classes(forms: Sequence[Canonical], equivalence: Equivalence) -> dict[Canonical, Hashable]:
    """Return what stands for the class of each form, of forms in the order of their plainness."""
    known: dict[Hashable, Hashable] = {}  # each key, and what stands for its class
    found: dict[Canonical, Hashable] = {}

    def put(form: Canonical, *keys: Hashable) -> None:
        """Put a form into the class of the first key that is known, else into a new one; its last key is then known."""
        found[form] = next((known[key] for key in keys if key in known), keys[-1])
        known.setdefault(keys[-1], found[form])

    numbers = [(form, form.number) for form in forms if form.number]
    plain: dict[Fraction, Number] = {}
    for form, number in numbers:
        if number.scale == 1 and not number.unit and number.rounded is None:
            is_new = number.places >= MIN_PLACES and number.value not in plain
            rounded = [value for value, other in plain.items() if is_new and numbers_equal(number, other)]
            put(form, *rounded, number.value)
            plain.setdefault(number.value, number)
    for form, number in numbers:
        if form not in found and not number.unit:
            put(form, *_values(number), number.value * number.scale)
    united = [(form, number) for form, number in numbers if form not in found]
    for form, number in sorted(united, key=lambda item: known.keys().isdisjoint(_values(item[1]))):
        put(form, *_values(number), _quantity(number.value * number.scale, number.unit))
    for form in forms:
        if form.kind in ("choice", "words"):
            put(form, (form.kind, form.text))
        elif form.kind == "expression" and ("choice", form.text.upper()) in known:
            put(form, ("choice", form.text.upper()))
    rest = [form for form in forms if form not in found]
    distinct = {form.text: form for form in reversed(rest)}
    short = [form for form in distinct.values() if len(form.text) <= MAX_SYMBOLIC_LENGTH]
    is_alone = not known and len(distinct) == 1  # there is nothing to compare it with
    prints = {} if is_alone else dict(zip(short, equivalence.fingerprints(short), strict=True))
    heads: dict[str, list[Canonical]] = {}
    for form in rest:
        first = distinct[form.text]
        if first not in found:
            found[first] = first
            fingerprint = prints.get(first) or ""
            if fingerprint.startswith("@"):
                value = fingerprint if ":" in fingerprint else Fraction(fingerprint[1:])  # 2+3 joins the class of 5
                found[first] = known.setdefault(value, first)
            elif fingerprint:
                candidates = heads.setdefault(fingerprint, [])
                outcomes = equivalence.compare_canonical([(head, first) for head in candidates])
                same = [head for head, out in zip(candidates, outcomes, strict=True) if out is Outcome.CORRECT]
                found[first] = found[same[0]] if same else first
                candidates += [] if same else [first]
        found[form] = found[first]
    return found


def _values(number: Number) -> list[Fraction]:
    """Return what a number may be written as without its unit and per cent sign, its exact value first."""
    values = [number.value * number.scale]
    if number.scale == Fraction(1, 100):
        values.append(number.value)
    if number.rounded is not None:
        values.append(number.rounded * number.scale)
    return values


def _quantity(value: Fraction, unit: Unit | None) -> Hashable:
    return unit and (unit.dimension, value * unit.factor)
