r"""The amounts in a text: each number with its sign, currency, scale and unit, and the results of calculations."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice

from tokur_cli.answers.reading.canonical import canonical
from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.foreign import begins_with_number
from tokur_cli.answers.reading.languages import ENGLISH, has_decimal_comma
from tokur_cli.answers.reading.moments import first_date, first_moment
from tokur_cli.answers.reading.numbers import INTEGER, LETTER, Number, read_number
from tokur_cli.answers.reading.spelled import CJK_NUMBER, SIGN_WORDS, read_words
from tokur_cli.answers.reading.units import CURRENCY, CURRENCY_BEFORE, UNITS, scale_of
from tokur_cli.answers.reading.vocabulary import AND_A_HALF, AND_A_QUARTER

_DIGITS = (
    r"(?:\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:[ ']\d{3})+,\d+|[1-9]\d{0,2}(?:\.\d{3}){2,}(?![\d.,]*\d)"
    rf"|(?:{INTEGER})(?!\d)(?:[.,]\d+(?!,?\d))?|\d+(?:\.\d+)?|\.\d+)"
)
_CORE = (
    rf"(?:\\frac\{{-?\d+\}}\{{\d+\}}|{_DIGITS}(?:[eE][+-]?\d+(?![A-Za-z\d])"
    r"|\s?(?:\\times|\\cdot|[*×·x])\s?10\s?\^\s?(?:\{[+-]?\d+\}|[+-]?\d+)"
    r"|:[0-5]\d(?::[0-5]\d)?(?!\d)|\s?\\frac\{\d+\}\{\d+\}"
    r"|\s\d+/\d+(?!\d)|\s?/\s?\d+(?:\.\d+)?(?!\s?[/\d]))?)"
)
AMOUNT = expression(
    rf"(?:(?i:{SIGN_WORDS})\s*)?(?:(?<![A-Za-z0-9_.)\]}}%])[-+](?=[\\{CURRENCY}\d.]))?(?:{CURRENCY_BEFORE}\s?-?|(?<![A-Za-z_\d.^])(?<!\d,)(?<!\^\{{))"
    rf"{_CORE}(?:\s?(?:\\?%|percent\b))?"
)
"""A number in digits with what stands directly around it. Its value is for ``numbers.read_number`` to tell."""

_POWER = expression(r"\^(?:[23](?!\d)|\{[23]\})")
_SYMBOLS = expression(
    r"(?:\s?(?:π|\\pi(?![A-Za-z])|pi\b|√|\\?sqrt)(?:\{[^{}]*\}|\([^()]*\)|\s?\d+)?|\^(?:\{[^{}]*\}|-?[\w]+)"
    r"|(?!x\s(?:more|less|as|the|faster|slower|larger|bigger))[A-Za-z](?![A-Za-z']))+"
)
"""What makes a formula of the number in front of it: the π of 25π, the x of 3x."""

_PARTS = ("half", "quarter")
_BELOW_ZERO = expression(
    r"[^.;,:\d]{0,14}?\s?(?:below zero|under zero|bajo cero|abaixo de zero|sous zéro|sotto zero|unter null|ниже нуля"
    r"|мороза|تحت الصفر|overdrawn)"
)
_SIGN = expression(rf"(?i){SIGN_WORDS}\s*")
_HOUR_BEHIND = expression(r"\s?(?:[ap]m\b|[ap]\.\s?m\.)", re.IGNORECASE)
_CLOCK_BEHIND = expression(r"\s*(?:[ap]\.?\s?m\b\.?|o'clock\b|uhr\b)", re.IGNORECASE)
_UNIT_WORD = expression(
    rf"[\s-]?(?:\\?%|[{CURRENCY}°]|\\text\{{[^{{}}]*\}}|(?!in\s[a-z])[{LETTER}]+(?![&'])|\d[\d.,]*)"
)
_WIDE = expression(r"[\u0e00-\u0eff\u3040-\ud7ff]")
_ORDINAL_BEHIND = expression(r"[ -](?:first|second|third|[a-z]+th|past|to the power)\b")
_RANGE = expression(
    r"\s?[-–—~]\s?(?=\d)|\s(?:to|bis|a|à|до|至|or|oder|o|ou|или|y|і|या|یا|أو|hoặc|หรือ|atau|veya|lub|albo|eller|of|או)\s?(?=[-+]?\s?[$€£¥]?\d)|\s?(?:から|至|到|或|或者|또는|か|이나)\s?(?=\d)|\s?(?:±|\\pm)"
)
_SPELLED = expression(
    rf"(?i)(?:(?:{SIGN_WORDS})\s*)?(?:\b(?:zero|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|"
    r"fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|"
    r"(?<!and a )half|one(?=[ -](?:hundred|thousand|million|billion|half|third|quarter|fourth|fifth|and a))|"
    r"an?(?=\s(?:hundred|thousand|million|billion|dozen))|(?<!and )an?(?=\s(?:half|third|quarter))|"
    r"(?:an?|one)(?=\s[a-z]+\sand\sa\s(?:half|quarter)))\b"
    rf"|{CJK_NUMBER})"
)


@dataclass(frozen=True, slots=True)
class Amount:
    """A number where it stands in a text.

    Attributes:
        start: where it begins.
        end: where it ends, its scale and unit included where they are known.
        text: what stands there.
        number: what it says; None for a date or a time of day.
    """

    start: int
    end: int
    text: str
    number: Number | None

    @property
    def value(self) -> Fraction | str:
        """What tells it from another amount of the same text: its value without the unit, or its text."""
        return self.number.value * self.number.scale if self.number else canonical(self.text).text


def amounts(text: str, *, language: str = ENGLISH, spelled: bool = False) -> list[Amount]:
    """Return the amounts in a text, in their order and without overlaps.

    Args:
        text: in plain writing.
        language: as of ``read_number``.
        spelled: whether numbers in words count, too.
    """
    found: list[Amount] = []
    position = 0
    while position < len(text) and len(found) < 48:
        amount = next_amount(text, position, language=language, spelled=spelled)
        if amount is None:
            break
        found.append(amount)
        position = max(amount.end, position + 1)
    return found


def next_amount(text: str, start: int, *, language: str = ENGLISH, spelled: bool = False) -> Amount | None:
    """Return the first amount at or behind ``start``, None where there is none."""
    digits = AMOUNT.search(text, start)
    date = first_date(text, start)
    moment = first_moment(text, start, language)
    if moment and (digits is None or moment.start <= digits.start() or moment.end >= digits.end() > moment.start):
        return Amount(*moment, None)
    words = _first_spelled(text, start, language) if spelled else None
    first = date and (digits is None or date.start() <= digits.start() or date.end() >= digits.end() > date.start())
    if date and first and (words is None or date.start() <= words.start):
        return Amount(date.start(), date.end(), date[0], None)
    if words and (digits is None or words.start <= digits.start()):
        return words
    while digits:
        amount = _extended(text, digits, language)
        if amount:
            return amount
        digits = AMOUNT.search(text, digits.end())
    return None


def goes_on(text: str, end: int) -> bool:
    """Return whether what ends at ``end`` is but the first of several: the 10 of "10-12" and of "10 or 12"."""
    return bool(_RANGE.match(text, end))


def _first_spelled(text: str, start: int, language: str) -> Amount | None:
    """Return the first number in words at or behind ``start``; one of the text's language before another."""
    plain = next(filter(None, (_spelled(text, match) for match in _SPELLED.finditer(text, start))), None)
    if language == ENGLISH:
        return plain
    for word in islice(re.finditer(r"(?<!\S)\S", text[start:]), 20):
        begin = start + word.start()
        if plain and begin > plain.start:
            break
        sign = _SIGN.match(text, begin)
        found = read_words(text[sign.end() if sign else begin :], language)
        if found:
            end = (sign.end() if sign else begin) + found[1]
            best = alone = None
            for longer in _ends(text, begin, end):
                number = read_number(text[begin:longer].strip(), language=language)
                if number and (best is None or (number != alone and _says_more(number, best.number))):
                    alone = alone or number
                    value = number.value
                    words = text[end:longer].rstrip() if abs(value) == found[0] else ""
                    best = Amount(begin, longer, str(value) + words, number)
            if best:
                return _with_half(text, best)
        elif begins_with_number(text[begin:], language):
            return None  # number words that make no one number
    return plain


