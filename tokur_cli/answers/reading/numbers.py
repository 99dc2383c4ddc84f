r"""One grammar of numbers: sign, digits or words, scale, unit. ``read_number`` reads a text that is but a number.

- ``1,234``, ``1 234``, ``1'234``, ``12,34,567`` and ``1.234.567`` have thousands apart; ``1.234,50`` and ``0,5`` have
  a decimal comma, as has ``2,50 €``, where a unit says that it is one number. A bare ``18,20`` is a list. ``1.000 €``
  is a thousand: the sign stands behind where dots stand between thousands; ``€1.000`` is one.
- ``minus 5`` and ``negative 5`` are −5, ``42nd`` is 42, ``one half`` is 1/2, ``三百五十`` is 350, ``$2.5M`` is 2.5
  million.
- ``3 hours and 30 minutes`` is one amount, 3.5 hours. ``127/3 ≈ 42.33`` is 127/3 with the rounding beside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction

from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.languages import ENGLISH, has_decimal_comma
from tokur_cli.answers.reading.spelled import NUMBER_WORDS, read_words, without_sign_word
from tokur_cli.answers.reading.units import CURRENCY, CURRENCY_BEFORE, SCALES, UNITS, Unit, scale_of, unit_of


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written.

    Attributes:
        value: the number as written, exactly, without scale and unit.
        scale: 1/100 for ``%``, 1,000,000 for ``million``, otherwise 1.
        unit: what follows it, when it is a unit that we know.
        name: the variable of ``x = 5`` or the base of ``52_8``, otherwise empty.
        places: decimals written after the point; 0 for integers and fractions.
        rounded: the decimal written beside an exact value, 42.33 in ``127/3 ≈ 42.33``; None where there is none.
    """

    value: Fraction
    scale: Fraction = Fraction(1)
    unit: Unit | None = None
    name: str = ""
    places: int = 0
    rounded: Fraction | None = None


LETTER = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1fff\u2c00-\u2fff\u3005-\u3007\u3040-\ud7ff\uf900-\ufdff\ufe70-\uffef"
)
"""The letters and marks of all scripts, for a class of characters in a regular expression."""

