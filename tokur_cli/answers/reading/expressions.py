"""Regular expressions that are compiled on their first use: a command that reads no answer starts without them."""

from __future__ import annotations

import re
from typing import Any, cast


class Lazy:
    """A regular expression in waiting: its first use compiles it.

    Args:
        source: the expression.
        flags: as of ``re.compile``.
    """

    def __init__(self, source: str, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, value)
        return value


def expression(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled on its first use, to be used as any other.

    Args:
        source: the expression.
        flags: as of ``re.compile``.
    """
    return cast("re.Pattern[str]", Lazy(source, flags))