def _with_half(text: str, amount: Amount) -> Amount:
    """Return an amount with the half or quarter that the words behind it add: "8 and a half", "une heure et quart"."""
    half = AND_A_HALF.match(text, amount.end)
    added = half or AND_A_QUARTER.match(text, amount.end)
    if added is None or amount.number is None or amount.number.value.denominator != 1:
        return amount
    number = replace(amount.number, value=amount.number.value + Fraction(1, 2 if half else 4))
    unit = text[amount.start : amount.end].split()[1:]  # "une heure et quart" is a quarter of an hour more
    return Amount(amount.start, added.end(), " ".join([str(number.value), *unit]), number)


def _spelled(text: str, words: re.Match[str]) -> Amount | None:
    """Return the amount in words at a match, None where it is no number: the 一 of 一共, say."""
    start = words.start()
    best = None
    for end in _ends(text, start, words.end()):
        number = read_number(text[start:end].strip())
        if number:
            best = Amount(start, end, text[start:end].strip(), number)
    sign = _SIGN.match(text, start)
    begin = sign.end() if sign else start
    if (
        best is None
        or (read_words(text[begin : begin + 120]) is None and not best.text.endswith(_PARTS))
        or _ORDINAL_BEHIND.match(text, best.end)
    ):
        return None
    return best


