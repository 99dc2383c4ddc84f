r"""Notations that several texts share or that parsers misread: the empty set, the real numbers, angles and degrees."""

from __future__ import annotations

import re

_NOTHING = re.compile(
    r"(?:[a-z]\s*\\in\s*)?(?:\\emptyset|\\varnothing|\\\{\\?\}|∅)"
    r"|(?i:(?:there (?:is|are) )?no (?:real )?(?:solutions?|roots?)|(?:the )?empty set)"
)
_REALS = re.compile(
    r"(?:[a-z]\s*\\in\s*)?(?:\\math(?:bb|bf)\s*(?:\{R\}|R)|ℝ|\(-\\infty, ?\+?\\infty\))|-\\infty<[a-z]<\+?\\infty"
    r"|(?i:(?:the set of )?(?:all|any) (?:the )?reals?(?: numbers?| values?)?(?: of)?(?: [a-z])?|(?:the )?real numbers)"
)
_ANGLE = re.compile(r"(?:m ?)?(?:\\angle|∠|\b[Aa]ngle) ?([A-Z]{1,3})\b")
_OF_DEGREES = re.compile(
    r"\\?(?<![A-Za-z])(sin|cos|tan|cot|sec|csc)(?![A-Za-z])\s*(\^\s*(?:\{\d\}|\d))?\s*"
    r"(?:[({]((?:[-+]?\s*[\d.]+\s*\\text\{degrees\}\s*)+)[)}]|(-?[\d.]+\s*\\text\{degrees\}))"
)

_TEXT = re.compile(r"\\text\{([^{}]*)\}")


def common_name(text: str) -> str | None:
    r"""Return one name for what has several: ``\emptyset`` is "no solution"; None for anything else.

    Args:
        text: a whole answer in normal form.
    """
    if _NOTHING.fullmatch(text):
        return "no solution"
    if _REALS.fullmatch(text):
        return "all real numbers"
    angle = _ANGLE.fullmatch(text)
    return f"angle {_vertices(angle)}" if angle else None


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
