"""The arrays of a response's tokens: their places in its text and their values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tokur_cli.records.errors import RecordError


def check_token_arrays(
    response: str, spans: Sequence[tuple[int, int]], values: Mapping[str, Sequence[float | None]]
) -> None:
    """Check that the arrays are of one response's tokens.

    Args:
        response: the text.
        spans: code points ``[start, end)`` of it, one pair per token. Starts and ends never decrease. A token without
            text has an empty span; the tokens of one character share its span; text between spans is allowed.
        values: quantities by name, each as long as ``spans``; None where a token has no value.

    Raises:
        RecordError: lengths differ, a span lies outside the text or out of order, or a value is not finite.
    """
    previous = (0, 0)
    for index, (start, end) in enumerate(spans):
        if not 0 <= start <= end <= len(response):
            raise RecordError(
                f"offsets[{index}] is [{start}, {end}], outside the response of {len(response)} code points"
            )
        if start < previous[0] or end < previous[1]:
            raise RecordError(f"offsets[{index}] is [{start}, {end}], before the span of the token in front of it")
        previous = (start, end)
    for name, of_tokens in values.items():
        if len(of_tokens) != len(spans):
            raise RecordError(f'"{name}" has {len(of_tokens)} token values but there are {len(spans)} tokens')
        for index, value in enumerate(of_tokens):
            if value is not None and not math.isfinite(value):
                raise RecordError(f'"{name}"[{index}] is {value}; write null for a value that is not a number')
