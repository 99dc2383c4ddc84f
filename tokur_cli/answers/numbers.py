r"""One grammar of numbers: sign, digits or words, scale, unit; ``read_number`` for a text, ``amounts`` within a text.

- ``1,234``, ``1 234``, ``1'234``, ``12,34,567`` and ``1.234.567`` have thousands apart; ``1.234,50`` and ``0,5`` have
  a decimal comma, as has ``2,50 €``, where a unit says that it is one number. A bare ``18,20`` is a list. ``1.000 €``
  is a thousand: the sign stands behind where dots stand between thousands; ``€1.000`` is one.
- ``minus 5`` and ``negative 5`` are −5, ``42nd`` and ``forty-two`` are 42, ``$2.5M`` is 2.5 million.
- ``1 1/2`` and ``1\frac{1}{2}`` are 3/2; ``3.2e5``, ``3.2 \times 10^{5}`` and ``0.1\overline{6}`` are exact, too.
- ``3 hours and 30 minutes`` are two amounts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction

from tokur_cli.answers.units import CURRENCY, CURRENCY_BEFORE, POWERS, SCALES, Unit, scale_of, unit_of


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written."""

    value: Fraction  # the number as written, exactly, without scale and unit
    scale: Fraction = Fraction(1)  # 1/100 for ``%``, 1,000,000 for ``million``, otherwise 1
    unit: Unit | None = None  # what follows it, when it is a unit that we know
    name: str = ""  # the variable of ``x = 5`` or the base of ``52_8``, otherwise empty
    places: int = 0  # decimals written after the point; 0 for integers and fractions


@dataclass(frozen=True, slots=True)
class Amount:
    """A number where it stands in a text, with its scale and unit; ``number`` is None for times of day and formulas."""

    start: int
    end: int
    text: str
    number: Number | None

    @property
    def value(self) -> Fraction | str:
        """What tells it from another amount of the same text: its value without the unit, or its text."""
        return self.number.value * self.number.scale if self.number else "".join(self.text.split())


LETTER = (  # letters and marks of all scripts, for a class of characters in a regular expression
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1fff\u2c00-\u2fff\u3005-\u3007\u3040-\ud7ff\uf900-\ufdff\ufe70-\uffef"
)
_CONTINENTAL = r"[1-9]\d{0,2}(?:\.\d{3})+,\d+|[1-9]\d{0,2}(?:[ ']\d{3})+,\d+|[1-9]\d{0,2}(?:\.\d{3}){2,}(?![\d.,]*\d)"
_GROUPED = r"[1-9]\d{0,2}(?:(?:,\d{3})+|(?:[ ]\d{3})+|(?:'\d{3})+)|[1-9]\d?(?:,\d{2})+,\d{3}"
DIGITS = rf"(?:{_CONTINENTAL}|(?:{_GROUPED}|\d+)(?!\d)(?:[.,]\d+(?!,?\d))?|\d+(?:\.\d+)?|\.\d+)"
"""A regular expression of digits with what stands between them."""

