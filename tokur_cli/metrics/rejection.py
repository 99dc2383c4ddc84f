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


def aurc_of(sums: RankedSums) -> Floats:
    """Return the area under the risk–coverage curve, (1/N) Σ_k r_k in expectation over the order of ties.

    A group of g tied records after the first a, with mean error e and E errors before it, adds
    Σ_{k=a+1}^{a+g} (E + (k − a) e)/k = g e + (E − a e)(H_{a+g} − H_a), with H the harmonic numbers. The weights of the
    resamples must be counts.
    """
    most = int(sums.all.max())
    harmonic = np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1, most + 1))))  # (most + 1,)
    size, right = sums.group_total, sums.group_right
    # In terms of right instead of wrong: the curve of the mean label, 1 − r_k, has the same form.
    mean = np.divide(right, size, out=np.zeros_like(size), where=size > 0)
    before_total, before_right = sums.total - size, sums.right - right
    steps = np.diff(harmonic[sums.total.astype(np.intp)], axis=1, prepend=0.0)
    area = right.sum(axis=1) + np.einsum("rg,rg->r", before_right - before_total * mean, steps)
    return np.asarray(1.0 - area / sums.all)


def prr_of(area: Floats, oracle: Floats, error: Floats) -> Floats:
    """Return the prediction-rejection ratio: (A_random − A) / (A_random − A_oracle) with A the AURC.

    1 is a perfect ranking, 0 a random one; NaN if all labels are the same.

    Args:
        area: (R,) AURC of the confidence.
        oracle: (R,) AURC of the labels.
        error: (R,) mean error, which is A_random.
    """
    best = error - oracle
    return np.divide(error - area, best, out=np.full_like(area, np.nan), where=best > 1e-12)