INTEGER = r"[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?:[ ]\d{3})+|[1-9]\d{0,2}(?:'\d{3})+|[1-9]\d?(?:,\d{2})+,\d{3}|\d+"
_POWER_OF_TEN = r"10\s*\^\s*(?:\{\s*[+-]?\d{1,3}\s*\}|[+-]?\d{1,3})"
_NUMBER = expression(
    rf"""(?:(?P<name>[A-Za-z](?:_\{{?\w+\}}?)?)\s*=\s*)?
    (?P<sign1>[-+])?\s*(?P<currency>{CURRENCY_BEFORE})?\s*(?P<sign2>[-+])?\s*
    (?:
      (?:(?P<whole>\d+)\s*)?\\frac\s*\{{\s*(?P<top>-?\d+)\s*\}}\s*\{{\s*(?P<bottom>-?\d+)\s*\}}
    | (?:(?P<whole2>\d+)(?:[ ]+|[ ]and[ ]))?(?P<top2>{INTEGER})\s*/\s*(?P<bottom2>{INTEGER})
    | (?P<power>{_POWER_OF_TEN})
    | (?P<based>\d+)\s*_\s*\{{?\s*(?P<base>\d{{1,2}})\s*\}}?
    | (?P<integer>{INTEGER})?(?:\.(?P<decimals>\d*)(?:\\overline\s*\{{(?P<repeated>\d+)\}})?)?
      (?:[eE](?P<exponent>[+-]?\d{{1,3}})|\s*(?:\\times|\\cdot|\*|×|·|x)\s*(?P<times>{_POWER_OF_TEN}))?
    )
    \s*(?P<tail>.*)""",
    re.VERBOSE | re.DOTALL,
)
_WORD = rf"[{LETTER}][{LETTER}'./&-]*"
_TAIL = expression(
    rf"""\\text\{{(?P<text>[^{{}}]*)\}}(?P<text_power>\s*\^\s*\{{?\s*[23]\s*\}}?)?
    | (?P<scale>[KMB]|bn|mn|mio|mrd)\.?(?![a-z])\s*(?P<sign2>[{CURRENCY}]|[A-Z]{{3}})?
    | (?P<sign>[%¢{CURRENCY}])
    | (?P<words>{_WORD}(?:\s+{_WORD}){{0,5}})(?P<power>\s*\^\s*\{{?\s*[23]\s*\}}?)?\s*(?P<sign3>[{CURRENCY}])?""",
    re.VERBOSE,
)
_NO_UNITS = frozenset(
    "sin cos tan sec csc cot log ln exp mod and or over plus minus times divided pi sqrt infinity not to is if "  # noqa: SIM905
    "arcsin arccos arctan sinh cosh tanh det dim max gcd lcm than but oder ou или 或 或者 または 또는 أو या หรือ".split()
)
_LETTER_SCALES = {"K": 10**3, "M": 10**6, "B": 10**9, "bn": 10**9, "mn": 10**6, "mio": 10**6, "mrd": 10**9}
_ORDINAL = expression(r"(?<=\d)(?:st|nd|rd|th|ème|[ºª])(?![A-Za-z])")
_COUNTED = expression(r"第\s*(?=\d)(?!\d+\s*[步题題章页頁行问問节節例])")
_CONTINENTAL = expression(
    r"(?<![\d.,'])([1-9]\d{0,2}(?:\.\d{3})+),(\d+)(?![\d.,])|(?<![\d.,'])([1-9]\d{0,2}(?:[ ']\d{3})+),(\d+)(?![\d.,])"
    r"|(?<![\d.,'])([1-9]\d{0,2}(?:\.\d{3}){2,})(?![\d.,])|(?<![\d.,'])(0),(\d{1,2})(?![\d.,])"
)
_CONTINENTAL_MONEY = expression(r"(?<![\d.,])([1-9]\d{0,2})\.(\d{3})(?=\s?(?:\\text\{\s*)?[€₽]\s*\}?\Z)")
_DECIMAL_COMMA = expression(r"(?<![\d.,'])(\d+),(\d+)(?![\d.,])")
_FIRST_WORD = expression(rf"\s*(%|[{CURRENCY}]|\\text\{{\s*[{LETTER}%]+|[{LETTER}]+)")
_UNIT_WITHIN = expression(r"(?:an?|one|(?P<count>\d+)) (?P<unit>[a-z]+) and (?P<part>a half|a quarter)")
_BRACKET = expression(r"[(){},]")
_MARKED_TEXT = expression(r"\\text\{[^{}]*\}")
_APPROXIMATELY = expression(r"\s*(?:≈|≃|≅|~=|\\approx|\\simeq)\s*")
_AMOUNTS = expression(
    rf"(?P<number>\d[\d.,]*(?:/\d+)?)\s*(?P<unit>[{CURRENCY}°]|\\text\{{\s*[{LETTER}]+\s*\}}|[{LETTER}]+?(?=\d|[^{LETTER}]|$)\.?)"
    r"\s*(?:,\s*)?(?:(?:and|und|et|y|e|i|и|en|ve|dan|và|och|og|और)\s+|و\s*|と|和|又)?"
)
_HALF_BEHIND = expression(
    rf"(?P<number>\d+|[{LETTER}]+?)(?:\s*[个個]半\s*(?P<unit>[{LETTER}]+)|(?P<before>\s?[{LETTER}]+?)??(?:半|\s반[이을은]?|\s(?:y\smedi[ao]|e\smei[ao]|et\sdemie?|e\smezz[ao]|i\spół|с\sполовиной|rưỡi|buçuk|ونصف)(?:\s(?P<after>[{LETTER}]+))?))"
)
_HALF_WITHIN = expression(r"半|(?:^|\s)반(?:[이을은]|\s|$)")
QUALIFIED = expression(
    r"以上|以下|未満|未满|不到|多于|少于|超过|最多|至少|미만|이상|이하|초과|से अधिक|से कम"
    r"|أو أكثر|أو أقل|كحد أقصى|كحد أدنى|على الأكثر|أكثر من|أقل من|или (?:больше|меньше|более|менее)"
    r"|\b(?:or (?:more|less|so|fewer)|at (?:least|most)|ou (?:plus|moins|mais|menos)|o (?:más|menos)"
    r"|oder (?:mehr|weniger)|squared|cubed|factorial|(?:raised )?to the (?:\w+ )?power|mod(?:ulo)?|choose)\b"
    r"|より(?:大き|小さ|多|少な)|보다 (?:크|작|많|적)"
    r"|とは限ら|かもしれ|수도 있|हो सकता|ではあり|ではな|아니|아닙|नहीं|的(?:两倍|一半)|の(?:2倍|半分)"
    r"|'?[dt][ae]n\s(?:büyük|küçük|fazla|az)|의 (?:두 배|절반)|का (?:दोगुना|आधा)"
)
"""What makes a bound, a doubt or another number of the number that it stands by."""

