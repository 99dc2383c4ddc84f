r"""Weights of the responses that are kept, for weighted Best-of-N.

The paper says only that WBoN weighs candidates "according to their scores". With c the confidence (the score, negated
where it is an uncertainty), c₁ ≥ … ≥ c_K those of the kept responses, there are:

- ``exp``: e^(c − c₁), the likelihood relative to the best response's. It is defined for every score and changes with no
  constant added to it; for ``ll`` it is the (length-normalised) likelihood itself. The default, because it fits
  the paper's table: with scores per token the weights of the top 10 % are nearly equal, and WBoN is within a tenth of a
  point of Maj@N there. With scores summed over tokens the best response nearly always decides alone.
- ``score``: in proportion to the score, 1 for the best response. For confidences that are never negative
  (``self_certainty``, ``deepconf`` and their kin) that is c / c₁. For scores whose distance from zero is the doubt
  (all uncertainties; ``ll``, ``ll_sum``, ``neg_length`` and ``llm_check_attention``) it is c₁ / c: an uncertainty grows
  like a variance, and estimates are combined with weights of one over theirs. A response with no doubt at all
  outweighs all that have any. Logarithms of a volume or a density (``SIGNED``) are on either side of zero, which means
  nothing there: they have no such weight.
- ``rank``: K for the best response, K − 1 for the next, … 1 for the last; equals share the mean of their ranks. The
  Borda count of Kang et al. 2025 (Self-Certainty) with exponent 1.

All are non-negative and never rise as confidence falls, so up to two kept responses choose as Maj@N does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Literal

Weight = Literal["score", "exp", "rank"]

NEGATIVE_CONFIDENCES = frozenset(("ll", "ll_sum", "neg_length", "llm_check_attention"))
"""Confidences that are never positive: what they lack to zero is doubt."""

SIGNED = frozenset(("llm_check_hidden", "inside", "semantic_entropy", "sar"))
"""Scores on either side of zero: neither they nor their inverse can be a weight."""


def measures_doubt(name: str, orientation: str) -> bool:
    """Return whether a score's distance from zero is doubt, so that its weight is the inverse."""
    return orientation == "uncertainty" or name in NEGATIVE_CONFIDENCES


def weigh(confidences: Sequence[float], how: Weight, *, doubt: bool) -> list[float]:
    """Weigh the kept responses.

    Args:
        confidences: finite, most confident first.
        how: see above.
        doubt: whether the score's distance from zero is doubt, see ``measures_doubt``.

    Returns:
        Weights, none negative.
    """
    if how == "exp":
        return [math.exp(confidence - confidences[0]) for confidence in confidences]
    if how == "rank":
        return _borda(confidences)
    if doubt:
        doubts = [max(-confidence, 0.0) for confidence in confidences]
        return [_ratio(doubts[0], each) for each in doubts]
    return [_ratio(max(confidence, 0.0), max(confidences[0], 0.0)) for confidence in confidences]


def _ratio(lower: float, upper: float) -> float:
    """Return ``lower / upper``, and 1 for two zeros: they are even."""
    return 1.0 if lower == upper else lower / upper


def _borda(confidences: Sequence[float]) -> list[float]:
    weights: list[float] = []
    for _, group in groupby(confidences):
        size = len(list(group))
        best = len(confidences) - len(weights)
        weights += [best - (size - 1) / 2] * size
    return weights
