"""Numbers in English words, ``twenty-one``, ``two and a half``, ``three quarters``."""

from __future__ import annotations

import re
from fractions import Fraction

_SMALL = {
    name: number
    for number, name in enumerate(
        (
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
            "sixteen seventeen eighteen nineteen"
        ).split()
    )
}
_TENS = {name: 10 * n for n, name in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
_LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_BELOW = {"half": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fourths": 4, "fifth": 5, "fifths": 5}
NUMBER_WORDS = frozenset((*_SMALL, *_TENS, "hundred", *_LARGE, *_BELOW))
"""Words that make another number of the one in front of them: "one thousand two hundred", "two thirds"."""

_UNDER_100 = (
    rf"(?:(?:{'|'.join(_TENS)})(?:[ -](?:{'|'.join(list(_SMALL)[1:10])})\b)?|(?:{'|'.join(list(_SMALL)[::-1])})\b)"
)
_UNDER_1000 = rf"(?:(?:{_UNDER_100}|an?)[ -]hundred(?:(?: and)? {_UNDER_100})?|{_UNDER_100})"
_GROUP = rf"(?:{_UNDER_1000}|an?)[ -](?:{'|'.join(_LARGE)})\b"
_WHOLE = rf"(?:{_GROUP}(?:,? {_GROUP})*(?:,?(?: and)? {_UNDER_1000})?|{_UNDER_1000})"
_FRACTION = "|".join(_BELOW)
_NUMBER = re.compile(
    rf"(?i)(?:(?P<above>{_UNDER_100}|an?)[ -](?P<below>{_FRACTION})|(?P<half>half(?! a ))"
    rf"|(?P<whole>{_WHOLE})(?: and (?:a|one) (?P<added>{_FRACTION}))?)(?![A-Za-z])"
)


def read_words(text: str, start: int = 0) -> tuple[Fraction, int] | None:
    """Return the number in words that stands at ``start`` and where it ends, or None where none does.

    Args:
        text: such as ``four apples``, ``two and a half hours``.
        start: where the number begins.
    """
    number = _NUMBER.match(text, start)
    if number is None:
        return None
    if number["half"]:
        return Fraction(1, 2), number.end()
    whole, below = number["whole"] or number["above"], number["below"] or number["added"]
    value = Fraction(_value(whole))
    if number["below"]:
        is_ordinal = value > 1 and not below.lower().endswith("s")  # twenty-third
        return None if is_ordinal else (value / _BELOW[below.lower()], number.end())
    return value + (Fraction(1, _BELOW[below.lower()]) if below else 0), number.end()


def _value(words: str) -> int:
    total = group = 0
    for word in re.findall("[a-z]+", words.lower()):
        if word == "hundred":
            group *= 100
        elif word in _LARGE:
            total, group = total + group * _LARGE[word], 0
        else:
            group += 1 if word in ("a", "an") else _SMALL.get(word, 0) + _TENS.get(word, 0)
    return total + group
