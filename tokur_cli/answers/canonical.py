r"""The canonical form of an answer: an exact rational where it is a number, a normal text otherwise.

What counts as the same text: LaTeX spacing and sizing (``\left``, ``\,``), ``\dfrac`` for ``\frac``, math delimiters,
Markdown emphasis and a closing full stop are dropped. What counts as a number is told in ``numbers``; ``2^{10}``,
``3\sqrt{2}`` or ``5x`` are expressions: they are not evaluated here.

Decisions, where more than one reading is possible:

- ``1{,}22``, which LaTeX sets as one number, has a decimal comma.
- ``52_8`` is 52 with the base 8 as its name: it equals ``52``, as graders of MATH have it, but not ``52_9``.
- ``3 + 4 = 7`` is 7 and ``x = 10/2 = 5`` is ``x = 5``: a calculation has the value of its last right-hand side.
- A unit that we know is kept, a word that we do not know is dropped: ``18 apples`` is 18.
- ``May 4th, 2020`` and ``4 May 2020`` are 2020-05-04, ``May 2020`` is another date.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tokur_cli.answers.markers import NO, SO, YES
from tokur_cli.answers.numbers import LETTER, MARKED_TEXT, Number, read_number
from tokur_cli.answers.text import plain

_LONGEST = 2_000
"""Longer answers are words, whatever is in them: no formula of an answer is that long, and parsers are not linear."""


@dataclass(frozen=True, slots=True)
class Canonical:
    """An answer in canonical form."""

    # ``number``; ``choice`` (a letter of a multiple choice); ``words`` (no mathematics in it); ``expression``
    kind: Literal["number", "choice", "words", "expression"]
    text: str  # the normal text; two answers of one kind with the same text are the same answer
    latex: str  # the answer for a LaTeX parser: normal spellings, units still in ``\text``
    number: Number | None = None  # when ``kind`` is ``number``
    beside: Canonical | None = None  # the answer beside a choice's letter, 17 of ``(C) 17``, where it is no mere word


_COMMANDS = {"×": "times", "·": "cdot", "π": "pi", "√": "sqrt", "≤": "le", "≥": "ge", "≠": "ne", "∞": "infty"}
_CHARACTERS = str.maketrans(
    {"–": "-", "—": "-", "÷": "/"} | {character: rf"\{command} " for character, command in _COMMANDS.items()}
)
_FILLED = re.compile(r"[A-Za-z0-9]|[^\x00-\x7f]")  # what a box has that is no mere placeholder, such as "?"
_BRACE = re.compile(r"\\{1,2}(?:boxed|fbox)\s{0,4}\{|\\.|[{}]", re.DOTALL)
_NOTHING = re.compile(
    r"(?:[a-z]\s*\\in\s*)?(?:\\emptyset|\\varnothing|\\\{\\?\}|∅)"
    r"|(?i:(?:there (?:is|are) )?no (?:real )?(?:solutions?|roots?)|(?:the )?empty set)"
)
_REALS = re.compile(
    r"(?:[a-z]\s*\\in\s*)?(?:\\math(?:bb|bf)\s*(?:\{R\}|R)|ℝ|\(-\\infty, ?\+?\\infty\))|-\\infty<[a-z]<\+?\\infty"
    r"|(?i:(?:the set of )?(?:all|any) (?:the )?reals?(?: numbers?| values?)?(?: of)?(?: [a-z])?|(?:the )?real numbers)"
)
_BARE_BOX = re.compile(r"\\boxed\s{1,4}([^\s{}$\\]{1,50})")
_SPACING = re.compile(r"\\q?quad")
_NEXT_PART = re.compile(r"(?i)[.;,\n]\W{0,4}(?:part\s{1,4})?\([b-h]\)[^.;\n]{0,40}\Z")
_LIST_WORD = re.compile(r"(?<![A-Za-z])(?:and|or)(?![A-Za-z])")
_ROOT = re.compile(r"([√∛])\s?(?:\(([^()]*)\)|(\d+(?:\.\d+)?|[A-Za-z]))")
_DOLLAR = re.compile(r"(?<!\\)\$")
_DOUBLE_ESCAPE = re.compile(r"\\\\(?=[A-Za-z]{2})")
_SPELLINGS = (
    (re.compile(r"(?<=\\\\)\[-?\d*\.?\d+\s?(?:pt|em|ex|mm|cm)\]|(?<!\\)\\[()\[\]]"), " "),  # also a gap between rows
    (re.compile(r"\s*\^\s*\{\s*\\circ\s*\}|\s*(?:\^\s*\\circ|\\degree)(?![A-Za-z])"), "°"),
    (re.compile(r"\s*°(?:\s?[CF]\b)?"), r"\\text{degrees}"),
    (re.compile(r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])|\\! *"), ""),
    (re.compile(r"\\(?:displaystyle|limits|q?quad|thinspace)(?![A-Za-z])|(?<!\\)\\[,;: ]|(?<!\\)~"), " "),
    (re.compile(r"\\(?:mathrm|mathbf|mathit)\s*\{\s*([A-Za-z])\s*\}"), r" \1 "),
    (re.compile(r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}"), r"\\text{\1}"),
    (re.compile(r"\\langle(?![A-Za-z])|⟨"), "("),
    (re.compile(r"\\rangle(?![A-Za-z])|⟩"), ")"),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d)\s*(?=[\d{])"), r"\\frac{\1}"),
    (re.compile(r"\\frac\s*(\{[^{}]*\})\s*(\d)"), r"\\frac\1{\2}"),
    (re.compile(r"(?<![A-Za-z\\])sqrt ?(?:\((\d+)\)|(\d+)(?![\d.A-Za-z]))"), r"\\sqrt{\1\2}"),
    (re.compile(r"(?<=[\w)])\*\*(?=[\w({-])"), "^"),
    (re.compile(r"(?i)\Anegative (?=infinity\Z)"), "-"),
    (re.compile(r"(?i)(?<![a-z.:\\] )(?<![a-z\\])inf(?:inity)?(?!['-]? ?[:a-z]|, [a-z])"), r"\\infty"),
    (re.compile(r"(?<=[)\]])\s*U\s*(?=[(\[][^()\[\]]*,)"), r"\\cup "),
    (re.compile(r"(?<![A-Za-z\\])([A-Za-z])\^\{?-1\}?\(\w+\)(?=\s*=)"), r"\1"),  # as f(x) = 5 is f = 5
    (re.compile(r"\s+(?=\})"), ""),
    (re.compile(rf"(?:(?<=[-\d*/+^=({{,])|(?<=[-\d*/+=,]\s)|\A(?![Pp]i\s+[{LETTER}]))[Pp]i(?![{LETTER}])"), r"\\pi"),
    (re.compile(r",\s*(?:and|or)(?![A-Za-z])\s*"), ", "),
    (re.compile(r"\{,\}(?=\d{3}(?!\d))"), ","),
    (re.compile(r"(?<=\d)\{,\}(?=\d)"), "."),
    (re.compile(r"\\([%$#&])"), r"\1"),
    (re.compile(r"(?<![A-Za-z\\])([A-Za-z])\([a-z]\)(?=\s*=\s*-?\s*\d[\d,./]*$)"), r"\1"),  # f(x) = 5 is f = 5
)
"""What LaTeX writes in several ways, and the one that stays; words that it sets as text are marked ``\\text{…}``."""

_ARITHMETIC_COMMAND = re.compile(
    r"\\(?:frac|sqrt|times|cdot|div|binom|pi|circ|sin|cos|tan|log|ln|approx)(?![A-Za-z])"
    r"|\\text\{[^{}]*\}|(?<=\d)\s*x\s*(?=\d)"
)
_AROUND_OPERATORS = re.compile(r"\s*([-+*/=<>();:\[\]{}|^_])\s*|\s+(?=,)|(?<=,)\s+(?!\d{3}(?!\d))")
"""Where blanks say nothing: not behind a comma that could separate thousands, so that no list looks like a number."""

_CHOICE = re.compile(
    r"(?i:(?:option|choice|letter|answer)\s?:?\s)?"
    r"(?:(?:\(\s*([A-Ja-j])\s*\)|\[\s*([A-J])\s*\]|([A-J])\s*[).:](?!\s[A-Z]\.)|([a-j])(?:\)|\.(?=\s+[-+$\\(]?\d)))"
    r"(?:(?:\s+(?=\S)|(?<=\))(?=-?\d))(?P<beside>.*))?|([A-J]))",
    re.DOTALL,
)
_WORDS = re.compile(r"([^\W\d_]{2,}(?:[ '-]+[^\W\d_]+)*)!?")
_TIME = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}:\d\d|\d{1,2}(?::\d\d)?\s?[ap]\.?\s?m\.?", re.IGNORECASE)
_TIME_SPELLINGS = re.compile(r"\s|(?<!\d)\.|(?<=\d)\.(?=[ap])|:00(?=\s?[ap])|\A0(?=\d:)")
_MONTHS = "January February March April May June July August September October November December".split()
_DAY, _MONTH = r"(?:(\d{1,2})(?:st|nd|rd|th)?)", "|".join(f"{month[:3]}(?:{month[3:]})?" for month in _MONTHS)
_DATE = re.compile(rf"(?:{_DAY} (?:of )?)?({_MONTH})\.?(?: {_DAY})?,? ?(\d{{4}})?", re.IGNORECASE)
NUMBERED_NAME = re.compile(r"(?:[A-Z][^\W\d_]+ )+\d+")  # Apollo 11
_ACCENTS = re.compile("(?<=[A-Za-z\u0370-\u03ff])[\u0300-\u036f]+")
_NO_NAME = re.compile(r"[^\w\s]|_")
_LETTERS_WITH_STROKES = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe"})


@lru_cache(maxsize=65_536)
def canonical(answer: str) -> Canonical:
    """Return the canonical form of an answer as it was extracted, with or without LaTeX around it."""
    if len(answer) > _LONGEST:
        return Canonical("words", " ".join(answer.split()), answer)
    marked = _without_working(_normalise(answer))
    shown = " ".join(MARKED_TEXT.sub(r" \1 ", marked).split())
    text = _AROUND_OPERATORS.sub(r"\1", shown)
    if named := _common_name(text):
        return Canonical("words", named, marked)
    if _TIME.fullmatch(text):  # which a parser would compute with
        return Canonical("words", _TIME_SPELLINGS.sub("", text.casefold()), marked)
    if (date := _DATE.fullmatch(shown)) and re.search(r"\d", shown):
        month = [name[:3] for name in _MONTHS].index(date[2][:3].title()) + 1
        return Canonical("words", f"{date[4] or '?'}-{month:02}-{int(date[1] or date[3] or 0):02}", marked)
    if (number := read_number(marked)) is not None:
        is_spelled = not any(map(str.isdigit, marked))
        return Canonical("number", text, str(number.value * number.scale) if is_spelled else marked, number)
    if choice := _CHOICE.fullmatch(shown):
        letter = next(filter(None, choice.groups()))
        beside = choice["beside"] and not _CHOICE.fullmatch(choice["beside"])
        return Canonical("choice", letter.upper(), marked, beside=canonical(choice["beside"]) if beside else None)
    if words := _WORDS.fullmatch(shown):
        return Canonical("words", name_of(words[1]), marked)
    return Canonical("expression", text, marked)


def name_of(text: str) -> str:
    """Return a name as TriviaQA's scorer compares it, without case, articles and punctuation.

    The accents of Latin and Greek letters are folded, too: ``the Montréal`` is ``montreal``.
    """
    folded = _ACCENTS.sub("", unicodedata.normalize("NFD", text.casefold().translate(_LETTERS_WITH_STROKES)))
    words = _NO_NAME.sub(" ", unicodedata.normalize("NFC", folded)).split()
    return " ".join([word for word in words if word not in ("a", "an", "the")] or words)


def _normalise(answer: str) -> str:
    """Drop what is only typography."""
    text = _ROOT.sub(lambda root: rf"\sqrt{'[3]' * (root[1] == '∛')}{{{root[2] or root[3]}}}", plain(answer))
    text = _strip(text.translate(_CHARACTERS))
    if len(_DOLLAR.findall(text)) > 1:
        text = _strip(_DOLLAR.sub("", text))
    if "\\begin" not in text:  # where "\\\\" ends a row
        text = _DOUBLE_ESCAPE.sub(r"\\", text)
    for pattern, replacement in _SPELLINGS:
        text = pattern.sub(replacement, text)
    text = _strip(" ".join(text.split()))
    boxed, end = boxes(text) if text.startswith(("\\boxed", "\\fbox")) else ("", 0)
    return _normalise(boxed) if boxed and end == len(text) else text


def _without_working(text: str) -> str:
    """Return the result of a calculation, 7 of ``3 + 4 = 7``, with its name if any: ``x = 7`` of ``x = 3 + 4 = 7``."""
    first, *inner = text.split("=")
    if not inner or not all(map(_is_arithmetic, inner)):
        return text
    result = inner[-1].strip()
    return result if not first or _is_arithmetic(first) else f"{first}= {result}"


def _is_arithmetic(text: str) -> bool:
    """Return whether a side of an equation holds numbers and no variables."""
    if read_number(text.strip()):
        return True
    rest = _ARITHMETIC_COMMAND.sub("", text)
    return any(digit in rest for digit in "0123456789") and not re.search(f"[{LETTER}]", rest)


def _strip(text: str) -> str:
    """Drop blanks, Markdown emphasis, quotes, a leading ≈ and closing punctuation around an answer."""
    text = text.strip(" \t\r\n*`\"'").lstrip("≈ ")
    if text.endswith((".", ",", ";", ":")):  # not "!", which may be a factorial
        # "\," at the end loses its second half with the punctuation, so the backslash goes too.
        text = text.rstrip(".,;: \t\r\n\\").rstrip("*`\"'")
    return text


def boxes(text: str) -> tuple[str, int]:
    """Return what the last balanced box, or list of boxes, holds, and where it ends; nothing where there is none."""
    opened: list[tuple[int, int]] = []  # of each open brace: where its box begins, or -1 for others; and its inside
    spans: list[tuple[int, int, int]] = []  # (start, first character inside, closing brace)
    for token in _BRACE.finditer(text):
        if token[0] == "}" and opened:
            start, inside = opened.pop()
            has_inner = bool(spans) and spans[-1][0] > start  # which is kept in its place
            if start >= 0 and not has_inner and _FILLED.search(text, inside, token.start()):
                spans.append((start, inside, token.start()))
        elif token[0] == "{" or len(token[0]) > 2:
            opened.append((token.start() if token[0] != "{" else -1, token.end()))
    if spans:
        return _join_list(text, spans), spans[-1][2] + 1
    bare = _BARE_BOX.search(text, max(0, text.rfind("\\boxed")))
    return (bare[1], bare.end()) if bare else ("", 0)


def _join_list(text: str, spans: list[tuple[int, int, int]]) -> str:
    """Return the last box, joined with those right before it that belong to the same list."""
    first = len(spans) - 1
    while first > 0 and _belongs_together(text[spans[first - 1][2] + 1 : spans[first][0]]):
        first -= 1
    parts = [text[inside:end].strip() for _, inside, end in spans[first:]]
    return parts[0] if len(set(parts)) == 1 else ", ".join(parts)


def _belongs_together(gap: str) -> bool:
    """Return whether the text between two boxes makes them a list: none, a comma, or a few words with "and" or "or"."""
    if len(gap) > 100 or "\n\n" in gap:
        return False
    if _NEXT_PART.search(gap) or not re.search(r"[\w=.]", _SPACING.sub("", gap)):
        return True
    has_list_word = _LIST_WORD.search(gap) and not SO.search(gap)
    return bool(has_list_word) and len(gap.split()) <= 10 and not re.search(r"[.!?:](?:\s|$)", gap)


def _common_name(text: str) -> str | None:
    r"""Return one name for an answer in normal form: ``\emptyset`` is "no solution", ``sí`` is "yes"; else None."""
    if _NOTHING.fullmatch(text):
        return "no solution"
    if _REALS.fullmatch(text):
        return "all real numbers"
    word = text.casefold().rstrip("!")
    return "yes" if word in YES else "no" if word in NO else None
