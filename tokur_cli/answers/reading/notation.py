r"""Notations that several texts share or that parsers misread: the empty set, the real numbers, angles and degrees."""

from __future__ import annotations

import re

from tokur_cli.answers.reading.expressions import expression
from tokur_cli.answers.reading.vocabulary import NO, YES

_NOTHING = expression(
    r"(?:[a-z]\s*\\in\s*)?(?:\\emptyset|\\varnothing|\\\{\\?\}|∅)"
    r"|(?i:(?:there (?:is|are) )?no (?:real )?(?:solutions?|roots?)|(?:the )?empty set)"
)
_REALS = expression(
    r"(?:[a-z]\s*\\in\s*)?(?:\\math(?:bb|bf)\s*(?:\{R\}|R)|ℝ|\(-\\infty, ?\+?\\infty\))|-\\infty<[a-z]<\+?\\infty"
    r"|(?i:(?:the set of )?(?:all|any) (?:the )?reals?(?: numbers?| values?)?(?: of)?(?: [a-z])?|(?:the )?real numbers)"
)
_ANGLE = expression(r"(?:m ?)?(?:\\angle|∠|\b[Aa]ngle) ?([A-Z]{1,3})\b")
_OF_DEGREES = expression(
    r"\\?(?<![A-Za-z])(sin|cos|tan|cot|sec|csc)(?![A-Za-z])\s*(\^\s*(?:\{\d\}|\d))?\s*"
    r"(?:[({]((?:[-+]?\s*[\d.]+\s*\\text\{degrees\}\s*)+)[)}]|(-?[\d.]+\s*\\text\{degrees\}))"
)

_TEXT = expression(r"\\text\{([^{}]*)\}")

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" if len(name) > 3 else name for name in _MONTHS)
_DATES = (
    expression(r"(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})"),
    expression(r"(?P<year>\d{4})\s*[年년]\s*(?P<month>\d{1,2})\s*[月월]\s*(?P<day>\d{1,2})\s*[日号號일]?"),
    expression(rf"(?i:(?P<name>{_MONTH}))\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s+(?P<year>\d{{4}}))?"),
    expression(
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?i:(?P<name>{_MONTH}))\.?(?:,?\s+(?P<year>\d{{4}}))?"
    ),
)
_CLOCK = expression(
    r"(?:at\s+)?(?P<hour>[01]?\d|2[0-4])(?:(?::|\s?h\s?)(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?)?\s*"
    r"(?P<half>(?i:[ap])\.?\s?(?i:m)\b\.?|o'clock|(?i:uhr)\b|h\b)?"
)
_TIME = expression(r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?: (?P<half>[ap]m))?")


def common_name(text: str) -> str | None:
    r"""Return one name for what has several: ``\emptyset`` is "no solution", ``5 March`` is "03-05"; else None.

    Args:
        text: a whole answer in normal form.
    """
    if _NOTHING.fullmatch(text):
        return "no solution"
    if _REALS.fullmatch(text):
        return "all real numbers"
    angle = _ANGLE.fullmatch(text)
    if angle:
        return f"angle {_vertices(angle)}"
    word = text.casefold().rstrip("!")
    if word in YES or word in NO:
        return "yes" if word in YES else "no"
    return _date(text) or _clock(text)


def same_time(first: str, second: str) -> bool:
    """Return whether two names are of one time of day, as ``3:30 pm`` and ``15:30``, or but for the half of the day.

    Args:
        first: a name that ``common_name`` gave, or anything else.
        second: another.
    """
    times = [_TIME.fullmatch(text) for text in (first, second)]
    if not all(times):
        return False
    one, other = (_minutes(time) for time in times if time)
    halves = {time["half"] for time in times if time}
    return one == other or (
        len(halves) == 2
        and None in halves
        and (one - other) % 720 == 0
        and first[:5].rstrip(" ap") == second[:5].rstrip(" ap")
    )


def _minutes(time: re.Match[str]) -> int:
    hour = int(time["hour"])
    if time["half"]:
        hour = hour % 12 + (12 if time["half"] == "pm" else 0)
    return 60 * hour + int(time["minute"])


def _date(text: str) -> str | None:
    """Return a day as ``2024-03-05``, one of any year as ``03-05``."""
    for pattern in _DATES:
        found = pattern.fullmatch(text)
        if found:
            parts = found.groupdict()
            named = parts.get("name")
            month = 1 + [name[:3] for name in _MONTHS].index(named[:3].lower()) if named else int(parts["month"])
            day = int(parts["day"])
            if not (1 <= month <= 12 and 1 <= day <= 31):
                return None
            return (f"{parts['year']}-" if parts["year"] else "") + f"{month:02}-{day:02}"
    return None


def _clock(text: str) -> str | None:
    """Return a time of day: ``10:30``, with ``am`` or ``pm`` where it says so."""
    found = _CLOCK.fullmatch(text)
    half = (found["half"] or "").lower() if found else ""
    if found is None or (found["minute"] is None and half in ("", "h")):
        return None
    seconds = f":{found['second']}" if found["second"] else ""
    time = f"{int(found['hour'])}:{found['minute'] or '00'}{seconds}"
    return f"{time} {half[0]}m" if half[:1] in ("a", "p") else time


def for_parser(latex: str) -> str:
    r"""Return a formula with angles as single symbols, and degrees of trigonometric functions as radians.

    Parsers multiply the letters of ``\angle ABC``, so that it equals ``\angle ACB``, and read past ``^\circ``.

    Args:
        latex: the formula, its degrees written ``\text{degrees}``.
    """
    latex = _ANGLE.sub(lambda match: rf"\theta_{{{_vertices(match)}}}", latex)
    return _OF_DEGREES.sub(_in_radians, latex)


def _vertices(angle: re.Match[str]) -> str:
    """Return the letters of an angle, in one of their two orders: ``ABC`` is ``CBA`` but not ``ACB``."""
    return min(angle[1], angle[1][::-1]).lower()


def _in_radians(match: re.Match[str]) -> str:
    function, power, bracketed, alone = match.groups()
    return rf"\{function}{power or ''}(\frac{{\pi}}{{180}}({_TEXT.sub('', bracketed or alone)}))"
