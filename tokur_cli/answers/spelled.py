"""Numbers in words: ``twenty-one``, ``three hundred and five``."""

from __future__ import annotations

import re

_ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = (
    "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = dict(zip(("zero", *_ONES, *_TEENS, *_TENS), (*range(20), *range(20, 100, 10)), strict=True))

_BELOW_100 = rf"(?:(?:{'|'.join(_TENS)})(?:[ -](?:{'|'.join(_ONES)}))?|{'|'.join(_TEENS)}|{'|'.join(_ONES)})"
_SPELLED = re.compile(
    rf"(?:zero|(?:{'|'.join(_ONES)}) hundred(?: (?:and )?{_BELOW_100})?|{_BELOW_100})(?![\w-])", re.IGNORECASE
)

NUMBER_WORDS = frozenset(_VALUES) | frozenset(
    ("hundred", "half", "halves", "third", "thirds", "fourths", "fifth", "fifths", "sixths", "eighths", "tenths")
)
"""Words that make another number of the one in front of them: "one thousand two hundred", "two thirds"."""


def in_digits(text: str) -> str:
    """Return a text with the number below 1000 that it begins with in digits, or as it is.

    Args:
        text: such as ``four apples``.
    """
    spelled = _SPELLED.match(text)
    if spelled is None:
        return text
    value = 0
    for word in re.findall("[a-z]+", spelled[0].lower()):
        value = value * 100 if word == "hundred" else value + _VALUES.get(word, 0)  # "and" counts nothing
    return str(value) + text[spelled.end() :]
