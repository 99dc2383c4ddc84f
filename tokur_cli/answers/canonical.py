r"""The canonical form of an answer: an exact rational where it is a number, a normal text otherwise.

What counts as the same text: LaTeX spacing and sizing (``\left``, ``\,``), ``\dfrac`` for ``\frac``, math delimiters,
Markdown emphasis and a closing full stop are dropped. What counts as a number: integers, decimals, thousands separated
by commas or spaces, fractions, mixed numbers, scientific notation and repeating decimals, each with an optional
currency, unit and ``x =`` in front. ``2^{10}``, ``3\sqrt{2}`` or ``5x`` are expressions: they are not evaluated here.

Decisions, where more than one reading is possible:

- ``1,234`` is 1234 and ``18,20`` is a list; ``1{,}22``, which LaTeX sets as one number, has a decimal comma.
- ``50%`` is 1/2 that may also be written 50 (see ``equivalence``); ``5 million`` is 5,000,000 that may be written 5.
- ``1\frac{1}{2}`` and ``1 1/2`` are mixed numbers, 3/2.
- ``52_8`` is 52 with the base 8 as its name: it equals ``52``, as graders of MATH have it, but not ``52_9``.
- ``3 + 4 = 7`` is 7 and ``x = 10/2 = 5`` is ``x = 5``: a calculation has the value of its last right-hand side.
- A unit that we know is kept, a word that we do not know is dropped: ``18 apples`` is 18.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from tokur_cli.answers.notation import common_name, for_parser
from tokur_cli.answers.spelled import NUMBER_WORDS, in_digits
from tokur_cli.answers.units import CURRENCY, SCALES, UNITS, Unit, unit_of

MAX_SYMBOLIC_LENGTH = 2_000
"""Longer answers are compared as text only: no answer to a question is that long, and parsers are not linear."""

Kind = Literal["number", "choice", "words", "expression"]


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written.

    Attributes:
        value: the number as written, exactly, without scale and unit.
        scale: 1/100 for ``%``, 1,000,000 for ``million``, otherwise 1.
        unit: what follows it, when it is a unit that we know.
        name: the variable of ``x = 5`` or the base of ``52_8``, otherwise empty.
        places: decimals written after the point; 0 for integers and fractions.
    """

    value: Fraction
    scale: Fraction = Fraction(1)
    unit: Unit | None = None
    name: str = ""
    places: int = 0


@dataclass(frozen=True, slots=True)
class Canonical:
    r"""An answer in canonical form.

    Attributes:
        kind: ``number``; ``choice`` (a letter of a multiple choice); ``words`` (no mathematics in it); ``expression``.
        text: the normal text; two answers of one kind with the same text are the same answer.
        latex: the answer for a LaTeX parser: normal spellings, units still in ``\text``.
        number: the number, when ``kind`` is ``number``.
        written_unit: the known unit after an expression, as in ``4\sqrt{3}\text{ cm}``.
    """

    kind: Kind
    text: str
    latex: str
    number: Number | None = None
    written_unit: Unit | None = None

    @property
    def unit(self) -> Unit | None:
        """The known unit after the answer, a number or not."""
        return self.number.unit if self.number else self.written_unit


_CHARACTERS = str.maketrans(
    {
        "−": "-",
        "–": "-",
        "—": "-",
        "×": r"\times ",
        "·": r"\cdot ",
        "÷": "/",
        "π": r"\pi ",
        "√": r"\sqrt ",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "∞": r"\infty ",
        "½": r"\frac{1}{2}",
        "¼": r"\frac{1}{4}",
        "¾": r"\frac{3}{4}",
        "⅓": r"\frac{1}{3}",
        "⅔": r"\frac{2}{3}",
        "²": "^2",
        "³": "^3",
        "\u00a0": " ",
        "\u2009": " ",
        "\u202f": " ",
        "\u200b": "",
        "’": "'",
        "，": ",",
    }
)

