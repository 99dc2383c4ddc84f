"""A user's own rule for reading the answer of a response: a regular expression."""

from __future__ import annotations

import importlib
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from tokur_cli.records.errors import RecordError, UsageError

SECONDS = 5.0
"""Processor time that an expression may take on one response."""

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

    Raises:
        RecordError: the search takes too long: nested repeats such as ``(a+)+$`` may take forever. (Not where the time
            cannot be taken: on Windows, and beside the main thread.)
    """
    with _limited_time():
        last = deque(pattern.finditer(text), maxlen=1)
    found = (last[0][1] if pattern.groups else last[0][0]) if last else None
    return (found or "").strip() or None


@contextmanager
def _limited_time() -> Iterator[None]:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise RecordError(f"--answer takes more than {SECONDS:g} s of processor time on this response: simplify it")

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
