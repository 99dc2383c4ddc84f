r"""One grammar of numbers: sign, digits or words, scale, unit; ``read_number`` for a text, ``amounts`` within a text.

- ``1,234``, ``1 234``, ``1'234``, ``12,34,567`` and ``1.234.567`` have thousands apart; ``1.234,50`` and ``0,5`` have
  a decimal comma, as has ``2,50 €``, where a unit says that it is one number. A bare ``18,20`` is a list. ``1.000 €``
  is a thousand: the sign stands behind where dots stand between thousands; ``€1.000`` is one.
- ``minus 5`` and ``negative 5`` are −5, ``42nd`` is 42, ``one half`` is 1/2, ``$2.5M`` is 2.5
  million.
- ``3 hours and 30 minutes`` is one amount, 3.5 hours. ``127/3 ≈ 42.33`` is 127/3 with the rounding beside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction

from tokur_cli.answers.units import CURRENCY, CURRENCY_BEFORE, SCALES, UNITS, Unit, scale_of, unit_of
from tokur_cli.answers.words import NUMBER_WORDS, SIGN_WORDS, read_words, without_sign_word


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


@dataclass(frozen=True, slots=True)
class Amount:
    """A number where it stands in a text.

    Attributes:
        start: where it begins.
        end: where it ends, its scale and unit included where they are known.
        text: what stands there.
        number: what it says; None for a time of day and for a formula.
    """

    start: int
    end: int
    text: str
    number: Number | None

    @property
    def value(self) -> Fraction | str:
        """What tells it from another amount of the same text: its value without the unit, or its text."""
        return self.number.value * self.number.scale if self.number else "".join(self.text.split())

    def shifted(self, offset: int) -> Amount:
        """Return it as it stands in a text that begins so much earlier."""
        return replace(self, start=self.start + offset, end=self.end + offset)


LETTER = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1fff\u2c00-\u2fff\u3005-\u3007\u3040-\ud7ff\uf900-\ufdff\ufe70-\uffef"
)
"""The letters and marks of all scripts, for a class of characters in a regular expression."""

_INTEGER = r"[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?:[ ]\d{3})+|[1-9]\d{0,2}(?:'\d{3})+|[1-9]\d?(?:,\d{2})+,\d{3}|\d+"
_POWER_OF_TEN = r"10\s*\^\s*(?:\{\s*[+-]?\d{1,3}\s*\}|[+-]?\d{1,3})"
_TIMES = r"\s*(?:\\times|\\cdot|\*|×|·|x)\s*"
_NUMBER = re.compile(
    rf"""(?:(?P<name>[A-Za-z](?:_\{{?\w+\}}?)?)\s*=\s*)?
    (?P<sign1>[-+])?\s*(?P<currency>{CURRENCY_BEFORE})?\s*(?P<sign2>[-+])?\s*
    (?:
      (?:(?P<whole>\d+)\s*)?\\frac\s*\{{\s*(?P<top>-?\d+)\s*\}}\s*\{{\s*(?P<bottom>-?\d+)\s*\}}
    | (?:(?P<whole2>\d+)(?:[ ]+|[ ]and[ ]))?(?P<top2>{_INTEGER})\s*/\s*(?P<bottom2>{_INTEGER})
    | (?P<power>{_POWER_OF_TEN})
    | (?P<based>\d+)\s*_\s*\{{?\s*(?P<base>\d{{1,2}})\s*\}}?
    | (?P<integer>{_INTEGER})?(?:\.(?P<decimals>\d*)(?:\\overline\s*\{{(?P<repeated>\d+)\}})?)?
      (?:[eE](?P<exponent>[+-]?\d{{1,3}})|{_TIMES}(?P<times>{_POWER_OF_TEN}))?
    )
    \s*(?P<tail>.*)""",
    re.VERBOSE | re.DOTALL,
)
_UNIT_NAME = rf"[{LETTER}][{LETTER}'./&-]*"
_TAIL = re.compile(
    rf"""\\text\{{(?P<text>[^{{}}]*)\}}(?P<text_power>\s*\^\s*\{{?\s*[23]\s*\}}?)?
    | (?P<scale>[KMB]|bn|mn|mio|mrd)\.?(?![a-z])\s*(?P<sign2>[{CURRENCY}]|[A-Z]{{3}})?
    | (?P<sign>[%¢{CURRENCY}])
    | (?P<words>{_UNIT_NAME}(?:\s+{_UNIT_NAME}){{0,5}})(?P<power>\s*\^\s*\{{?\s*[23]\s*\}}?)?
      \s*(?P<sign3>[{CURRENCY}])?""",
    re.VERBOSE,
)
_NO_UNITS = frozenset(
    (
        "sin cos tan sec csc cot log ln exp mod and or over plus minus times divided pi sqrt infinity not to is "
        "if arcsin arccos arctan sinh cosh tanh det dim max gcd lcm than but oder ou или 或 或者 または 또는 أو या หรือ"
    ).split()
)
_LETTER_SCALES = {"K": 10**3, "M": 10**6, "B": 10**9, "bn": 10**9, "mn": 10**6, "mio": 10**6, "mrd": 10**9}
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th|ème|[ºª])(?![A-Za-z])")
_CONTINENTAL = re.compile(
    r"(?<![\d.,'])([1-9]\d{0,2}(?:\.\d{3})+),(\d+)(?![\d.,])|(?<![\d.,'])([1-9]\d{0,2}(?:[ ']\d{3})+),(\d+)(?![\d.,])"
    r"|(?<![\d.,'])([1-9]\d{0,2}(?:\.\d{3}){2,})(?![\d.,])|(?<![\d.,'])(0),(\d{1,2})(?![\d.,])"
)
_CONTINENTAL_MONEY = re.compile(r"(?<![\d.,])([1-9]\d{0,2})\.(\d{3})(?=\s?(?:\\text\{\s*)?[€₽]\s*\}?\Z)")
_DECIMAL_COMMA = re.compile(r"(?<![\d.,'])(\d+),(\d+)(?![\d.,])")
_FIRST_WORD = re.compile(rf"\s*(%|[{CURRENCY}]|\\text\{{\s*[{LETTER}%]+|[{LETTER}]+)")
_APPROXIMATELY = re.compile(r"\s*(?:≈|≃|≅|~=|\\approx|\\simeq)\s*")
_COMPOUND = re.compile(rf"(\d+(?:\.\d+)?)\s?([{LETTER}]+)[.,]?(?:\s(?:and\s)?|\Z)")
QUALIFIED = re.compile(
    r"以上|以下|未満|未满|不到|多于|少于|超过|最多|至少|미만|이상|이하|초과|より(?:大き|小さ|多|少な)"
    r"|\b(?:or (?:more|less|so|fewer)|at (?:least|most)|squared|cubed|factorial|(?:raised )?to the (?:\w+ )?power"
    r"|mod(?:ulo)?|choose)\b"
)
"""What makes a bound, a doubt or another number of the number that it stands by."""


def read_number(text: str) -> Number | None:
    """Return the number that the whole text is, in digits or in words, or None.

    Args:
        text: in plain writing, with decimal points where the language around it has a decimal comma.
    """
    if QUALIFIED.search(text):
        return None
    exact, *roundings = _APPROXIMATELY.split(text, maxsplit=2)
    if roundings:
        rounding = read_number(roundings[-1])
        found = read_number(exact) if exact.strip() else None
        if found is None or rounding is None:
            return None if exact.strip() else rounding
        return replace(found, rounded=rounding.value, scale=rounding.scale, unit=found.unit or rounding.unit)
    if text[:1] + text[-1:] in ("()", "{}"):
        return read_number(text[1:-1].strip())
    text, negative = without_sign_word(text)
    number = _read(text)
    if number is None or not negative:
        return number
    return None if number.value < 0 else replace(number, value=-number.value)


def _read(text: str) -> Number | None:
    text = _ORDINAL.sub("", _with_points(text))
    return _read_digits(text) or _read_spelled(text) or _read_compound(text)


def _with_points(text: str) -> str:
    """Return a text whose numbers have no dots between thousands, and points for decimal commas that are sure."""
    if "," not in text and "." not in text:
        return text
    text = _CONTINENTAL_MONEY.sub(r"\1\2", text)
    text = _CONTINENTAL.sub(_continental, text)
    comma = _DECIMAL_COMMA.search(text)
    if comma and not (len(comma[2]) == 3 and comma[1] != "0"):
        before = text[: comma.start()].strip(" +-")
        unit = _FIRST_WORD.match(text, comma.end())
        word = unit[1].removeprefix("\\text{").strip().lower() if unit else ""
        known = word == "%" or word in UNITS or word in SCALES or (word and word in CURRENCY)
        if known or (before and before[-1] in CURRENCY and len(comma[2]) == 2):
            text = f"{text[: comma.start()]}{comma[1]}.{comma[2]}{text[comma.end() :]}"
    return text


def _continental(match: re.Match[str]) -> str:
    groups = [group for group in match.groups() if group is not None]
    integer = re.sub(r"[. ']", "", groups[0])
    return f"{integer}.{groups[1]}" if len(groups) > 1 else integer


def _read_digits(text: str) -> Number | None:
    match = _NUMBER.fullmatch(text)
    if match is None or (match["sign1"] and match["sign2"]):
        return None
    value = _read_value(match)
    apart = text[: match.start("tail")].endswith(" ")
    tail = _read_tail(match["tail"], match["currency"], apart=apart)
    if value is None or tail is None:
        return None
    if "-" in (match["sign1"], match["sign2"]):
        value = -value
    places = len(match["decimals"] or "") if not match["exponent"] and not match["times"] else 0
    return Number(value, *tail, match["name"] or match["base"] or "", 0 if match["repeated"] else places)


def _read_spelled(text: str) -> Number | None:
    """Return the number in words that a text is, with its unit."""
    found = read_words(text)
    if found is None:
        return None
    value, end = found
    rest = text[end:].lstrip().removeprefix("of a ").removeprefix("of an ")
    tail = _read_tail(rest, None, apart=True)
    return Number(value, *tail) if tail else None


def _read_compound(text: str) -> Number | None:
    """Return the sum of amounts whose units grow smaller, such as 3 hours and 30 minutes, in the unit of the first."""
    summands = [(match[1], unit_of([match[2].lower()])) for match in _COMPOUND.finditer(text)]
    first = summands[0][1] if summands and not _COMPOUND.sub("", text) else None
    if first is None:
        return None
    value, last = Fraction(0), first.factor + 1
    for digits, unit in summands:
        if unit is None or unit.dimension != first.dimension or unit.factor >= last:
            return None
        value, last = value + Fraction(digits) * unit.factor / first.factor, unit.factor
    return Number(value, unit=first)


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


def _read_tail(text: str, currency: str | None, *, apart: bool) -> tuple[Fraction, Unit | None] | None:
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
    if not NUMBER_WORDS.isdisjoint(words) and words[0] not in SCALES:
        return None
    scale, words = scale_of(words)
    if not NUMBER_WORDS.isdisjoint(words):
        return None
    exponent = match["text_power"] or match["power"] or ""
    unit = unit_of(words, 2 if "2" in exponent else 3 if "3" in exponent else 1)
    if unit is None and match["sign3"]:
        unit = UNITS.get(match["sign3"])
    # "5 x", "6abc", "2 pi" and "3 or more" are expressions: an unknown word is one only if long, apart and no operator.
    is_word = (
        bool(words) and _NO_UNITS.isdisjoint(words) and (not words[0][0].isascii() or (apart and len(words[0]) >= 3))
    )
    if match["words"] and scale == 1 and unit is None and not is_word:
        return None
    return scale, front or unit


DIGITS = (
    r"(?:\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:[ ']\d{3})+,\d+|[1-9]\d{0,2}(?:\.\d{3}){2,}(?![\d.,]*\d)"
    rf"|(?:{_INTEGER})(?!\d)(?:[.,]\d+(?!,?\d))?|\d+(?:\.\d+)?|\.\d+)"
)
"""A regular expression of digits with what stands between them."""

_AMOUNT = re.compile(
    rf"(?:(?i:{SIGN_WORDS})\s*)?(?:(?<![A-Za-z0-9_.)\]}}%])[-+](?=[\\{CURRENCY}\d.]))?"
    rf"(?:{CURRENCY_BEFORE}\s?-?|(?<![A-Za-z_\d.^])(?<!\d,)(?<!\^\{{))"
    rf"(?:\\frac\{{-?\d+\}}\{{\d+\}}|{DIGITS}(?:[eE][+-]?\d+(?![A-Za-z\d])"
    r"|\s?(?:\\times|\\cdot|[*×·x])\s?10\s?\^\s?(?:\{[+-]?\d+\}|[+-]?\d+)"
    r"|:[0-5]\d(?::[0-5]\d)?(?!\d)|\s?\\frac\{\d+\}\{\d+\}"
    r"|\s\d+/\d+(?!\d)|\s?/\s?\d+(?:\.\d+)?(?!\s?[/\d]))?)(?:\s?(?:\\?%|percent\b))?"
)
_POWER = re.compile(r"\^(?:[23](?!\d)|\{[23]\})")
_SYMBOLS = re.compile(
    r"(?:\s?(?:π|\\pi(?![A-Za-z])|pi\b|√|\\?sqrt)(?:\{[^{}]*\}|\([^()]*\)|\s?\d+)?|\^(?:\{[^{}]*\}|-?[\w]+)"
    r"|(?!x\s(?:more|less|as|the|faster|slower|larger|bigger))[A-Za-z](?![A-Za-z']))+"
)
"""What makes a formula of the number in front of it: the π of 25π, the x of 3x."""

_HALF_OF_DAY = re.compile(r"\s?(?:[ap]\.?\s?m\b\.?|o'clock\b)", re.IGNORECASE)
_UNIT_WORD = re.compile(
    rf"[\s-]?(?:\\?%|[{CURRENCY}°]|\\text\{{[^{{}}]*\}}|(?!in\s[a-z])[{LETTER}]+(?![&'])|\d[\d.,]*)"
)
_ORDINAL_BEHIND = re.compile(r"[ -](?:first|second|third|[a-z]+th|past|to the power)\b")
_RANGE = re.compile(
    r"\s?[-–—~]\s?(?=\d)|\s(?:to|bis|a|à|до|至|or|oder|o|ou|или|of)\s?(?=[-+]?\s?[$€£¥]?\d)"
    r"|\s?(?:から|至|到|或|或者|또는|か|이나)\s?(?=\d)|\s?(?:±|\\pm)"
)
_SPELLED = re.compile(rf"(?i)(?:{SIGN_WORDS}\s*)?(?:(?<![A-Za-z-])(?:{'|'.join(NUMBER_WORDS - {'point'})}|an?)\b)")


def amounts(text: str, *, spelled: bool = False) -> list[Amount]:
    """Return the amounts in a text, in their order and without overlaps.

    Args:
        text: as of ``read_number``.
        spelled: whether numbers in words count, too.
    """
    found: list[Amount] = []
    position = 0
    while position < len(text) and len(found) < 48:
        amount = _next_amount(text, position, spelled)
        if amount is None:
            break
        found.append(amount)
        position = max(amount.end, position + 1)
    return found


def _next_amount(text: str, start: int, spelled: bool) -> Amount | None:
    digits = _AMOUNT.search(text, start)
    for words in _SPELLED.finditer(text, start) if spelled else ():
        if digits and words.start() > digits.start():
            break
        amount = _in_words(text, words.start())
        if amount:
            return amount
    while digits:
        amount = _extended(text, digits)
        if amount:
            return amount
        digits = _AMOUNT.search(text, digits.end())
    return None


def goes_on(text: str, end: int) -> bool:
    """Return whether what ends at ``end`` is but the first of several: the 10 of "10-12" and of "10 or 12"."""
    return bool(_RANGE.match(text, end))


def _in_words(text: str, start: int) -> Amount | None:
    """Return the amount in words that stands somewhere, None where it is no number."""
    behind, _ = without_sign_word(text[start : start + 120])
    found = read_words(behind)
    end = start + len(text[start : start + 120]) - len(behind) + found[1] if found else 0
    is_article = found is not None and text[start:end].lower() in ("one", "a", "an")
    if found is None or is_article or text[:start].endswith("past ") or _ORDINAL_BEHIND.match(text, end):
        return None  # half past ten
    return _longest(text, start, end)


def _ends(text: str, start: int, end: int) -> list[int]:
    """Return where an amount from ``start`` to ``end`` may end if the words behind it belong to it."""
    ends = [end]
    for _ in range(8):
        word = _UNIT_WORD.match(text, ends[-1])
        if word is None:
            break
        ends.append(word.end())
    return ends


def _extended(text: str, core: re.Match[str]) -> Amount | None:
    """Return the amount whose digits are a match, with the scale and unit behind it that we know."""
    start, end = core.span()
    half_of_day = _HALF_OF_DAY.match(text, end)
    if ":" in core[0] or (half_of_day and core[0].strip().isdigit() and int(core[0]) <= 12):
        end = half_of_day.end() if half_of_day else end
        return Amount(start, end, text[start:end].strip(), None)
    best = _longest(text, start, end)
    if best is None or (best.number and best.number.unit):
        power = _POWER.match(text, best.end) if best else None
        return Amount(start, power.end(), best.text + power[0], best.number) if best and power else best
    symbols = _SYMBOLS.match(text, best.end)
    return Amount(start, symbols.end(), text[start : symbols.end()].strip(), None) if symbols else best


def _longest(text: str, start: int, end: int) -> Amount | None:
    """Return the number from ``start`` to ``end`` with the words behind it that are a scale or a unit of it."""
    number = read_number(text[start:end].strip())
    best = Amount(start, end, text[start:end].strip(), number) if number else None
    for longer in _ends(text, start, end)[1:] if _is_followed_up(text, end) else ():
        words = text[start:longer].strip()
        read = read_number(words)
        if read and (
            number is None
            or (read.scale, read.value) != (number.scale, number.value)
            or (read.unit and not number.unit)
        ):
            number, best = read, Amount(start, longer, words, read)
    return best


def _is_followed_up(text: str, end: int) -> bool:
    """Return whether the word behind a number may be a scale, a unit or the beginning of one."""
    following = _UNIT_WORD.match(text, end)
    if following is None:
        return False
    word = following[0].strip(" -")
    known = word.lower() in UNITS or word.lower() in SCALES or word in (*_LETTER_SCALES, "square", "cubic", "sq")
    return known or not (word[:1].isascii() and word[:1].isalpha())
