"""Numbers in words: ``minus twenty-one``, ``two and a half``, ``three quarters``, ``half a dozen``, ``三百五十``, ``3万5千``."""

from __future__ import annotations

from fractions import Fraction

from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.foreign import read_foreign
from tokur_cli.answers.reading.languages import ENGLISH

_ONES = dict(
    zip(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen".split(),
        range(20),
        strict=True,
    )
)
_TENS = dict(zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True))
_PARTS = {
    name: number
    for number, names in {
        2: "half halves", 3: "third thirds", 4: "quarter quarters fourth fourths", 5: "fifth fifths",
        6: "sixth sixths", 7: "seventh sevenths", 8: "eighth eighths", 9: "ninth ninths", 10: "tenth tenths",
        100: "hundredth hundredths",
    }.items()
    for name in names.split()
}  # fmt: skip
_LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
SIGN_WORDS = r"(?:\b(?:minus|negative|(?<!au )(?<!ou )moins(?!\s+de)|(?<!al )(?<!lo )(?<!ou )(?<!o )menos(?!\s+de)|meno|eksi|(?:(?<=\bis )|(?<=\bvan )|(?<=\bdus )|\A)min(?=\s\d))|минус|мінус|负|負|零下|氷点下|영하|ناقص|マイナス|마이너스|음수|سالب|منفی|ऋण|माइनस|âm|ลบ|מינוס)(?![a-z])"
"""A regular expression of the words for a minus sign."""

_SIGNS = expression(rf"(?i){SIGN_WORDS}\s*")

NUMBER_WORDS = frozenset(_ONES) | frozenset(_TENS) | frozenset(_PARTS) | {"hundred", "point"} | frozenset(_LARGE)
"""Words that make another number of the one in front of them: "one thousand two hundred", "two thirds"."""

_WORD = expression(r"[ -]?([A-Za-z]+)(?![A-Za-z])")

_CJK_DIGITS = {
    **dict(zip("零一二三四五六七八九", range(10), strict=True)),
    "〇": 0,
    "两": 2,
    "兩": 2,
    "壹": 1,
    "贰": 2,
    "叁": 3,
    **dict(zip("일이삼사오육칠팔구", range(1, 10), strict=True)),
}
_CJK_UNITS = {"十": 10, "百": 100, "千": 1000, "拾": 10, "佰": 100, "仟": 1000, "십": 10, "백": 100, "천": 1000}
_CJK_LARGE = {"万": 10**4, "萬": 10**4, "만": 10**4, "亿": 10**8, "億": 10**8, "억": 10**8, "兆": 10**12}
CJK_NUMBER = (
    rf"(?:\d[\d,]*(?:\.\d+)?|[{''.join(_CJK_DIGITS)}])?[{''.join(_CJK_DIGITS)}{''.join(_CJK_UNITS)}{''.join(_CJK_LARGE)}]"
    rf"(?:\d[\d,]*(?:\.\d+)?|[{''.join(_CJK_DIGITS)}{''.join(_CJK_UNITS)}{''.join(_CJK_LARGE)}]"
    r"|(?<=[만억])\s(?=\d)|(?<=[십백천만억])\s(?=[일이삼사오육칠팔구][십백천만]|[십백천]|[삼사오육칠팔구](?![가-힣])|\d))*"
    rf"(?:[点點][{''.join(_CJK_DIGITS)}]+(?![分{''.join(_CJK_UNITS)}]))?"
)
"""What may be a number with Chinese, Japanese or Korean numerals in it."""

_CJK_TOKEN = expression(r"\d[\d,]*(?:\.\d+)?|\D")
_CJK_FRACTION = expression(rf"({CJK_NUMBER}|\d+)\s*(?:分之|分の|분의)\s*({CJK_NUMBER}|\d+)")
_SINGLE = frozenset("一二三四五六七八九十两千百万")
_COUNTERS = frozenset("个個只本人元块塊名支张張辆輛棵条條天年岁歳つ冊匹枚台頭回度倍円分秒杯。.,)% \n")
_KOREAN_DIGIT, _KOREAN_UNIT = expression("[일이삼사오육칠팔구]"), expression("[십백천만억]")
_CJK_START = expression(CJK_NUMBER)


def without_sign_word(text: str) -> tuple[str, bool]:
    """Return a text without the ``minus`` or ``negative`` that it begins with, and whether it did.

    Args:
        text: such as ``minus 5``, ``负5``.
    """
    sign = _SIGNS.match(text)
    return (text[sign.end() :], True) if sign and sign.end() < len(text) else (text, False)


def read_words(text: str, language: str = ENGLISH) -> tuple[Fraction, int] | None:
    """Return the number in words that a text begins with and where it ends, or None where it begins with none.

    Args:
        text: such as ``four apples``, ``two and a half hours``, ``十二个``.
        language: that of the text around it; numbers in English and in numerals are read in any.
    """
    if language != ENGLISH:
        foreign = read_foreign(text, language)
        if foreign:
            return foreign
    fraction = _CJK_FRACTION.match(text)
    if fraction:
        parts, count = _cjk_value(fraction[1]), _cjk_value(fraction[2])
        return (count / parts, fraction.end()) if parts and count is not None else None
    eastern = _CJK_START.match(text)
    if eastern:
        value = None if _is_other_word(text, eastern.end()) else _cjk_value(eastern[0])
        return None if value is None else (value, eastern.end())
    return _english(text)