_SPACING = re.compile(
    r"\\(?:left|right|[bB]igg?[lr]?|displaystyle|limits|quad|qquad|thinspace)(?![A-Za-z])"
    r"|(?<!\\)\\[,;: ]|\\! *|(?<!\\)~"
)
_JOINING = (r"\!", r"\left", r"\right", r"\b", r"\B")
_DOLLAR = re.compile(r"(?<!\\)\$")
_DEGREES = re.compile(r"\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ)(?![A-Za-z])|\s*\\degree(?![A-Za-z])|\s*°(?:[CF]\b)?")
_STYLED_TEXT = re.compile(r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_ROMAN_LETTER = re.compile(r"\\(?:mathrm|mathbf|mathit)\s*\{\s*([A-Za-z])\s*\}")
_DOUBLE_ESCAPE = re.compile(r"\\\\(?=[A-Za-z]{2})")
_MARKED_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_LETTERS = re.compile(r"\\text\{\s*([A-Z](?:(?:\s*,\s*|\s*,?\s+(?:and|or)\s+)[A-Z])+)\s*\}")
_SPELLINGS = (
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r",\s*(?:and|or)(?![A-Za-z])\s*"), ", "),
    (re.compile(r"\\frac\s*(\d)\s*(?=[\d{])"), r"\\frac{\1}"),
    (re.compile(r"\\frac\s*(\{[^{}]*\})\s*(\d)"), r"\\frac\1{\2}"),
    (re.compile(r"\\sqrt\s*(\d)"), r"\\sqrt{\1}"),
    (re.compile(r"\{,\}(?=\d{3}(?!\d))"), ","),
    (re.compile(r"(?<=\d)\{,\}(?=\d)"), "."),
    (re.compile(r"\\([%$#&])"), r"\1"),
    (re.compile(r"\\(?:geq|geqslant)(?![A-Za-z])"), r"\\ge"),
    (re.compile(r"\\(?:leq|leqslant)(?![A-Za-z])"), r"\\le"),
    (re.compile(r"\\neq(?![A-Za-z])"), r"\\ne"),
    (re.compile(r"(?<!\\text)\{ +"), "{"),
    (re.compile(r"(?<=[^ ]) +\}"), "}"),
    (re.compile(r"(?<=\d)(or|and)(?=[A-Za-z(\\-])"), r" \1 "),
    # The argument of a function that is a number says nothing: f(x) = 5 is f = 5.
    (
        re.compile(r"(?<![A-Za-z\\])([A-Za-z])\([a-z]\)(?=\s*=\s*-?\s*\d+(?:[.,/]\d+)*\s*(?:$|[,;]|\\text|and|or))"),
        r"\1",
    ),
)
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{(.*)\}", re.DOTALL)
_DELIMITED = re.compile(r"\$\$(.*)\$\$|\\\[(.*)\\\]|\\\((.*)\\\)", re.DOTALL)
_BRACKET = re.compile(r"[(){},]")
_NO_CALCULATION = re.compile(r"[<>;]|!=|,(?!\d{3}(?!\d))|\\(?:begin|le|ge|ne)(?![A-Za-z])|\b(?:and|or)\b")
_NAMED = re.compile(r"(?:\\angle\s*)?\\?[A-Za-z]+(?:_\{?\w+\}?)?(?:\([^()=]*\))?\s*")
_ARITHMETIC_COMMAND = re.compile(
    r"\\(?:frac|sqrt|times|cdot|div|binom|pi|circ|sin|cos|tan|log|ln)(?![A-Za-z])|\\text\{[^{}]*\}|(?<=\d)\s*x\s*(?=\d)"
)
_AROUND_OPERATORS = re.compile(r"\s*([-+*/=<>();:\[\]{}|^_])\s*|\s+(?=,)")
# A comma that separates thousands stays as it is, so that no list can look like a number.
_LIST_COMMA = re.compile(r"(?<!\d),\s*|,\s+|,(?!\d{3}(?!\d))")

