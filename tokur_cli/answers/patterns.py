"""A user's own rule for reading the answer of a response: a regular expression."""

from __future__ import annotations

import importlib
import re
import sys
from collections import deque

from tokur_cli.records.errors import UsageError

_PARSER = "re._parser" if sys.version_info >= (3, 11) else "sre_parse"


def answer_pattern(pattern: str, option: str) -> re.Pattern[str]:
    """Return the expression, compiled.

    Args:
        pattern: the expression.
        option: where the user gave it.

    Raises:
        UsageError: it is none, or what it reads (its first group, or all of it without one) is always empty.
    """
    try:
        compiled = re.compile(pattern)
        parsed = importlib.import_module(_PARSER).parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{option} {pattern}: this is no regular expression: {error}") from None
    longest = parsed.state.groupwidths[1] if compiled.groups else parsed.getwidth()
    if longest[1] == 0:
        what = "its first group" if compiled.groups else "it"
        raise UsageError(f"{option} {pattern}: {what} matches nothing but the empty text, which is no answer")
    return compiled


def last_match(pattern: re.Pattern[str], text: str) -> str | None:
    """Return what an expression reads in a text: the first group of its last match, else the whole match.

    None without a match, or where that group took no part in it or is blank.
    """
    last = deque(pattern.finditer(text), maxlen=1)
    found = (last[0][1] if pattern.groups else last[0][0]) if last else None
    return (found or "").strip() or None