_SIGN_WORDS = (
    r"(?i:\b(?:minus|negative|moins(?!\s+de)|menos(?!\s+de)|meno)(?![a-z])"
    r"|минус|мінус|负|負|マイナス|마이너스|ลบ|âm|ऋण|سالب|ناقص|מינוס|eksi)\s*"
)
_POWER_OF_TEN = r"10\s?\^\s?(?P<brace_%s>\{\s?)?(?P<%s>[+-]?\d{1,3})(?(brace_%s)\s?\})"
_NUMBER = re.compile(
    rf"""(?P<minus>{_SIGN_WORDS})?(?P<sign>(?<![A-Za-z0-9_.)\]}}%])[-+](?=[\\{CURRENCY}\d.RUCHN]))?
    (?:(?P<currency>{CURRENCY_BEFORE})\s?(?P<inner>-)?|(?<![A-Za-z_\d.^])(?<!\d,)(?<!\^\{{))
    (?: (?P<clock>\d{{1,2}}(?::[0-5]\d){{1,2}}(?!\d)(?:\s?[AaPp]\.?\s?[Mm]\b\.?)?
          |\d{{1,2}}\s?(?:[AaPp]\.?\s?[Mm]\b\.?|o'clock\b))
      | (?:(?P<whole>\d+)\s?)?\\frac\s?\{{\s?(?P<top>-?\d+)\s?\}}\s?\{{\s?(?P<bottom>-?\d+)\s?\}}
      | {_POWER_OF_TEN.replace("%s", "power")}
      | (?P<digits>{DIGITS})
        (?: \.?\\(?:overline|bar)\s?\{{(?P<repeated>\d+)\}}
          | [eE](?P<exponent>[+-]?\d{{1,3}})(?![A-Za-z\d])
          | \s?(?:\\times|\\cdot|[*×·x])\s?{_POWER_OF_TEN.replace("%s", "times")}
          | (?:[ ](?:and[ ])?(?P<above>\d+))?\s?/\s?(?P<below>\d{{1,3}}(?:,\d{{3}})+|\d+)(?![.]\d|\s?[/\d])
          | \s?_\s?(?P<brace>\{{\s?)?(?P<base>\d{{1,2}})(?(brace)\s?\}})
          | (?:st|nd|rd|th|ème|[ºª])(?![A-Za-z])
        )?
    )""",
    re.VERBOSE,
)
_NAME = re.compile(r"([A-Za-z](?:_\{?\w+\}?)?)\s*=\s*")
_WORD = re.compile(
    rf"(?:\s?\s?|-(?=\w{{3}}))(?:\\?(?P<sign>[%¢°{CURRENCY}])"
    rf"|(?!in\s[a-z])(?P<name>[{LETTER}]+)(?:\.(?=\s?[a-z{CURRENCY}]))?)"
)
_POWER = re.compile(r"\s?\^\s?\{?\s?([23])(?!\d)\s?\}?")
_RATE = re.compile(r"\s?/\s?[A-Za-z]|\sper\b")
_WORDS = re.compile(rf"(?:\s*[{LETTER}][{LETTER}'./&-]*(?:\s?\^\s?\{{?\s?\d\s?\}}?)?(?![\d{LETTER}])){{1,6}}\s*")
MARKED_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_NO_WORDS = (
    "sin cos tan sec csc cot log ln exp mod modulo and or over plus minus times divided pi sqrt infinity not to is "
    "if arcsin arccos arctan sinh cosh tanh det dim max gcd lcm than squared cubed factorial raised choose "
    "oder ou или 或 或者 または 또는 أو या หรือ half third thirds quarter quarters fourths fifth fifths"
).split()
_LETTER_SCALES = {"K": "thousand", "M": "million", "B": "billion"}
SYMBOLS = re.compile(  # makes a formula of the number in front of it: the π of 25π, the x of 3x
    r"(?:\s?(?:π|\\pi(?![A-Za-z])|pi\b|√|\\?sqrt)(?:\{[^{}]*\}|\([^()]*\)|\s?\d+)?|\^(?:\{[^{}]*\}|-?[\w]+)"
    r"|(?!x\s(?:more|less|as|the|faster|slower|larger|bigger))[A-Za-z](?![A-Za-z']))+"
)
_SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
_SMALL += ["seventeen", "eighteen", "nineteen"]
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_VALUES = {name: n for n, name in enumerate(_SMALL)} | {name: 10 * n for n, name in enumerate(_TENS, 2)}
_LARGE = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_FRACTIONS = "half|thirds?|quarters?|fourths|fifths?"

_UNDER_100 = rf"(?:(?:{'|'.join(_TENS)})(?:[ -](?:{'|'.join(_SMALL[1:10])})\b)?|(?:{'|'.join(_SMALL[::-1])})\b)"
_SCALES = rf"[ -](?:{'|'.join(_LARGE)})\b"
_WHOLE = rf"(?:(?:{_UNDER_100}|an?)(?:{_SCALES})+(?:,?(?: and)? {_UNDER_100}(?:{_SCALES})*)*|{_UNDER_100})"
_SPELLED = re.compile(
    rf"(?i)(?<![A-Za-z-])(?<!past )(?<!quarter to )(?=({_WHOLE}))\1(?! and (?:a|one) (?:{_FRACTIONS})\b)(?![A-Za-z]"
    rf"|[ -](?:{_FRACTIONS}|first|second|(?:four|fif|six|seven|eigh|nin|ten)th|past)\b)"
)


def read_number(text: str) -> Number | None:
    """Return the number that a text, in plain writing with decimal points, is in digits or words, or None."""
    if text[:1] + text[-1:] in ("()", "{}"):
        return read_number(text[1:-1].strip())
    shown = with_digits(" ".join(MARKED_TEXT.sub(r" \1 ", text).split()), ones=True)
    name = _NAME.match(shown)
    shown = re.sub(r"\A([-+])\s+", r"\1", shown[name.end() :] if name else shown)
    digits = _NUMBER.match(shown)
    amount = _in_digits(shown, digits) if digits else None
    if amount is None or amount.number is None:
        return None
    if (behind := shown[amount.end :]) and not _is_mere_words(behind):
        return None
    return replace(amount.number, name=name[1]) if name else amount.number


def _is_mere_words(text: str) -> bool:
    """Return whether words behind a number only name what is counted: no operator, no bound, no further number.

    "5 x", "6abc", "2 pi" and "3 or more" are expressions: a word is long and behind a blank.
    """
    words = text.lower().replace("^", " ").split()
    if not _WORDS.fullmatch(text) or not {*_NO_WORDS, *_VALUES, *_LARGE}.isdisjoint(words):
        return False
    return not words[0][0].isascii() or (text[0] == " " and len(words[0]) >= 3)


