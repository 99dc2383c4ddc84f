r"""Classes of equal answers among the responses to one question, for voting.

Equality of a single pair is not transitive (``50%`` may be written 1/2 or 50), so classes are built in an order that
does not depend on the order of the answers, plainest forms first:

1. letters, by text; what stands beside one is another way to write it (``(C) 17``, ``C`` and ``17`` are one);
2. plain numbers, by exact value; a long decimal joins the value that it rounds (``0.333333`` joins 1/3);
3. scaled numbers (``50%``, ``5 million``) and exact ones with a rounding (``127/3 ≈ 42.33``) join the class of their
   exact value, else of the number in front of the per cent sign or of the rounding;
4. numbers with a unit join the plain class of the same number, else those with the same quantity (``1 hour``,
   ``60 minutes``): the answers to one question share the unit that it asks for;
5. words, by text;
6. expressions, by text, as a small letter of a choice, then by value: math-verify reads each distinct one once and
   gives a fingerprint (its exact value, or its value at a fixed point); lists, intervals and relations with one
   fingerprint are compared in pairs.

Names (the ``x`` of ``x = 5``) do not separate votes. A missing answer belongs to no class.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction

from tokur_cli.answers.canonical import Canonical, canonical
from tokur_cli.answers.equivalence import MIN_PLACES, Equivalence, Outcome, numbers_equal, readings
from tokur_cli.answers.numbers import Number


def answer_classes(answers: Sequence[str | None], equivalence: Equivalence) -> list[str | None]:
    """Return the class of each answer to one question, named by the answer that began it; None for no answer.

    Args:
        answers: the texts as extracted; None or a blank text for no answer.
        equivalence: compares expressions; it is not asked while all answers are numbers, letters or words.
    """
    given = {answer: canonical(answer) for answer in answers if answer is not None and answer.strip()}
    forms = dict(sorted(given.items(), key=lambda item: (*_plainness(item[1]), len(item[0]), item[0])))
    known: dict[Hashable, str] = {}  # the class of each answer, and of what tells classes apart
    for answer, form in forms.items():
        if form.kind in ("choice", "words"):
            _put(known, answer, (form.kind, form.text))
            for key in _keys(form.beside) if form.beside else ():
                known.setdefault(key, known[answer])
    _put_numbers(known, {answer: form.number for answer, form in forms.items() if form.number})
    _put_expressions(known, {answer: form for answer, form in forms.items() if form.kind == "expression"}, equivalence)
    return [known[answer] if answer in forms else None for answer in answers]


def _plainness(form: Canonical) -> tuple[int, int, int, bool, int, str, str]:
    """Sort key: letters, plain numbers before others, exact ones before long decimals (the longest first), the rest."""
    number = form.number
    rank, qualified = ("choice", "number", "words", "expression").index(form.kind), 0
    if number is not None:
        is_scaled = number.scale != 1 or number.rounded is not None
        qualified = 3 if number.unit else 2 if is_scaled else 1 if number.name else 0
    long_places = number.places if number and number.places >= MIN_PLACES else 0
    # A pair in brackets comes before a bare list: "1, 2" equals both (1, 2) and (2, 1), which are not equal.
    bare = not form.text.startswith(("(", "["))
    return rank, qualified, -long_places if long_places else -1_000_000, bare, len(form.text), form.text, form.latex


def _put(known: dict[Hashable, str], answer: str, own: Hashable, *others: Hashable) -> None:
    """Put an answer into the class of the first key that is known, its own last; else it begins one."""
    known[answer] = next((known[key] for key in (*others, own) if key in known), answer)
    known.setdefault(own, known[answer])


def _put_numbers(known: dict[Hashable, str], numbers: Mapping[str, Number]) -> None:
    plain: dict[str, Number] = {}
    for answer, number in numbers.items():
        if not number.unit:
            exact, *alike = readings(number)
            others: list[Hashable] = [*alike]
            if number.places >= MIN_PLACES:
                others += [other for other in plain if numbers_equal(number, plain[other])]
            _put(known, answer, exact, exact, *others)
            plain[answer] = number
    united = [(answer, number, number.unit) for answer, number in numbers.items() if number.unit]
    for answer, number, unit in sorted(united, key=lambda item: known.keys().isdisjoint(readings(item[1]))):
        _put(known, answer, (unit.dimension, readings(number, with_unit=True)[0]), *readings(number))


def _keys(form: Canonical) -> list[Hashable]:
    """Return what tells the class of a number or expression beside a letter."""
    return [*readings(form.number)] if form.number else [(form.kind, form.text)] if form.kind == "expression" else []


def _put_expressions(known: dict[Hashable, str], forms: Mapping[str, Canonical], equivalence: Equivalence) -> None:
    of_text = {form.text: answer for answer, form in reversed([*forms.items()]) if _letter(form) not in known}
    has_others = bool(known) or len(of_text) > 1  # with which to compare them
    prints = dict(zip(of_text, equivalence.fingerprints(of_text.values()), strict=True)) if has_others else {}
    heads: dict[str, list[str]] = {}
    for answer, form in forms.items():
        text, fingerprint = (form.kind, form.text), prints.get(form.text)
        if fingerprint and fingerprint.startswith("@"):
            value = fingerprint if ":" in fingerprint else Fraction(fingerprint[1:])  # 2+3 joins the class of 5
            _put(known, answer, value, _letter(form), text)
            continue
        candidates = [] if fingerprint is None else heads.setdefault(fingerprint, [])
        outcomes = equivalence.compare([(head, answer) for head in candidates])
        same = [head for head, outcome in zip(candidates, outcomes, strict=True) if outcome is Outcome.CORRECT]
        _put(known, answer, text, _letter(form), *same)
        candidates += [] if same else [answer]


def _letter(form: Canonical) -> tuple[str, str]:
    """Return the key of the choice that a small letter may be."""
    return "choice", form.text.upper()
