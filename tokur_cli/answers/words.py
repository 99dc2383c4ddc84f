"""Numbers in English words, ``minus twenty-one``, ``two and a half``, ``three quarters``."""

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
_LARGE = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_BELOW = {"half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fourths": 4, "fifths": 5}
_BELOW |= {"fifth": 5, "sixth": 6, "sixths": 6, "eighth": 8, "eighths": 8, "tenth": 10, "tenths": 10}
NUMBER_WORDS = frozenset((*_SMALL, *_TENS, *_LARGE, *_BELOW, "point"))
"""Words that make another number of the one in front of them: "one thousand two hundred", "two thirds"."""

_DIGITS = (
    rf"(?:(?:{'|'.join(_TENS)})(?:[ -](?:{'|'.join(list(_SMALL)[1:10])})\b)?|(?:{'|'.join(list(_SMALL)[::-1])})\b)"
)
_HUNDREDS = rf"(?:(?:{_DIGITS}|an?)[ -]hundred(?:(?: and)? {_DIGITS})?|{_DIGITS})"
_GROUP = rf"(?:{_HUNDREDS}|an?)[ -](?:{'|'.join(list(_LARGE)[1:])})\b"
_WHOLE = re.compile(rf"(?i)(?:{_GROUP}(?:,? {_GROUP})*(?:,?(?: and)? {_HUNDREDS})?|{_HUNDREDS})(?![A-Za-z])")
_FRACTION = re.compile(rf"(?i)(?:(?P<above>{_DIGITS}|an?)[ -])?(?P<below>{'|'.join(_BELOW)})(?![A-Za-z])")
_AND_A_FRACTION = re.compile(r"(?i) and (?:a|one) (half|quarter|third)(?![A-Za-z])")

SIGN_WORDS = (
    r"(?:\b(?:minus|negative|moins(?!\s+de)|menos(?!\s+de)|meno)(?![a-z])"
    r"|минус|мінус|负|負|マイナス|마이너스|ลบ|âm|ऋण|سالب|ناقص|מינוס|eksi)"
)
"""A regular expression of the words for a minus sign."""

_SIGN = re.compile(rf"(?i){SIGN_WORDS}\s*")


def without_sign_word(text: str) -> tuple[str, bool]:
    """Return a text without the ``minus`` or ``negative`` that it begins with, and whether it did."""
    sign = _SIGN.match(text)
    return (text[sign.end() :], True) if sign and sign.end() < len(text) else (text, False)


def read_words(text: str) -> tuple[Fraction, int] | None:
    """Return the number in words that a text begins with and where it ends, or None where it begins with none.

    Args:
        text: such as ``four apples``, ``two and a half hours``.
    """
    part = _FRACTION.match(text)
    if part and (part["above"] or part["below"].lower() == "half") and not text.startswith(" a ", part.end()):
        above = _english(part["above"] or "a")
        is_ordinal = above > 1 and not part["below"].endswith("s")  # twenty-third
        return None if is_ordinal else (Fraction(above, _BELOW[part["below"].lower()]), part.end())
    whole = _WHOLE.match(text)
    if whole is None:
        return None
    added = _AND_A_FRACTION.match(text, whole.end())
    value = _english(whole[0]) + (Fraction(1, _BELOW[added[1].lower()]) if added else Fraction(0))
    return value, (added or whole).end()


def _english(words: str) -> int:
    total = group = 0
    for word in re.findall("[a-z]+", words.lower()):
        if word == "hundred":
            group = (group or 1) * 100
        elif word in _LARGE:
            total, group = total + (group or 1) * _LARGE[word], 0
        else:
            group += _SMALL.get(word, 0) + _TENS.get(word, 0)
    return total + group if total + group or words.lower() == "zero" else 1