def with_digits(text: str, *, ones: bool = False) -> str:
    """Return a text without digits with those of its English number words, ``25 hours`` for "twenty-five hours".

    A text with digits is returned as it is. "one" is a number with ``ones`` only: it may be that of "one of them".
    """
    if re.search(r"\d", text):
        return text
    return _SPELLED.sub(lambda words: words[0] if words[0].lower() == "one" and not ones else _value_of(words[0]), text)


def _value_of(words: str) -> str:
    terms, group = [0], 0
    for word in re.findall("[a-z]+", words.lower()):
        if word == "hundred":
            group *= _LARGE[word]
        elif word in _LARGE:
            terms.append((group or terms.pop()) * _LARGE[word])  # a thousand million
            group = 0
        else:
            group += 1 if word in ("a", "an") else _VALUES.get(word, 0)
    return str(sum(terms) + group)


def amounts(text: str) -> list[Amount]:
    """Return the amounts in a text as of ``read_number``, in their order and without overlaps."""
    found: list[Amount] = []
    match = _NUMBER.search(text)
    while match and len(found) < 48:
        amount = _in_digits(text, match)
        if amount and amount.text[-1] in "0123456789}" and (symbols := SYMBOLS.match(text, amount.end)):
            amount = Amount(amount.start, symbols.end(), text[amount.start : symbols.end()].strip(), None)
        if amount:
            found.append(amount)
        match = _NUMBER.search(text, amount.end if amount else match.end())
    return found


def _in_digits(text: str, match: re.Match[str]) -> Amount | None:
    """Return the amount that begins with a match of ``_NUMBER``, None where it is no number: "18,20", "1/0"."""
    if match["clock"]:
        return Amount(match.start(), match.end(), match[0], None)
    scale, unit, end = _behind(text, match.end(), is_money=bool(match["currency"]))
    if match["currency"]:
        unit = unit_of(match["currency"]) or unit_of(match["currency"][-1])
    digits = _with_point(match["digits"] or "", is_sure=bool(unit) or scale != 1)
    if text[:end].endswith(("€", "₽")) and re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", digits):
        digits = digits.replace(".", "")
    value = _value(match, digits)
    signs = [bool(match["minus"]), match["sign"] == "-", bool(match["inner"])]
    if value is None or sum(signs) > 1:
        return None
    is_decimal = not (match["repeated"] or match["exponent"] or match["times"])
    places = len(digits.partition(".")[2]) if is_decimal else 0
    number = Number(-value if any(signs) else value, scale, unit, match["base"] or "", places)
    return Amount(match.start(), end, text[match.start() : end].strip(), number)


def _value(match: re.Match[str], digits: str) -> Fraction | None:
    """Return the unsigned value of a match of ``_NUMBER``; None for a zero denominator and for a list."""
    bottom = int((match["bottom"] or match["below"] or "1").replace(",", ""))
    if not bottom or not (digits or match["top"] or match["power"]):
        return None
    if top := match["top"] or match["above"]:
        return Fraction(match["whole"] or digits or 0) + Fraction(int(top), bottom)
    value = Fraction(digits or 1) / bottom
    if match["repeated"]:
        places = len(digits.partition(".")[2])
        value += Fraction(int(match["repeated"]), (10 ** len(match["repeated"]) - 1) * 10**places)
    return value * Fraction(10) ** int(match["exponent"] or match["times"] or match["power"] or 0)


def _with_point(digits: str, *, is_sure: bool) -> str:
    """Return digits without separators and with a decimal point; nothing for a list, such as a bare ``18,20``.

    With ``is_sure``, as where a unit follows, they are one number.
    """
    plain = re.sub("[ ']", "", digits)
    if re.fullmatch(_CONTINENTAL, digits):
        return plain.replace(".", "").replace(",", ".")
    whole, comma, decimals = plain.rpartition(",")
    has_thousands = "," in whole or "." in plain or (len(decimals) == 3 and re.fullmatch(r"[1-9]\d{0,2}", whole))
    if not comma or has_thousands:
        return plain.replace(",", "")
    return f"{whole}.{decimals}" if is_sure or (whole == "0" and len(decimals) < 3) else ""


def _behind(text: str, start: int, *, is_money: bool) -> tuple[Fraction, Unit | None, int]:
    """Return the scale and the unit that stand at ``start``, behind a number, and where they end."""
    scale, power, end = Fraction(1), 1, start
    position = start
    for _ in range(4):
        if (word := _WORD.match(text, position)) is None:
            break
        name = word["sign"] or word["name"]
        letter = _LETTER_SCALES.get(name)
        is_close = is_money or position == word.start("name")
        known = scale_of(name) if letter is None else letter if is_close else ""
        if known:
            scale *= SCALES[known]
            end = position = word.end() if len(known) == len(name) else word.start("name") + len(known)
        elif name.lower() in POWERS:
            power, position = POWERS[name.lower()], word.end()
        else:
            raised = _POWER.match(text, word.end())
            unit = unit_of(name, int(raised[1]) if raised else power)
            if unit is None or is_money or _RATE.match(text, word.end()):
                break
            return scale, unit, raised.end() if raised else word.end()
    return scale, None, end