def _ends(text: str, start: int, end: int) -> list[int]:
    """Return where an amount from ``start`` to ``end`` may end if the words behind it belong to it."""
    ends = [end]
    for _ in range(8):
        word = _UNIT_WORD.match(text, ends[-1])
        if word is None:
            break
        if _WIDE.match(word[0].strip()):  # a script without spaces: a unit is the beginning of what follows
            ends += range(word.start() + 1, min(word.end(), word.start() + 6))
        ends.append(word.end())
    return ends


def _extended(text: str, core: re.Match[str], language: str) -> Amount | None:
    """Return the amount whose digits are a match, with the scale and unit behind it that we know."""
    start, end = core.span()
    if ":" in core[0]:
        half = _CLOCK_BEHIND.match(text, end)
        end = half.end() if half else end
        return Amount(start, end, text[start:end].strip(), None)
    hour = _HOUR_BEHIND.match(text, end)
    if hour and core[0].strip().isdigit() and int(core[0]) <= 12:
        return Amount(start, hour.end(), text[start : hour.end()].strip(), None)
    number = read_number(core[0].strip(), language=language)
    best = Amount(start, end, shown(core[0], number, language), number) if number else None
    for longer in _ends(text, start, end)[1:] if _is_followed_up(text, end, language) else ():
        words = text[start:longer].strip()
        read = read_number(words, language=language)
        if read and read != number and (best is None or _says_more(read, best.number)):
            best = Amount(start, longer, shown(words, read, language), read)
    if best is None:
        return None
    best = _with_half(text, best)
    below = _BELOW_ZERO.match(text, best.end)
    if below and best.number and best.number.value > 0:
        return Amount(start, below.end(), f"-{best.text}", replace(best.number, value=-best.number.value))
    power = _POWER.match(text, best.end) if best.number and best.number.unit else None
    if power:
        return Amount(start, power.end(), best.text + power[0], best.number)
    symbols = _SYMBOLS.match(text, best.end)
    if symbols and not (best.number and best.number.unit):
        return Amount(start, symbols.end(), text[start : symbols.end()].strip(), None)
    return best


def _is_followed_up(text: str, end: int, language: str) -> bool:
    """Return whether the word behind a number may be a scale, a unit or the beginning of one."""
    following = _UNIT_WORD.match(text, end)
    if following is None:
        return False
    word = following[0].strip(" -")
    known = (
        word.lower() in UNITS
        or scale_of([word.lower()], language)[0] != 1
        or word in ("K", "M", "B", "bn", "mn", "square", "cubic", "sq")
    )
    return known or not (word[:1].isascii() and word[:1].isalpha())


def _says_more(longer: Number, number: Number | None) -> bool:
    """Return whether words behind a number belong to it: they name a scale, a unit or another part of the amount."""
    if number is None:
        return True
    return (
        longer.scale != number.scale
        or longer.value != number.value
        or (longer.unit is not None and number.unit is None)
    )


def shown(text: str, number: Number, language: str) -> str:
    """Return a number's text as it reads in any language: 1234.5 for a German 1.234,5, 2300 for "2 mil trescientos"."""
    text = text.strip()
    if language == ENGLISH or read_number(text) == number:
        return text
    if has_decimal_comma(language):
        digits = re.search(r"\d[\d.,]*\d", text)
        alone = digits and digits[0].replace(".", "").replace(",", ".")
        plain = text[: digits.start()] + alone + text[digits.end() :] if digits and alone else text
        if read_number(plain) == number:
            return plain
    return str(number.value * number.scale)
