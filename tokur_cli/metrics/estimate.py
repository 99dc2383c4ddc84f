"""A figure of one run with its interval, or of several runs as mean ± standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tokur_cli.metrics.ranking import Floats

Verdict = Literal["better than", "worse than", "no clear difference from"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric, or how far it is above the same metric of the baseline.

    Attributes:
        value: of one run, or the mean of several; None where it is not defined.
        low: lower end of the 95 % interval.
        high: upper end.
        p: two-sided p-value of no difference, from the paired bootstrap.
        std: sample standard deviation (n − 1) of several values.
        values: those that the mean is of; empty for one run.
        reason: why it is not defined.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    std: float | None = None
    values: tuple[float, ...] = ()
    reason: str | None = None

    @classmethod
    def resampled(cls, value: float, drawn: Floats, *, is_difference: bool = False) -> Estimate:
        """Return a value with its interval from resampled ones (R,), and a difference with its p-value, too."""
        if not np.isfinite(drawn).any():
            return cls(value)
        return cls(value, *interval(drawn), two_sided_p(drawn) if is_difference else None)

    @classmethod
    def mean(cls, values: Sequence[float]) -> Estimate:
        """Return the mean of values, with their standard deviation if there are several; undefined for none."""
        if not values:
            return cls(None)
        std = float(np.std(values, ddof=1)) if len(values) > 1 else None
        if min(values) == max(values) and std is not None:
            std = 0.0  # rounding in the mean must not show
        return cls(float(np.mean(values)), std=std, values=tuple(values))

    @classmethod
    def over_runs(cls, runs: Sequence[Estimate]) -> Estimate:
        """Return the only run's estimate, or the mean over the runs in which it is defined."""
        if len(runs) == 1:
            return runs[0]
        mean = cls.mean([run.value for run in runs if run.value is not None])
        return mean if mean.values or not runs else cls(None, reason=runs[0].reason)

    @property
    def verdict(self) -> Verdict | None:
        """What a difference says where higher is better, by whether its interval holds 0; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return "better than" if self.low > 0 else "worse than" if self.high < 0 else "no clear difference from"

    def as_json(self) -> dict[str, Any]:
        """Return what is known, by name."""
        named = {name: getattr(self, name) for name in ("low", "high", "p", "std", "values", "reason")}
        return {"value": self.value, **{name: value for name, value in named.items() if value not in (None, ())}}


def interval(values: Floats) -> tuple[float, float]:
    """Return the 95 % percentile interval of resampled values (R,): their 0.025 and 0.975 quantiles, NaN left out."""
    low, high = np.nanquantile(values, [0.025, 0.975])
    return float(low), float(high)


def two_sided_p(differences: Floats) -> float:
    """Return the p-value of no difference: twice the smaller part of resampled differences on either side of 0.

    Args:
        differences: (R,), NaN left out.

    Returns:
        A number in [2/(R + 1), 1].
    """
    known = differences[np.isfinite(differences)]
    below, above = (known <= 0).sum(), (known >= 0).sum()
    return float(min(1.0, 2 * (min(below, above) + 1) / (len(known) + 1)))
