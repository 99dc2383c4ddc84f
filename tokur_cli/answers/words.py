"""Numbers in English words, ``minus twenty-one``, ``two and a half``, ``three quarters``, and in Chinese numerals."""

from __future__ import annotations

import re
from fractions import Fraction

_ONES = {
    name: number
    for number, name in enumerate(
        (
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
            "sixteen seventeen eighteen nineteen"
        ).split()
    )
}
_TENS = {
    name: 10 * n
    for n, name in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2)
}
_FRACTIONS = {"half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fourths": 4, "fifths": 5}
_FRACTIONS |= {"fifth": 5, "sixth": 6, "sixths": 6, "eighth": 8, "eighths": 8, "tenth": 10, "tenths": 10}
_LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
NUMBER_WORDS = frozenset((*_ONES, *_TENS, *_FRACTIONS, *_LARGE, "hundred", "point"))
"""Words that make another number of the one in front of them: "one thousand two hundred", "two thirds"."""

SIGN_WORDS = (
    r"(?:\b(?:minus|negative|moins(?!\s+de)|menos(?!\s+de)|meno)(?![a-z])"
    r"|минус|мінус|负|負|マイナス|마이너스|ลบ|âm|ऋण|سالب|ناقص|מינוס|eksi)"
)
"""A regular expression of the words for a minus sign."""

_SIGN = re.compile(rf"(?i){SIGN_WORDS}\s*")
_WORD = re.compile(r"[ -]?([A-Za-z]+)(?![A-Za-z])")
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
        alone = numerals.end() == 1 and text[1:2] and text[1] not in _COUNTERS  # 一 of 一共 is no number
        value = None if alone else _chinese(numerals[0])
        return None if value is None else (value, numerals.end())
    words: list[tuple[str, int]] = []
    position = 0
    while len(words) < 24 and (word := _WORD.match(text, position)) and (words or not word.start(1)):
        position = word.end()
        words.append((word[1].lower(), position))
    return _english(words)


def _english(words: list[tuple[str, int]]) -> tuple[Fraction, int] | None:
    names = [word for word, _ in words] + ["", "", ""]
    number, used = _fraction(names, 0)
    if not used:
        whole, used = _whole(names, 0)
        if not used:
            return None
        number = Fraction(whole)
        if names[used] in _FRACTIONS:
            return None  # an ordinal: the twenty-third
        added, end = _fraction(names, used + 1) if names[used] == "and" else (Fraction(0), 0)
        number, used = number + added, end or used
    return number, words[used - 1][1]


def _fraction(names: list[str], start: int) -> tuple[Fraction, int]:
    """Return a fraction at ``start``, "a half", "three quarters", "half a dozen", and its end; 0 for none."""
    if names[start] in ("half", "halves"):
        large = {"dozen": 12, **_LARGE}.get(names[start + 2], 0) if names[start + 1] == "a" else 0
        return (Fraction(large, 2), start + 3) if large else (Fraction(1, 2), start + 1)
    article = names[start] in ("a", "an")
    above, end = (1, start + 1) if article else _whole(names, start)
    if end and 0 < above < 100 and names[end] in _FRACTIONS and (above == 1 or names[end].endswith("s")):
        return Fraction(above, _FRACTIONS[names[end]]), end + 1
    return Fraction(0), 0


def _whole(names: list[str], start: int) -> tuple[int, int]:
    """Return a whole number at ``start`` and its end; 0 for none."""
    total, group, index = 0, 0, start
    last, room = 10**15, 1000  # what the next word must be below: "twenty" leaves 10, "one" leaves nothing
    known = names[start] in ("a", "an") and (names[start + 1] in ("hundred", "dozen") or names[start + 1] in _LARGE)
    if known:
        group, index = 1, start + 1
    while names[index]:
        word = names[index]
        if word in _ONES and 0 <= _ONES[word] < room:
            group, room, known = group + _ONES[word], 0, True
        elif word in _TENS and _TENS[word] < room:
            group, room, known = group + _TENS[word], 10, True
        elif word == "hundred" and known and 0 < group < 100:
            group, room = group * 100, 100
        elif word == "dozen" and known:
            return total + group * 12, index + 1
        elif word in _LARGE and known and _LARGE[word] < last:
            total, group, room, last = total + group * _LARGE[word], 0, 1000, _LARGE[word]
        elif not (word == "and" and room in (100, 1000) and (total or group >= 100) and _goes_on(names, index + 1)):
            break
        index += 1
    return (total + group, index) if known else (0, 0)


def _goes_on(names: list[str], index: int) -> bool:
    """Return whether the number behind an "and" is a summand, and no fraction: "two hundred and five"."""
    return (names[index] in _ONES or names[index] in _TENS) and names[index + 1] not in _FRACTIONS


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
