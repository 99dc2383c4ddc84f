"""Whether a text calls something true: the verdict of a verification."""

from __future__ import annotations

import re

_VERDICT = re.compile(
    r"(?P<negation>(?:\bnot|n't|n’t)\s+(?:\w+\s+){0,2})?"
    r"\b(?:(?P<true>true|correct|yes)|(?:false|incorrect|wrong|no))\b",
    re.IGNORECASE,
)


def verdict(text: str) -> bool | None:
    """Return what the first of the words true, correct, yes, false, incorrect, wrong and no says; None without any.

    A ``not`` up to two words before it reverses it: "not entirely true" is false.

    Args:
        text: asked to begin with True or False; what stands before the first such word is ignored.
    """
    found = _VERDICT.search(text)
    return None if found is None else (found["true"] is not None) != (found["negation"] is not None)
