"""One colour scale for all responses: its ends from a stream of token values, and the step a value falls in."""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.quantity import Quantity
from tokur_cli.views.heatmap.colours import STEPS, Palette
from tokur_cli.views.heatmap.response import HeatmapResponse

HIGH_QUANTILE = 0.99


@dataclass(frozen=True, slots=True)
class Scale:
    """A colour scale of eight equal steps between two values of a quantity.

    Args:
        quantity: what is painted.
        sure: the value at the sure end.
        unsure: the value at the unsure end.
        origin: in words, where the ends come from.
        palette: the colours of the steps.
    """

    quantity: Quantity
    sure: float
    unsure: float
    origin: str
    palette: Palette = "cividis"

    @property
    def edges(self) -> list[float]:
        """The nine values that bound the steps, from the sure end to the unsure one."""
        inner = (self.sure + (self.unsure - self.sure) * step / STEPS for step in range(1, STEPS))
        return [self.sure, *inner, self.unsure]

    @property
    def decimals(self) -> int:
        """How many decimals tell values on the scale apart: two figures of a step's length, and at least two."""
        length = (abs(self.unsure - self.sure) or abs(self.unsure)) / STEPS
        return max(2, 1 - math.floor(math.log10(length))) if length > 0 else 2

    def step(self, value: float) -> int:
        """Return the step of a value, 0 (sure) to 7 (unsure); values beyond an end fall in the step at that end."""
        distance, length = self.quantity.doubt(value - self.sure), self.quantity.doubt(self.unsure - self.sure)
        if distance <= 0:
            return 0
        if distance >= length:
            return STEPS - 1
        return min(STEPS - 1, int(STEPS * distance / length))

    def clipped(self, value: float) -> int:
        """Return 1 for a value beyond the unsure end, −1 for one beyond the sure end, 0 for one on the scale."""
        if self.quantity.doubt(value) > self.quantity.doubt(self.unsure):
            return 1
        return -1 if self.quantity.doubt(value) < self.quantity.doubt(self.sure) else 0

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
            values.extend(value for value in response.values[name] if value is not None)

    def has_values(self, name: str) -> bool:
        """Return whether any token had a value of a quantity."""
        return len(self._values[name]) > 0

    def scale(self, name: str, vmin: float | None = None, vmax: float | None = None) -> Scale:
        """Return the scale of one quantity over everything that was added.

        It runs from the surest token to the one of rank ⌊0.99 · (N − 1)⌋ of N, counted from the surest as 0; given ends
        replace these.

        Args:
            name: the quantity's name.
            vmin: the lowest value on the scale, which is its unsure end for a confidence.
            vmax: the highest value on the scale.
        """
        quantity, values = self._quantities[name], self._values[name]
        if not values:
            raise TokurError(f'no token has a value for "{name}"; there is nothing to paint')
        less_sure = len(values) - math.floor(HIGH_QUANTILE * (len(values) - 1))  # those from the unsure end on
        is_uncertainty = quantity.orientation == "uncertainty"
        if is_uncertainty:
            low, high = min(values), heapq.nlargest(less_sure, values)[-1]
        else:
            low, high = heapq.nsmallest(less_sure, values)[-1], max(values)
        low, high = low if vmin is None else vmin, high if vmax is None else vmax
        given = [f"{option} {value:g}" for option, value in (("--vmin", vmin), ("--vmax", vmax)) if value is not None]
        if low > high or (low == high and len(given) == 2):
            raise UsageError(f"the scale of {name} would run from {low:g} to {high:g}: --vmin must lie below --vmax")
        tokens = f"{len(values):,} token{'s' if len(values) != 1 else ''}"
        ends = f"quantiles 0 to {HIGH_QUANTILE:g} of {tokens}" if len(given) < 2 else tokens
        sure, unsure = (low, high) if is_uncertainty else (high, low)
        return Scale(quantity, sure, unsure, " · ".join([ends, *given]))
