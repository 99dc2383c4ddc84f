r"""Calculations that a text carries out, such as "3 + 4 = 7 apples" and ``6 \times 7 = 42``, and what they come to."""

from __future__ import annotations

import re

from tokur_cli.answers.numbers import DIGITS, LETTER, SYMBOLS
from tokur_cli.answers.units import CURRENCY

# "7 boxes * 9 cookies / box = " in front of what a calculation comes to: amounts, each with a link to the next.
_TERM = re.compile(
    rf"(?<![A-Za-z0-9_.)\]}}])(?:[-−]\s?)?(?:\\?[{CURRENCY}]\s?)?"
    rf"-?(?:{DIGITS}|\\frac\{{\d+\}}\{{\d+\}})"
    r"(?:\^(?:\d+|\{\d+\})|[²³]|!(?=\s*[-+*/×·=\\])|\s?(?:\\?%|percent\b))?(?:\^(?:\{\\circ\}|\\circ)|°)?"
    r"|\([-−+*/×÷\d\s.,$%]*\d[-−+*/×÷\d\s.,$%]*\)"
)
_LINK = re.compile(
    r"(?:(?<=%)|(?<=/\d)|(?<=percent))\sof\s(?:the\s)?|"
    r"(?:\s?/?\s?(?!(?:because|since|as|so|if|when"
    r"|where|and|or|but|which|that|is|are|equals?|plus|minus|times|x|X|for|with)\b)"
    rf"(?:\\text\{{[^{{}}]*\}}|[{LETTER}]+\b\.?)){{0,4}}\s*"
    r"(?:(?P<equals>=|≈|≃|\\approx\b|\\simeq\b|(?:is\s)?equals?(?:\sto)?\b)|[-−–+*/×·÷^]|[xX](?=\s*[\d(.$€£])|(?=\()"
    r"|\\(?:times|cdot|div)(?![A-Za-z])"
    r"|(?:plus|minus|times|divided\sby|multiplied\sby)\b)\s*"
)


def last_result(sentence: str) -> tuple[int, int] | None:
    """Return where the result of a sentence's last calculation stands: the 7 of "he has 3 + 4 = 7 of the 9"."""
    found = None
    first = _TERM.search(sentence)
    while first:
        result, end = _calculation(sentence, first)
        goes_on = sentence[: first.start()].rstrip().endswith(("+", "-", "*", "/", "^"))  # 2x + 3 * 4 = 20
        if result and not goes_on:
            symbols = SYMBOLS.match(sentence, result.end())
            found = (result.start(), symbols.end() if symbols else result.end())
        first = _TERM.search(sentence, end)
    return found


def _calculation(text: str, first: re.Match[str]) -> tuple[re.Match[str] | None, int]:
    """Return the result of the calculation that begins with a term, None where it is none, and where it ends.

    The result is the last term that stands alone between ``=``: 7 in "3 + 4 = 7 apples", 20 in "20 = 4 * 5".
    """
    result, segment, term = first, first, first
    is_alone, operates, equates = True, False, False
    following: re.Match[str] | None = first
    while following:
        term = following
        operates = operates or "frac" in term[0] or any(sign in term[0][1:] for sign in "!^+-−*/×÷")
        link = _LINK.match(text, term.end())
        following = _TERM.match(text, link.end()) if link else None
        if following and link and not link["equals"]:
            is_alone, operates = False, True
            continue
        result = segment if is_alone else result
        if following:
            segment, is_alone, equates = following, True, True
    return result if operates and equates else None, term.end()