def _english(text: str) -> tuple[Fraction, int] | None:
    words: list[tuple[str, int]] = []
    position = 0
    for _ in range(24):
        word = _WORD.match(text, position)
        if word is None or (position == 0 and word.start(1)):
            break
        position = word.end()
        words.append((word[1].lower(), position))
    value, used = _whole(words, 0)
    if used == 0:
        return None
    number = Fraction(value)
    following = words[used][0] if used < len(words) else ""
    if following in _PARTS and 0 < value < 100 and (value == 1 or following.endswith("s")):
        number, used = number / _PARTS[following], used + 1
    elif following in _PARTS and value in _TENS.values():
        return None  # an ordinal: the twenty-third
    elif following == "and" and used + 1 < len(words):
        rest, taken = _part(words, used + 1)
        if taken:
            number, used = number + rest, taken
    return number, words[used - 1][1]


def _part(words: list[tuple[str, int]], start: int) -> tuple[Fraction, int]:
    """Return a fraction in words at ``start`` ("a half", "three quarters") and where it ends; 0 words for none."""
    value, used = _whole(words, start)
    if used > start and used < len(words) and words[used][0] in _PARTS:
        return Fraction(value) / _PARTS[words[used][0]], used + 1
    return Fraction(0), 0


def _whole(words: list[tuple[str, int]], start: int) -> tuple[Fraction | int, int]:
    """Return a number of ``words`` from ``start`` on and where it ends, or ``start`` (0 words) where there is none."""
    total = group = Fraction(0)
    index, last, known = start, 10**15, False
    first = words[start][0] if start < len(words) else ""
    if first in ("a", "an"):
        following = words[start + 1][0] if start + 1 < len(words) else ""
        if following in _PARTS or following in ("hundred", "dozen") or following in _LARGE:
            group, known, index = Fraction(1), True, start + 1
    elif first in ("half", "halves"):
        article, large = ([word for word, _ in words[start + 1 : start + 3]] + ["", ""])[:2]
        if article == "a" and (large == "dozen" or large in _LARGE):
            return Fraction({"dozen": 12, **_LARGE}[large], 2), start + 3
        return Fraction(1, 2), start + 1
    room = 1000  # what the next word of a group must be below: "twenty" leaves 10, "one" leaves nothing
    while index < len(words):
        word = words[index][0]
        if word in _ONES and 0 <= _ONES[word] < room:
            group, room, known = group + _ONES[word], 0, True
        elif word in _TENS and _TENS[word] < room:
            group, room, known = group + _TENS[word], 10, True
        elif word == "hundred" and known and group < 100 and group:
            group, room = group * 100, 100
        elif word == "dozen" and known:
            return total + group * 12, index + 1
        elif word in _LARGE and known and _LARGE[word] < last:
            total, group, room, last = total + group * _LARGE[word], Fraction(0), 1000, _LARGE[word]
        elif word == "and" and known and room in (100, 1000) and index + 1 < len(words):
            following = words[index + 1][0]
            if not ((following in _ONES or following in _TENS) and (total or group >= 100)):
                break
            ahead = words[index + 2][0] if index + 2 < len(words) else ""
            if ahead in _PARTS:
                break
        else:
            break
        index += 1
    return (total + group, index) if known else (0, start)


def _is_other_word(text: str, end: int) -> bool:
    """Return whether a text begins with a word that but begins with one numeral: 一共; before 个 it is a number."""
    behind = text[1:2]
    return end == 1 and text[0] in _SINGLE and bool(behind) and behind not in _COUNTERS


def _cjk_value(text: str) -> Fraction | None:
    """Return what numerals such as ``三百五十``, ``3万5千``, ``二〇二四`` or ``1.5亿`` are worth, None where they are none."""
    whole, point, decimals = text.replace("點", "点").partition("点")
    if point:
        value = _cjk_value(whole)
        return (
            None if value is None else value + Fraction("0." + "".join(str(_CJK_DIGITS[digit]) for digit in decimals))
        )
    if _KOREAN_DIGIT.search(text) and not _KOREAN_UNIT.search(text):
        return None  # 이, 일 and others are syllables of many words
    if len(text) > 1 and all(character in _CJK_DIGITS for character in text):
        return Fraction("".join(str(_CJK_DIGITS[character]) for character in text))
    total = section = Fraction(0)
    digit: Fraction | None = None
    unit_before = 10**4
    for token in _CJK_TOKEN.findall(text.replace(" ", "")):
        if token[0] in "0123456789":
            if digit is not None:
                return None
            digit = Fraction(token.replace(",", ""))
        elif token in _CJK_DIGITS:
            if digit:
                return None
            digit = Fraction(_CJK_DIGITS[token])
        elif token in _CJK_UNITS:
            if _CJK_UNITS[token] >= unit_before:
                return None
            unit_before = _CJK_UNITS[token]
            section, digit = section + (1 if digit is None else digit) * unit_before, None
        else:
            amount = section + (digit or 0)
            if not amount and not total:
                return None
            total = total + amount * _CJK_LARGE[token] if amount else total * _CJK_LARGE[token]
            section, digit, unit_before = Fraction(0), None, 10**4
    return total + section + (digit or 0)
