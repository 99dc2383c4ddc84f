"""Whether two sets of numbers come from one distribution: the two-sample test of Kolmogorov and Smirnov."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


def kolmogorov_smirnov(first: ArrayLike, second: ArrayLike) -> tuple[float, float]:
    """Return the largest difference of two samples' distribution functions, and its p-value if they had one in common.

    p = 2 Σ_j (−1)^(j−1) e^(−2 j² λ²) with λ = D √(n m/(n + m)), as for large samples. Ties make it too large.

    Args:
        first: (n,), n ≥ 1.
        second: (m,), m ≥ 1.
    """
    first, second = np.sort(np.asarray(first, dtype=np.float64)), np.sort(np.asarray(second, dtype=np.float64))
    both = np.concatenate((first, second))
    parts = [np.searchsorted(one, both, side="right") / len(one) for one in (first, second)]
    largest = float(np.abs(parts[0] - parts[1]).max())
    scaled = largest * math.sqrt(len(first) * len(second) / (len(first) + len(second)))
    if scaled < 0.2:  # p rounds to 1, and the sum converges slowly
        return largest, 1.0
    terms = ((-1) ** (j - 1) * math.exp(-2 * (j * scaled) ** 2) for j in range(1, 101))
    return largest, min(1.0, max(0.0, 2 * math.fsum(terms)))
