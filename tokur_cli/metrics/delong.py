"""DeLong's test: do two confidences of the same records have the same AUROC?

Source: DeLong, DeLong & Clarke-Pearson 1988.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tokur_cli.metrics.ranked import Floats


class DeLong(NamedTuple):
    """The difference of two AUROCs (first − second), its standard error and the two-sided p-value of no difference."""

    difference: float
    standard_error: float
    p: float


def delong(first: ArrayLike, second: ArrayLike, label: ArrayLike) -> DeLong:
    """Test whether two confidences of the same records have the same AUROC.

    With the placements V_i = P(c_i > c⁻) + ½ P(c_i = c⁻) of the m right records among the n wrong ones, and the same
    of the wrong ones among the right, the variance of the difference D is var(V¹ − V²)/m + var(V¹ − V²)/n.

    Args:
        first: (N,), finite.
        second: (N,), finite.
        label: (N,), 1 for right and 0 for wrong, at least two of each.

    Returns:
        NaN for the p-value where the standard error is 0, that is where both rank all pairs alike.
    """
    right = np.asarray(label, dtype=np.float64) == 1
    placements = [_placements(np.asarray(confidence, dtype=np.float64), right) for confidence in (first, second)]
    of_right, of_wrong = (one - other for one, other in zip(*placements, strict=True))
    difference = float(of_right.mean())
    error = math.sqrt(of_right.var(ddof=1) / len(of_right) + of_wrong.var(ddof=1) / len(of_wrong))
    p = math.erfc(abs(difference) / error / math.sqrt(2)) if error > 0 else math.nan
    return DeLong(difference, error, p)


def _placements(confidence: Floats, right: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[Floats, Floats]:
    """The part of wrong records below each right one (m,), and of right records above each wrong one (n,)."""
    above, below = np.sort(confidence[right]), np.sort(confidence[~right])
    of_right = _below(below, confidence[right]) / len(below)
    of_wrong = 1.0 - _below(above, confidence[~right]) / len(above)
    return of_right, of_wrong


def _below(ordered: Floats, values: Floats) -> Floats:
    """How many of ``ordered`` lie below each value, ties counted half."""
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2.0
