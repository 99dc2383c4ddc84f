"""How unsure the model was in each of a response's reasoning steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tokur_cli.records.quantity import Quantity


class Step(NamedTuple):
    """One reasoning step.

    Args:
        start: its first code point in the response.
        end: the code point after its last.
        tokens: its tokens.
        total: the sum of their values; None if none has a value.
        mean: their mean value; None if none has a value.
        doubt: what steps are compared by, turned so that more is less sure; None if none has a value.
    """

    start: int
    end: int
    tokens: range
    total: float | None
    mean: float | None
    doubt: float | None


def tally(values: Sequence[float | None], quantity: Quantity) -> tuple[float, float, float] | tuple[None, None, None]:
    """Return what tokens come to together: the sum and the mean of their values, and the doubt.

    The doubt is the one of the two that the quantity compares by, turned so that more is less sure.
    """
    known = [value for value in values if value is not None]
    if not known:
        return None, None, None
    total = sum(known)
    mean = total / len(known)
    return total, mean, quantity.doubt(total if quantity.aggregate == "sum" else mean)


def steps_of(
    steps: Sequence[tuple[tuple[int, int], range]], values: Sequence[float | None], quantity: Quantity
) -> list[Step]:
    """Return steps, given by their code points and tokens, with the sum and the mean of their tokens' values."""
    return [
        Step(start, end, tokens, *tally(values[tokens.start : tokens.stop], quantity)) for (start, end), tokens in steps
    ]


def doubtful_step(steps: Sequence[Step]) -> int | None:
    """Return the index of the least sure step, the first of equals; None if no step has a value."""
    doubts = [(step.doubt, -index) for index, step in enumerate(steps) if step.doubt is not None]
    return -max(doubts)[1] if doubts else None
