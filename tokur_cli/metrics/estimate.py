"""A figure of one run with its interval, or of several runs as mean ± standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


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

    def as_json(self) -> dict[str, Any]:
        """Return what is known, by name."""
        named = {name: getattr(self, name) for name in ("low", "high", "p", "std", "values", "reason")}
        return {"value": self.value, **{name: value for name, value in named.items() if value not in (None, ())}}