_PERCENT = expression(r"百分之(.+)|yüzde\s+(.+)|ร้อยละ\s*(.+)|เปอร์เซ็นต์\s*(.+)", re.DOTALL)
_TENTHS = expression(r"([^割할成\s]+)\s?[割할成]")
_SUMMED = expression(
    rf"(?P<first>-?\d[\d.,]*\s?{_WORD}(?:\s{_WORD})?)\s+(?:(?:e|y|et|und|and|i|и|ve|va|và|dan|og|och)\s+|و\s*)?(?P<rest>.+)",
    re.DOTALL,
)


def read_number(text: str, *, language: str = ENGLISH) -> Number | None:
    """Return the number that the whole text is, in digits or in words, or None.

    Args:
        text: in plain writing.
        language: that of the text around it, as its ISO 639-1 code: in German, ``18,20`` is one number, ``1.234`` a
            thousand and ``zwölf`` 12.
    """
    if QUALIFIED.search(text):
        return None
    exact, *roundings = _APPROXIMATELY.split(text, maxsplit=2)
    if roundings:
        rounding = read_number(roundings[-1], language=language)
        found = read_number(exact, language=language) if exact.strip() else rounding
        if found is None and rounding and not re.search(rf"[{LETTER}]", exact):
            return rounding
        if found is None or rounding is None:
            return None
        if found is rounding:
            return found
        return replace(found, rounded=rounding.value, scale=rounding.scale, unit=found.unit or rounding.unit)
    while (
        len(text) > 2 and text[0] + text[-1] in ("()", "{}") and not _BRACKET.search(_MARKED_TEXT.sub("", text[1:-1]))
    ):
        text = text[1:-1].strip()
    percent = _PERCENT.fullmatch(text)
    if percent:
        number = read_number(next(filter(None, percent.groups())), language=language)
        return replace(number, scale=Fraction(1, 100)) if number and number.scale == 1 else None
    tenths = _TENTHS.fullmatch(text)
    if tenths:
        number = read_number(tenths[1], language=language)
        plain = number and number.scale == 1 and not number.unit
        return replace(number, value=10 * number.value, scale=Fraction(1, 100)) if number and plain else None
    text, negative = without_sign_word(text)
    number = _read(text, language)
    if number is None or not negative:
        return number
    return None if number.value < 0 else replace(number, value=-number.value)


