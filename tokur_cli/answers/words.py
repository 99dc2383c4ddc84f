"""Numbers in English words, ``minus twenty-one``, ``two and a half``, ``three quarters``, and in Chinese numerals."""

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
_CHINESE_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_CHINESE_UNITS = {"十": 10, "百": 100, "千": 1000}
_CHINESE_LARGE = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_NUMERALS = "".join((*_CHINESE_DIGITS, *_CHINESE_UNITS, *_CHINESE_LARGE))
CHINESE = rf"(?:\d[\d,.]*(?=[千万萬亿億])|[{_NUMERALS}])(?:\d[\d,]*|[{_NUMERALS}])*"
"""What may be a number with Chinese numerals in it, as Japanese has them, too."""

_CHINESE = re.compile(CHINESE)
_CHINESE_FRACTION = re.compile(rf"({CHINESE}|\d+)\s*(?:分之|分の)\s*({CHINESE}|\d+)")
_CHINESE_TOKEN = re.compile(r"\d[\d,.]*|\D")
_COUNTERS = frozenset("个個只本人元块名张張辆棵条天年岁歳つ冊匹枚台回度倍円分秒杯。.,)% \n")


def without_sign_word(text: str) -> tuple[str, bool]:
    """Return a text without the ``minus`` or ``negative`` that it begins with, and whether it did."""
    sign = _SIGN.match(text)
    return (text[sign.end() :], True) if sign and sign.end() < len(text) else (text, False)


def read_words(text: str) -> tuple[Fraction, int] | None:
    """Return the number in words that a text begins with and where it ends, or None where it begins with none.

    Args:
        text: such as ``four apples``, ``two and a half hours``, ``十二个``.
    """
    fraction = _CHINESE_FRACTION.match(text)
    if fraction:
        below, above = _chinese(fraction[1]), _chinese(fraction[2])
        return (above / below, fraction.end()) if below and above is not None else None
    numerals = _CHINESE.match(text)
    if numerals:
        if text.startswith(("个半", "個半", "半"), numerals.end()):
            return None  # two and a half
        alone = numerals.end() == 1 and text[1:2] and text[1] not in _COUNTERS  # 一 of 一共 is no number
        value = None if alone else _chinese(numerals[0])
        return None if value is None else (value, numerals.end())
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


def _chinese(text: str) -> Fraction | None:
    """Return what numerals such as ``三百五十``, ``3万5千`` or ``二〇二四`` are worth, None where they are none."""
    if len(text) > 1 and all(character in _CHINESE_DIGITS for character in text):
        return Fraction("".join(str(_CHINESE_DIGITS[character]) for character in text))
    total = section = Fraction(0)
    digit: Fraction | None = None
    for token in _CHINESE_TOKEN.findall(text):
        if token in _CHINESE_UNITS:
            section, digit = section + (1 if digit is None else digit) * _CHINESE_UNITS[token], None
        elif token in _CHINESE_LARGE:
            total, section, digit = (total + section + (digit or 0)) * _CHINESE_LARGE[token], Fraction(0), None
        elif digit:
            return None
        else:
            written = token.replace(",", "").rstrip(".")
            digit = Fraction(_CHINESE_DIGITS.get(token, 0)) if token in _CHINESE_DIGITS else Fraction(written)
    return total + section + (digit or 0)
