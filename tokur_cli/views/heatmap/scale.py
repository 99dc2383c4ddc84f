"""One colour scale for all responses: its ends from a stream of token values, and the step a value falls in."""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from tokur_cli.records.errors import TokurError, UsageError, count_of
from tokur_cli.records.quantity import Quantity
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.style import STEPS

HIGH_QUANTILE = 0.99


@dataclass(frozen=True, slots=True)
class Scale:
    """A colour scale of eight equal steps between two values of a quantity."""

    quantity: Quantity  # what is painted
    certain: float  # the value at the certain end
    uncertain: float  # the value at the uncertain end
    origin: str  # in words, where the ends come from

    @property
    def edges(self) -> list[float]:
        """The nine values that bound the steps, from the certain end to the uncertain one."""
        length = self.uncertain - self.certain
        return [*(self.certain + length * step / STEPS for step in range(STEPS)), self.uncertain]

    @property
    def decimals(self) -> int:
        """How many decimals tell values on the scale apart: two figures of a step's length, and at least two."""
        length = (abs(self.uncertain - self.certain) or abs(self.uncertain)) / STEPS
        return max(2, 1 - math.floor(math.log10(length))) if length > 0 else 2

    def step(self, value: float) -> int:
        """Return the step of a value, 0 (certain) to 7 (uncertain); −1 and 8 where it is off the scale at that end."""
        turn = -self.quantity.sign  # more is less certain then
        certain, value, uncertain = turn * self.certain, turn * value, turn * self.uncertain
        if not certain < value <= uncertain:
            return -1 if value < certain else STEPS if value > uncertain else 0
        return min(STEPS - 1, int(STEPS * ((value - certain) / (uncertain - certain))))

    def format(self, value: float) -> str:
        """Return the value with as many decimals as the scale needs."""
        text = f"{value:.{self.decimals}f}"
        return text.removeprefix("-") if float(text) == 0 else text


class ScaleBuilder:
    """Gathers the token values of a stream of responses, and gives the scale of each quantity when all were seen.

    Eight bytes are kept of a token and quantity, so that the quantiles are exact for tens of millions of tokens.

    Attributes:
        responses: how many were added.
        others: the names of those that no response has lacked.
    """

    def __init__(self, quantities: Sequence[Quantity], others: Sequence[Quantity] = ()) -> None:
        self.responses = 0
        self.others = [quantity.name for quantity in others]
        self._quantities = {quantity.name: quantity for quantity in (*quantities, *others)}
        self._values = {name: array("d") for name in self._quantities}

    def add(self, response: HeatmapResponse) -> None:
        """Take in a response's token values."""
        self.responses += 1
        for lacking in set(self.others).difference(response.values):
            self.others.remove(lacking)
            del self._values[lacking]
        for name, values in self._values.items():
            values.extend([value for value in response.values[name] if value is not None])

    def has_values(self, name: str) -> bool:
        """Return whether any token had a value of a quantity."""
        return len(self._values[name]) > 0

    def scale(self, name: str, low: float | None = None, high: float | None = None) -> Scale:
        """Return the scale of one quantity over everything that was added.

        It runs from the most certain token to the one of rank ⌊0.99 · (N − 1)⌋ of N, counted from the most certain as
        0. Given ends replace these; the lowest value is the uncertain end for a confidence.
        """
        quantity, values = self._quantities[name], self._values[name]
        if not values:
            raise TokurError(f'no token has a value for "{name}"; there is nothing to paint')
        beyond = len(values) - math.floor(HIGH_QUANTILE * (len(values) - 1))  # those from the uncertain end on
        is_uncertainty = quantity.orientation == "uncertainty"
        ends = ["lowest value", "99th percentile"] if is_uncertainty else ["1st percentile", "highest value"]
        if low is not None:
            ends[0] = f"{low:g}"
        else:
            low = min(values) if is_uncertainty else heapq.nsmallest(beyond, values)[-1]
        if high is not None:
            ends[1] = f"{high:g}"
        else:
            high = heapq.nlargest(beyond, values)[-1] if is_uncertainty else max(values)
        if low > high:
            raise UsageError(f"--range: the scale of {name} would run from {low:g} to {high:g}")
        origin = f"{ends[0]} to {ends[1]} of {count_of(len(values), 'token')}"
        return Scale(quantity, *((low, high) if is_uncertainty else (high, low)), origin)