_INTEGER = r"[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?:[ ]\d{3})+|\d+"
_POWER_OF_TEN = r"10\s*\^\s*(?:\{\s*[+-]?\d{1,3}\s*\}|[+-]?\d{1,3})"
_NUMBER = re.compile(
    rf"""(?:(?P<name>[A-Za-z](?:_\{{?\w+\}}?)?)\s*=\s*)?
    (?P<sign1>[-+])?\s*(?P<currency>[{CURRENCY}])?\s*(?P<sign2>[-+])?\s*
    (?:
      (?:(?P<whole>\d+)\s*)?\\frac\s*\{{\s*(?P<top>-?\d+)\s*\}}\s*\{{\s*(?P<bottom>-?\d+)\s*\}}
    | (?:(?P<whole2>\d+)[ ]+)?(?P<top2>{_INTEGER})\s*/\s*(?P<bottom2>{_INTEGER})
    | (?P<power>{_POWER_OF_TEN})
    | (?P<based>\d+)\s*_\s*\{{?\s*(?P<base>\d{{1,2}})\s*\}}?
    | (?P<integer>{_INTEGER})?(?:\.(?P<decimals>\d*)(?:\\overline\s*\{{(?P<repeated>\d+)\}})?)?
      (?:[eE](?P<exponent>[+-]?\d{{1,3}})|\s*(?:\\times|\\cdot|\*|x)\s*(?P<times>{_POWER_OF_TEN}))?
    )
    \s*(?P<tail>.*)""",
    re.VERBOSE | re.DOTALL,
)
_TAIL = re.compile(
    r"""\\text\{(?P<text>[^{}]*)\}(?P<text_power>\s*\^\s*\{?\s*[23]\s*\}?)?
    | (?P<sign>[%¢$€£¥₹])
    | (?P<words>[A-Za-z][A-Za-z'./&-]*(?:\s+[A-Za-z][A-Za-z'./&-]*){0,5})(?P<power>\s*\^\s*\{?\s*[23]\s*\}?)?""",
    re.VERBOSE,
)
_NO_UNITS = frozenset(
    "sin cos tan sec csc cot log ln exp mod and or over plus minus times divided pi sqrt infinity not to is if "  # noqa: SIM905
    "arcsin arccos arctan sinh cosh tanh det dim max gcd lcm".split()
)
_CHOICE = re.compile(
    r"\(\s*([A-Ja-j])\s*\)|([A-J])\s*[).:]?|\(\s*([A-J])\s*\)\s+\S.*|([A-J])\s*[).:]\s+\S.*", re.DOTALL
)
_WORDS = re.compile(r"([^\W\d_]{2,}(?:[ '-]+[^\W\d_]+)*)!?")
_UNIT_BEHIND = re.compile(
    r"(?:\\text\{(?P<text>[^{}]*)\}|(?<![\\A-Za-z{])(?P<word>[A-Za-z]{2,}))(?P<power>\s*\^\s*\{?\s*[23]\s*\}?)?$"
)
_NAMES = frozenset(("pi", "infinity", "infty", "inf", "oo"))


@lru_cache(maxsize=65_536)
def canonical(answer: str) -> Canonical:
    """Return the canonical form of an answer's text.

    Args:
        answer: the answer as it was extracted, with or without LaTeX around it.
    """
    if len(answer) > MAX_SYMBOLIC_LENGTH:
        text = " ".join(answer.split())
        return Canonical("expression", text, text)
    marked = _without_working(_normalise(answer))
    shown = " ".join(_MARKED_TEXT.sub(r" \1 ", marked).split())
    text = _LIST_COMMA.sub(", ", " ".join(_AROUND_OPERATORS.sub(r"\1", shown).split()))
    number = _read_number(marked)
    if number is not None:
        return Canonical("number", text, marked, number)
    choice = _CHOICE.fullmatch(shown)
    if choice:
        return Canonical("choice", next(letter for letter in choice.groups() if letter).upper(), marked)
    named = common_name(text)
    if named:
        return Canonical("words", named, marked)
    words = _WORDS.fullmatch(shown)
    if words and shown.lower() not in _NAMES:
        return Canonical("words", words[1].casefold(), marked)
    return Canonical("expression", text, for_parser(marked), written_unit=_unit_behind(marked))


def _normalise(answer: str) -> str:
    r"""Drop what is only typography; words that LaTeX sets as text stay marked ``\text{…}``."""
    text = _strip(answer.translate(_CHARACTERS))
    for wrapper in (_DELIMITED, _BOXED, _DELIMITED):
        inside = wrapper.fullmatch(text)
        if inside:
            body = next(group for group in inside.groups() if group is not None)
            if _is_one_group(body):
                text = _strip(body)
    if "\\begin" not in text:  # where "\\\\" ends a row
        text = _DOUBLE_ESCAPE.sub(r"\\", text)
    if len(_DOLLAR.findall(text)) > 1:
        text = _DOLLAR.sub("", text)
    text = _DEGREES.sub(r"\\text{degrees}", text)
    text = _SPACING.sub(lambda match: "" if match[0].startswith(_JOINING) else " ", text)
    text = _ROMAN_LETTER.sub(r" \1 ", text)
    text = _STYLED_TEXT.sub(r"\\text{\1}", text)
    text = _LETTERS.sub(r"\1", text)
    whole = _MARKED_TEXT.fullmatch(text)
    if whole and any(digit in text for digit in "0123456789"):
        text = whole[1]
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text)
    return _strip(" ".join(text.split()))


