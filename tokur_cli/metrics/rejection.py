"""What is gained by answering only the most confident questions: risk–coverage curve, AURC and PRR.

With records from the most to the least confident, the risk at k is r_k = (1/k) Σ_{i≤k} (1 − y_i). Sources: Geifman &
El-Yaniv 2017 (AURC), Malinin & Gales 2021 (prediction-rejection ratio).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tokur_cli.metrics.ranked import Floats, Ranked, RankedSums


class RiskCoverage(NamedTuple):
    """A curve: ``risk[i]`` is the mean error of the most confident part ``coverage[i]`` of the records."""

    coverage: Floats
    risk: Floats


def risk_coverage(confidence: ArrayLike, label: ArrayLike) -> RiskCoverage:
    """Return the risk–coverage curve, one point for each distinct confidence (G points).

    Args:
        confidence: (N,), finite.
        label: (N,), in [0, 1].
    """
    sums = Ranked(np.asarray(confidence, dtype=np.float64), np.asarray(label, dtype=np.float64)).sums()
    return RiskCoverage(sums.total[0] / sums.all[0], 1.0 - sums.precision[0])


def prr_of(sums: RankedSums) -> Floats:
    """Return the prediction-rejection ratio: (A_random − A) / (A_random − A_best) with A the AURC.

    1 is a perfect ranking, 0 a random one; NaN if all labels are the same.
    """
    error = 1.0 - sums.best.all_right / sums.best.all  # A_random
    gap = error - sums.best.area
    return np.divide(error - sums.area, gap, out=np.full_like(gap, np.nan), where=gap > 1e-12)
