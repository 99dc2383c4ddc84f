"""How unsure the model was in each of a response's reasoning steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokur_cli.views.heatmap.response import HeatmapResponse, Quantity


@dataclass(frozen=True, slots=True)
class Step:
    """One reasoning step.

    Args:
        start: its first code point in the response.
        end: the code point after its last.
        tokens: its tokens.
        total: the sum of their values; None if none has a value.
        mean: their mean value; None if none has a value.
    """

    start: int
    end: int
    tokens: range
    total: float | None
    mean: float | None


def steps_of(response: HeatmapResponse, quantity: Quantity) -> list[Step]:
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
        total = sum(known) if known else None
        steps.append(Step(start, end, tokens, total, None if total is None else total / len(known)))
    return steps


def doubtful_step(steps: Sequence[Step], quantity: Quantity) -> int | None:
    """Return the index of the least sure step, None if no step has a value.

    For an uncertainty that is the step with the largest sum; for a confidence, whose sum grows with length however
    unsure the tokens are, the one with the lowest mean.
    """
    by_sum = quantity.orientation == "uncertainty"
    doubts = [
        (quantity.doubt(value), -index)
        for index, step in enumerate(steps)
        if (value := step.total if by_sum else step.mean) is not None
    ]
    return -max(doubts)[1] if doubts else None