def _read(text: str, language: str) -> Number | None:
    within = _UNIT_WITHIN.fullmatch(text)
    text = f"{within['count'] or 'one'} and {within['part']} {within['unit']}" if within else text
    text = _COUNTED.sub("", _ORDINAL.sub("", _with_points(text, has_decimal_comma(language))))
    half = _HALF_BEHIND.fullmatch(text)
    if half:
        whole = _read(f"{half['number']} {half['unit'] or half['before'] or half['after'] or ''}".strip(), language)
        return replace(whole, value=whole.value + Fraction(1, 2)) if whole and whole.scale == 1 else None
    if not any(digit in text for digit in "0123456789"):
        return _read_spelled(text, language)
    return (
        _read_sum(text, language)
        or _read_digits(text, language)
        or _read_spelled(text, language)
        or _read_compound(text)
    )


def _read_sum(text: str, language: str) -> Number | None:
    """Return the number that is written by its thousands: "2 млн 300 тысяч", "2 mil trescientos"."""
    summed = _SUMMED.fullmatch(text)
    first = _read_digits(summed["first"], language) if summed else None
    if summed is None or first is None or first.scale < 1000 or first.unit:
        return None
    rest = _read(summed["rest"], language)
    if rest is None or not 0 < rest.value * rest.scale < first.scale or rest.scale < 1 or first.value < 0:
        return None
    return Number(first.value + rest.value * rest.scale / first.scale, first.scale, rest.unit)


def _with_points(text: str, decimal_comma: bool) -> str:
    """Return a text whose numbers have no dots between thousands, and points for decimal commas that are sure."""
    if "," not in text and "." not in text:
        return text
    if decimal_comma:
        text = re.sub(r"(?<![\d.,])([1-9]\d{0,2})\.(\d{3})(?![\d.,])", r"\1\2", text)
    else:
        text = _CONTINENTAL_MONEY.sub(r"\1\2", text)
    text = _CONTINENTAL.sub(_continental, text)
    comma = _DECIMAL_COMMA.search(text)
    if comma and not (len(comma[2]) == 3 and comma[1] != "0" and not decimal_comma):
        before = text[: comma.start()].strip(" +-")
        unit = _FIRST_WORD.match(text, comma.end())
        word = unit[1].removeprefix("\\text{").strip().lower() if unit else ""
        known = word == "%" or word in UNITS or word in SCALES or (word and word in CURRENCY)
        if known or decimal_comma or (before and before[-1] in CURRENCY and len(comma[2]) == 2):
            text = f"{text[: comma.start()]}{comma[1]}.{comma[2]}{text[comma.end() :]}"
    return text


def _continental(match: re.Match[str]) -> str:
    groups = [group for group in match.groups() if group is not None]
    integer = re.sub(r"[. ']", "", groups[0])
    return f"{integer}.{groups[1]}" if len(groups) > 1 else integer


def _read_digits(text: str, language: str = ENGLISH) -> Number | None:
    match = _NUMBER.fullmatch(text)
    if match is None or (match["sign1"] and match["sign2"]):
        return None
    value = _read_value(match)
    apart = text[: match.start("tail")].endswith(" ")
    tail = _read_tail(match["tail"], match["currency"], language, apart=apart)
    if value is None or tail is None:
        return None
    scale, unit = tail
    if "-" in (match["sign1"], match["sign2"]):
        value = -value
    places = len(match["decimals"] or "") if not match["exponent"] and not match["times"] else 0
    return Number(value, scale, unit, match["name"] or match["base"] or "", 0 if match["repeated"] else places)


def _read_spelled(text: str, language: str) -> Number | None:
    """Return the number in words that a text is, with its unit."""
    sign = -1 if text.startswith("-") else 1
    words = text[1:] if sign < 0 else text
    found = read_words(words, language)
    if found is None:
        return None
    value, end = found
    rest = words[end:].lstrip()
    rest = rest.removeprefix("of a ").removeprefix("of an ")
    tail = _read_tail(rest, None, language, apart=True)
    return Number(sign * value, *tail) if tail else None


