"""A figure of one run with its interval, or of several runs as mean ± standard deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tokur_cli.metrics.ranking import Floats


class Estimate(NamedTuple):
    """A metric, or how far it is above the same metric of the baseline."""

    value: float | None  # of one run, or the mean of several; None where it is not defined
    low: float | None = None  # lower end of the 95 % interval
    high: float | None = None  # upper end
    p: float | None = None  # two-sided p-value of no difference, from the paired bootstrap
    std: float | None = None  # sample standard deviation (n − 1) of several values
    values: tuple[float, ...] = ()  # those that the mean is of; empty for one run
    reason: str | None = None  # why it is not defined

    @classmethod
    def resampled(cls, values: Floats, *, is_difference: bool = False, reason: str | None = None) -> Estimate:
        """Return the first of (1 + R,) values with the percentile interval of the others, and the p of a difference.

        Where it is NaN, it is not defined, for a reason; NaN is left out of the others. p is twice the smaller fraction
        of resampled differences on either side of 0, in [2/(R + 1), 1].
        """
        value, known = float(values[0]), values[1:][np.isfinite(values[1:])]
        if math.isnan(value):
            return cls(None, reason=reason)
        if not len(known):
            return cls(value)
        low, high = map(float, np.quantile(known, [0.025, 0.975]))
        fewer = min((known <= 0).sum(), (known >= 0).sum())
        return cls(value, low, high, float(min(1.0, 2 * (fewer + 1) / (len(known) + 1))) if is_difference else None)

    @classmethod
    def mean(cls, values: Sequence[float]) -> Estimate:
        """Return the mean of values, with their standard deviation if there are several; undefined for none."""
        if not values:
            return cls(None)
        differ = min(values) < max(values)  # of equal ones rounding in the mean must not show
        std = float(np.std(values, ddof=1)) * differ if len(values) > 1 else None
        return cls(float(np.mean(values)), std=std, values=tuple(values))

    @property
    def verdict(self) -> str | None:
        """What a difference says where higher is better, by whether its interval holds 0; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return "better than" if self.low > 0 else "worse than" if self.high < 0 else "no clear difference from"

    def as_json(self) -> dict[str, Any]:
        """Return what is known, by name."""
        return {name: value for name, value in self._asdict().items() if name == "value" or value not in (None, ())}


def over_runs(runs: Sequence[Any]) -> Any:
    """Return the only run's figures, or what several runs give together.

    Estimates become the mean over the runs in which they are defined, counts are summed, a flag holds where it holds in
    all, and what is said in words of a single run is not said of several.

    Args:
        runs: all of one kind: an estimate, a count, a flag, words, or a mapping or named tuple of these; a key that
            some runs lack is of the others.
    """
    return runs[0] if len(runs) == 1 else _over_several(runs)


def _over_several(runs: Sequence[Any]) -> Any:
    first = runs[0]  # which may be the only one that has it, and no interval of one run stands among means over several
    if isinstance(first, Estimate):
        known = [run.value for run in runs if run.value is not None]
        return Estimate.mean(known) if known else first
    if isinstance(first, bool):
        return all(runs)
    if isinstance(first, int):
        return sum(runs)
    if isinstance(first, Mapping):
        names = dict.fromkeys(name for run in runs for name in run)
        return {name: _over_several([run[name] for run in runs if name in run]) for name in names}
    if first is None or isinstance(first, str):
        return None
    return first._replace(**_over_several([run._asdict() for run in runs]))
