"""One colour scale for all responses: its ends from a stream of token values, and the step a value falls in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.records.quantity import Quantity
from tokur_cli.views.heatmap.colours import STEPS, Palette
from tokur_cli.views.heatmap.response import HeatmapResponse

HIGH_QUANTILE = 0.99


class QuantileSketch:
    """Quantiles of a stream of numbers in bounded memory, the same in whatever order they come.

    Numbers are counted in bins whose edges grow by γ = (1 + a) / (1 − a), so a quantile is off by at most a = 0.5 % of
    its value; the smallest and the largest number are exact. Magnitudes below 1e-9 count as zero and those above 1e9 as
    1e9, which bounds the sketch to about 8,300 bins.

    Source:
        Masson, Rim & Lee 2019, "DDSketch".
    """

    ACCURACY = 0.005
    _SMALLEST, _LARGEST = 1e-9, 1e9

    def __init__(self) -> None:
        self.count = 0
        self.minimum = math.inf
        self.maximum = -math.inf
        self._log_gamma = math.log((1 + self.ACCURACY) / (1 - self.ACCURACY))
        self._bins: dict[tuple[int, int], int] = {}

    def add(self, value: float) -> None:
        """Count one finite number."""
        self.count += 1
        self.minimum = min(self.minimum, value)
        self.maximum = max(self.maximum, value)
        size = min(abs(value), self._LARGEST)
        if size < self._SMALLEST:
            key = (0, 0)
        elif value > 0:
            key = (1, math.ceil(math.log(size) / self._log_gamma))
        else:
            key = (-1, -math.ceil(math.log(size) / self._log_gamma))
        self._bins[key] = self._bins.get(key, 0) + 1

    def quantile(self, share: float) -> float:
        """Return the number below which a share of the stream lies (the one of rank ⌊share · (count − 1)⌋).

        Args:
            share: from 0 to 1.

        Raises:
            ValueError: nothing was counted.
        """
        if not self.count:
            raise ValueError("no quantile of nothing")
        rank = math.floor(share * (self.count - 1))
        if rank in (0, self.count - 1):
            return self.maximum if rank else self.minimum
        seen = 0
        for sign, index in sorted(self._bins):
            seen += self._bins[sign, index]
            if seen > rank:
                break
        # 2γ^i / (γ + 1) is equally far, in proportion, from both edges of the bin.
        middle = sign * math.exp(sign * index * self._log_gamma) * 2 / (math.exp(self._log_gamma) + 1)
        return min(max(middle, self.minimum), self.maximum)


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

    Args:
        quantities: what will be painted.
        others: quantities that are given up when a response lacks them.

    Attributes:
        responses: how many were added.
        others: the names of those that no response has lacked.
    """

    def __init__(self, quantities: Sequence[Quantity], others: Sequence[Quantity] = ()) -> None:
        self.responses = 0
        self.others = [quantity.name for quantity in others]
        self._quantities = {quantity.name: quantity for quantity in (*quantities, *others)}
        self._sketches = {name: QuantileSketch() for name in self._quantities}

    def add(self, response: HeatmapResponse) -> None:
        """Count a response's token values.

        Raises:
            RecordError: the response lacks one of the quantities.
        """
        self.responses += 1
        for lacking in set(self.others).difference(response.values):
            self.others.remove(lacking)
            del self._quantities[lacking]
        for name, quantity in self._quantities.items():
            add = self._sketches[name].add
            for value in response.token_values(name):
                if value is not None:
                    add(quantity.doubt(value))

    def has_values(self, name: str) -> bool:
        """Return whether any token had a value of a quantity."""
        return self._sketches[name].count > 0

    def scale(self, name: str, vmin: float | None = None, vmax: float | None = None) -> Scale:
        """Return the scale of one quantity over everything that was added.

        It runs from the surest token to the value that 99 % of the tokens are as sure as; given ends replace these.

        Args:
            name: the quantity's name.
            vmin: the lowest value on the scale, which is its unsure end for a confidence.
            vmax: the highest value on the scale.

        Raises:
            TokurError: no token had a value.
            UsageError: vmin is not below vmax.
        """
        quantity, sketch = self._quantities[name], self._sketches[name]
        if not self.has_values(name):
            raise TokurError(f'no token has a value for "{name}"; there is nothing to paint')
        sure = quantity.doubt(sketch.quantile(0))
        unsure = quantity.doubt(sketch.quantile(HIGH_QUANTILE))
        given_sure, given_unsure = (vmin, vmax) if quantity.orientation == "uncertainty" else (vmax, vmin)
        sure = sure if given_sure is None else given_sure
        unsure = unsure if given_unsure is None else given_unsure
        low, high = (sure, unsure) if quantity.orientation == "uncertainty" else (unsure, sure)
        given = [f"{option} {value:g}" for option, value in (("--vmin", vmin), ("--vmax", vmax)) if value is not None]
        if low > high or (low == high and len(given) == 2):
            raise UsageError(f"the scale of {name} would run from {low:g} to {high:g}: --vmin must lie below --vmax")
        tokens = f"{sketch.count:,} token{'s' if sketch.count != 1 else ''}"
        ends = f"quantiles 0 to {HIGH_QUANTILE:g} of {tokens}" if len(given) < 2 else f"{tokens}"
        return Scale(quantity, sure, unsure, " · ".join([ends, *given]))