def _without_working(text: str) -> str:
    """Return the result of a calculation, 7 of ``3 + 4 = 7``, with its name if any: ``x = 7`` of ``x = 3 + 4 = 7``."""
    first, *inner = text.split("=")
    if not inner or _NO_CALCULATION.search(text):
        return text
    if not all(_is_arithmetic(part) for part in inner):
        return text
    result = inner[-1].strip()
    if not first or _is_arithmetic(first):
        return result
    return f"{first}= {result}" if _NAMED.fullmatch(first) else text


def _is_arithmetic(text: str) -> bool:
    """Return whether a side of an equation holds numbers and no variables."""
    number = _read_number(text.strip())
    if number is not None:
        return not number.name
    rest = _ARITHMETIC_COMMAND.sub("", text)
    return any(digit in rest for digit in "0123456789") and not re.search(r"[A-Za-z]", rest)


def _unit_behind(text: str) -> Unit | None:
    """Return the unit that a formula ends with, in LaTeX's text or of two or more letters (``m`` may be a variable)."""
    behind = _UNIT_BEHIND.search(text)
    if behind is None:
        return None
    power = behind["power"] or ""
    words = (behind["text"] or behind["word"] or "").lower().split()
    return unit_of(words, 2 if "2" in power else 3 if "3" in power else 1)


def _is_one_group(body: str) -> bool:
    r"""Return whether delimiters around ``body`` belong together: ``\boxed{1}, \boxed{2}`` is not one box."""
    depth = 0
    for token in re.findall(r"\\.|[{}]|\$\$", body):
        depth += (token == "{") - (token == "}")
        if depth < 0 or token in (r"\[", r"\]", r"\(", r"\)", "$$"):
            return False
    return depth == 0


def _strip(text: str) -> str:
    """Drop blanks, Markdown emphasis, quotes and closing punctuation around an answer."""
    text = text.strip(" \t\r\n*`\"'")
    if text.endswith((".", ",", ";", ":")):  # not "!", which may be a factorial
        # "\," at the end loses its second half with the punctuation, so the backslash goes too.
        text = text.rstrip(".,;: \t\r\n\\").rstrip("*`\"'")
    return text


def _read_number(text: str) -> Number | None:
    """Return the number that the whole text is, in digits or (up to 999 and scales) in words, or None."""
    while (
        len(text) > 2 and text[0] + text[-1] in ("()", "{}") and not _BRACKET.search(_MARKED_TEXT.sub("", text[1:-1]))
    ):
        text = text[1:-1].strip()
    if not any(digit in text for digit in "0123456789"):
        text = in_digits(text)
    match = _NUMBER.fullmatch(text)
    if match is None or (match["sign1"] and match["sign2"]):
        return None
    value = _read_value(match)
    tail = _read_tail(match["tail"], match["currency"], apart=text[: match.start("tail")].endswith(" "))
    if value is None or tail is None:
        return None
    scale, unit = tail
    if "-" in (match["sign1"], match["sign2"]):
        value = -value
    places = len(match["decimals"] or "") if not match["exponent"] and not match["times"] else 0
    return Number(value, scale, unit, match["name"] or match["base"] or "", 0 if match["repeated"] else places)


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
    return text.replace(",", "").replace(" ", "")


def _exponent(power_of_ten: str) -> int:
    return int(power_of_ten.partition("^")[2].strip(" {}"))


def _read_tail(text: str, currency: str | None, *, apart: bool) -> tuple[Fraction, Unit | None] | None:
    """Return the scale and unit around a number, or None where what follows makes it more than a number."""
    front = UNITS[currency] if currency else None
    if not text:
        return Fraction(1), front
    match = _TAIL.fullmatch(text)
    if match is None:
        return None
    words = (match["text"] if match["text"] is not None else match["sign"] or match["words"]).lower().split()
    if not NUMBER_WORDS.isdisjoint(words):
        return None
    scale = SCALES.get(words[0], Fraction(1)) if words else Fraction(1)
    exponent = match["text_power"] or match["power"] or ""
    unit = unit_of(words if scale == 1 else words[1:], 2 if "2" in exponent else 3 if "3" in exponent else 1)
    # "5 x", "6abc", "2 pi" and "3 or more" are expressions: an unknown word is one only if long, apart and no operator.
    is_word = bool(words) and apart and len(words[0]) >= 3 and _NO_UNITS.isdisjoint(words)
    if match["words"] and scale == 1 and unit is None and not is_word:
        return None
    return scale, front or unit
