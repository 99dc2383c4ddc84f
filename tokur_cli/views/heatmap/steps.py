"""How unsure the model was in each of a response's reasoning steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tokur_cli.records.quantity import Quantity


class Stepped(Protocol):
    """A response that is cut into steps, with the values of its tokens."""

    @property
    def steps(self) -> Sequence[tuple[tuple[int, int], range]]:
        """Each step's code points ``(start, end)`` and its tokens."""

    def token_values(self, name: str) -> Sequence[float | None]:
        """Return the values of a quantity."""


@dataclass(frozen=True, slots=True)
class Step:
    """One reasoning step.

    Args:
        start: its first code point in the response.
        end: the code point after its last.
        tokens: its tokens.
        total: the sum of their values; None if none has a value.
        mean: their mean value; None if none has a value.
        doubt: the one of the two that the quantity compares steps by, turned so that more is less sure.
    """

    start: int
    end: int
    tokens: range
    total: float | None
    mean: float | None
    doubt: float | None


def steps_of(response: Stepped, quantity: Quantity) -> list[Step]:
    """Return the reasoning steps with the sum and the mean of their tokens' values.

    Args:
        response: the response.
        quantity: what is summed.

    Raises:
        RecordError: the response lacks the quantity.
    """
    values = response.token_values(quantity.name)
    steps = []
    for (start, end), tokens in response.steps:
        known = [value for value in values[tokens.start : tokens.stop] if value is not None]
        if known:
            total = sum(known)
            mean = total / len(known)
            doubt = quantity.doubt(total if quantity.aggregate == "sum" else mean)
            steps.append(Step(start, end, tokens, total, mean, doubt))
        else:
            steps.append(Step(start, end, tokens, None, None, None))
    return steps


def doubtful_step(steps: Sequence[Step]) -> int | None:
    """Return the index of the least sure step, the first of equals; None if no step has a value."""
    doubts = [(step.doubt, -index) for index, step in enumerate(steps) if step.doubt is not None]
    return -max(doubts)[1] if doubts else None
