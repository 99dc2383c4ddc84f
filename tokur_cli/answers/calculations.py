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
JOINT = re.compile(r"\s*(?:,?\s*(?:and|or)|,)\s*")
"""What joins answers to a list."""

UNFINISHED = re.compile(r"(?:[-+*/×·÷=^(]|\\(?:times|cdot|div))\s*\Z")
"""The end of a text that was cut off within a calculation."""


def without_working(sentence: str) -> str:
    """Return a sentence with the result alone where it begins with a calculation."""
    return sentence[_calculation(sentence, 0)[0] :]


def _calculation(text: str, start: int) -> tuple[int, int, bool]:
    """Return where the result of a calculation at ``start`` begins, where the calculation ends, and whether it is one.

    The result is the last amount that stands alone between ``=``: 7 in "3 + 4 = 7 apples", 20 in "20 = 4 * 5".
    """
    result = segment = end = start
    alone, operates, equates = True, False, False
    amount = _TERM.match(text, start)
    while amount:
        end = amount.end()
        operates = operates or "frac" in amount[0] or any(sign in amount[0][1:] for sign in "!^+-−*/×÷")
        link = _LINK.match(text, end)
        amount = _TERM.match(text, link.end()) if link else None
        if amount and link and not link["equals"]:
            alone, operates = False, True
            continue
        result = segment if alone else result
        if amount:
            segment, alone, equates = amount.start(), True, True
    return result, end, operates and equates


def last_result(sentence: str) -> tuple[int, int] | None:
    """Return where the result of a sentence's last calculation stands: the 7 of "he has 3 + 4 = 7 of the 9"."""
    found = None
    amount = _TERM.search(sentence)
    while amount:
        result, end, calculates = _calculation(sentence, amount.start())
        goes_on = sentence[: amount.start()].rstrip().endswith(("+", "-", "*", "/", "^"))  # 2x + 3 * 4 = 20
        if calculates and not goes_on:
            number = _TERM.match(sentence, result)
            symbols = SYMBOLS.match(sentence, number.end()) if number else None
            found = (number.start(), symbols.end() if symbols else number.end()) if number else None
        amount = _TERM.search(sentence, end)
    return found
