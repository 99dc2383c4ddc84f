"""Weights of the responses that are kept, for weighted Best-of-N.

The paper says only that WBoN weighs candidates "according to their scores". With c₁ ≥ … ≥ c_K the confidences of the
kept responses (the score, negated where it is an uncertainty):

- ``exp``: e^(c − c₁), the likelihood relative to the best response's. It is defined for every score and changes with no
  constant added to it; for ``ll`` it is the likelihood itself. The default, because it fits the paper's table: with
  scores per token the weights of the top 10 % are nearly equal, with summed ones the best response decides alone.
- ``rank``: K for the best response, K − 1 for the next, … 1 for the last; equals share the mean of their ranks. The
  Borda count of Kang et al. 2025 (Self-Certainty) with exponent 1.

Neither rises as confidence falls, so up to two kept responses choose as Maj@N does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Literal

Weight = Literal["exp", "rank"]


def weigh(confidences: Sequence[float], how: Weight) -> list[float]:
    """Return the weights of the kept responses, of which the finite confidences are given, the highest first."""
    if how == "exp":
        return [math.exp(confidence - confidences[0]) for confidence in confidences]
    weights: list[float] = []
    for _, group in groupby(confidences):
        size = len(list(group))
        weights += [len(confidences) - len(weights) - (size - 1) / 2] * size
    return weights