def _read_compound(text: str) -> Number | None:
    """Return the sum of amounts whose units grow smaller, such as 3 hours and 30 minutes, in the unit of the first."""
    text = re.sub(rf"([{CURRENCY}])\s*(\d[\d.,]*)", r"\2\1", text)
    total: Number | None = None
    position, last = 0, None
    while position < len(text):
        part = _AMOUNTS.match(text, position)
        if part is None or not any(digit in part["number"] for digit in "0123456789"):
            return None
        words = part["unit"].removeprefix("\\text{").rstrip("}").strip().lower()
        unit = unit_of([words])
        number = _read_digits(part["number"].rstrip(".,"))
        if unit is None or number is None:
            return None
        if total is None:
            total = replace(number, unit=unit, places=0)
        elif last is None or unit.dimension != last.dimension or unit.factor >= last.factor:
            return None
        else:
            assert total.unit is not None
            total = replace(total, value=total.value + number.value * unit.factor / total.unit.factor)
        position, last = part.end(), unit
    return total


def _read_value(match: re.Match[str]) -> Fraction | None:
    """Return the unsigned value of a match of ``_NUMBER``; None for a zero denominator and for no digits at all."""
    top, bottom = match["top"] or match["top2"], match["bottom"] or match["bottom2"]
    if top:
        whole = int(match["whole"] or match["whole2"] or 0)
        denominator = int(_digits(bottom))
        return whole + Fraction(int(_digits(top)), denominator) if denominator else None
    if match["based"]:
        return Fraction(match["based"])
    if match["power"]:
        return Fraction(10) ** _exponent(match["power"])
    integer, decimals, repeated = match["integer"], match["decimals"] or "", match["repeated"]
    if not integer and not decimals and not repeated:
        return None
    value = Fraction(f"{_digits(integer or '0')}.{decimals or '0'}")
    if repeated:
        value += Fraction(int(repeated), (10 ** len(repeated) - 1) * 10 ** len(decimals))
    power = int(match["exponent"] or 0) or (_exponent(match["times"]) if match["times"] else 0)
    return value * Fraction(10) ** power


def _digits(text: str) -> str:
    return re.sub("[, ']", "", text)


def _exponent(power_of_ten: str) -> int:
    return int(power_of_ten.partition("^")[2].strip(" {}"))


def _read_tail(text: str, currency: str | None, language: str, *, apart: bool) -> tuple[Fraction, Unit | None] | None:
    """Return the scale and unit around a number, or None where what follows makes it more than a number."""
    front = unit_of([currency.lower().rstrip(".")]) or UNITS.get(currency[-1]) if currency else None
    if not text:
        return Fraction(1), front
    match = _TAIL.fullmatch(text)
    if match is None:
        return None
    if match["scale"] and (front or not apart or len(match["scale"]) > 1):
        behind = match["sign2"]
        return Fraction(_LETTER_SCALES[match["scale"]]), front or (unit_of([behind.lower()]) if behind else None)
    written = match["text"] if match["text"] is not None else match["sign"] or match["words"]
    if written is None:
        return None
    words = written.lower().split()
    if not NUMBER_WORDS.isdisjoint(words) and not (len(words) == 1 and words[0] in SCALES) and words[0] not in SCALES:
        return None
    scale, words = scale_of(words, language)
    if not NUMBER_WORDS.isdisjoint(words):
        return None
    exponent = match["text_power"] or match["power"] or ""
    unit = unit_of(words, 2 if "2" in exponent else 3 if "3" in exponent else 1)
    if unit is None and match["sign3"]:
        unit = UNITS[match["sign3"]]
    if _HALF_WITHIN.search(written):
        return None
    # "5 x", "6abc", "2 pi" and "3 or more" are expressions: an unknown word is one only if long, apart and no operator.
    is_word = (
        bool(words) and _NO_UNITS.isdisjoint(words) and (not words[0][0].isascii() or (apart and len(words[0]) >= 3))
    )
    if match["words"] and scale == 1 and unit is None and not is_word:
        return None
    return scale, front or unit
