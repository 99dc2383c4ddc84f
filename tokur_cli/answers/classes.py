r"""Classes of equal answers among the responses to one question, for voting.

Equality of a single pair is not transitive (``50%`` may be written 1/2 or 50), so classes are built in an order that
does not depend on the order of the answers, plainest forms first:

1. letters, by text; what stands beside one is another way to write it (``(C) 17``, ``C`` and ``17`` are one);
2. plain numbers, by exact value; a long decimal joins the value that it rounds (``0.333333`` joins 1/3);
3. scaled numbers (``50%``, ``5 million``) join the class of their exact value, else of the number in front of the per
   cent sign;
4. numbers with a unit join the plain class of the same number, else those with the same quantity (``1 hour``,
   ``60 minutes``): the answers to one question share the unit that it asks for;
5. words, by text;
6. expressions, by text, as a small letter of a choice, then by value: math-verify reads each distinct one once and
   gives a fingerprint (its exact value, or its value at a fixed point); lists, intervals and relations with one
   fingerprint are compared in pairs.

Names (the ``x`` of ``x = 5``) do not separate votes. A missing answer belongs to no class.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction

from tokur_cli.answers.canonical import Canonical, canonical
from tokur_cli.answers.equivalence import MIN_PLACES, Equivalence, Outcome, numbers_equal, readings, with_decimal_comma
from tokur_cli.answers.numbers import Number


def answer_classes(answers: Sequence[str | None], equivalence: Equivalence) -> list[str | None]:
    """Return the class of each answer to one question, named by the answer that began it; None for no answer.

    Args:
        answers: the texts as extracted; None or a blank text for no answer.
        equivalence: compares expressions; it is not asked while all answers are numbers, letters or words.
    """
    given = {answer: canonical(answer) for answer in answers if answer is not None and answer.strip()}
    plain = {value for form in given.values() if form.number and not form.number.unit for value in _keys(form)}
    forms = dict(sorted(given.items(), key=lambda item: (*_plainness(item[1], plain), len(item[0]), item[0])))
    prints = _fingerprints(forms, equivalence)
    known: dict[Hashable, str] = {}  # the class of each answer, and of what tells classes apart
    heads: dict[str, list[str]] = {}  # the answers that began classes, by the fingerprint that they share
    decimals: dict[str, Number] = {}
    for answer, form in forms.items():
        keys = _keys(form)
        own = keys[0]
        fingerprint = prints.get(form.text) if form.kind == "expression" else None
        if form.number and form.number.unit:  # the answers to one question share the unit that it asks for
            keys = [*keys[1:], own]
        elif form.number:
            if form.number.places >= MIN_PLACES:
                keys += [other for other, number in decimals.items() if numbers_equal(form.number, number)]
            decimals[answer] = form.number
        elif fingerprint and fingerprint.startswith("@"):
            own = fingerprint if ":" in fingerprint else Fraction(fingerprint[1:])  # 2+3 joins the class of 5
            keys.append(own)
        elif fingerprint:
            candidates = heads.setdefault(fingerprint, [])
            outcomes = equivalence.compare([(head, answer) for head in candidates])
            same = [head for head, outcome in zip(candidates, outcomes, strict=True) if outcome is Outcome.CORRECT]
            keys += same
            candidates += [] if same else [answer]
        known[answer] = next((known[key] for key in keys if key in known), answer)
        known.setdefault(own, known[answer])
        for key in _keys(form.beside) if form.beside and form.beside.kind != "words" else ():
            known.setdefault(key, known[answer])
    return [known[answer] if answer in forms else None for answer in answers]


def _keys(form: Canonical) -> list[Hashable]:
    """Return what an answer shares with others of its class, its own first."""
    number = form.number
    if number is None:
        letter = [("choice", form.text.upper())] if form.kind == "expression" else []
        decimal = with_decimal_comma(form).number
        return [(form.kind, form.text), *letter, *([decimal.value] if decimal else [])]
    quantity = [(number.unit.dimension, readings(number, with_unit=True)[0])] if number.unit else []
    return [*quantity, *readings(number)]


def _plainness(form: Canonical, plain: set[Hashable]) -> tuple[int, int, int, bool, int, str, str]:
    """Sort key: letters, plain numbers before others, exact ones before long decimals (the longest first), the rest."""
    number = form.number
    rank, qualified = ("choice", "number", "words", "expression").index(form.kind), 0
    if number is not None and number.unit:
        qualified = 4 if plain.isdisjoint(readings(number)) else 3
    elif number is not None:
        qualified = 2 if number.scale != 1 else 1 if number.name else 0
    places = number.places if number and number.places >= MIN_PLACES else 1_000_000
    # A pair in brackets comes before a bare list: "1, 2" equals both (1, 2) and (2, 1), which are not equal.
    bare = not form.text.startswith(("(", "["))
    return rank, qualified, -places, bare, len(form.text), form.text, form.latex


def _fingerprints(forms: dict[str, Canonical], equivalence: Equivalence) -> dict[str, str | None]:
    """Return the fingerprint of each expression, by its text; none where there is nothing to compare it with."""
    letters = {form.text for form in forms.values() if form.kind == "choice"}
    wanted = {
        form.text: answer
        for answer, form in reversed(forms.items())
        if form.kind == "expression" and form.text.upper() not in letters
    }
    if len({form.text for form in forms.values()}) == 1:
        return {}
    return dict(zip(wanted, equivalence.fingerprints(wanted.values()), strict=True))
