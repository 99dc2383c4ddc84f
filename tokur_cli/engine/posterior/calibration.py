"""The largest strength of the perturbation that stays within a tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable

from tokur_cli.records.errors import TokurError

SWEEPS = 9
PRECISION = 1.05  # the smallest strength found too large is at most this many times the one returned
_FARTHEST = 30.0  # how many times the strength changes between two sweeps at most


def largest_sigma(divergence: Callable[[float], float], tolerance: float, *, start: float = 0.1) -> float:
    """Find the largest σ with divergence(σ) ≤ tolerance, in at most 9 evaluations.

    The divergence grows about as σ² for small σ: steps follow that law until the answer is between two strengths,
    then cut the interval where log divergence, a straight line in log σ, meets the tolerance. With the same
    underlying noise at every σ the divergence is a smooth function of it, so that no evaluation is lost on noise.

    Args:
        divergence: of the draws from the mean weights, in nats; NaN and infinity count as too large.
        tolerance: above 0, in nats.
        start: the σ to begin with.

    Returns:
        A strength whose divergence was evaluated and is within the tolerance.

    Raises:
        TokurError: every strength that was tried is too large, or none is.
    """
    inside: tuple[float, float] | None = None  # (σ, divergence)
    outside: tuple[float, float] | None = None
    sigma = start
    for _ in range(SWEEPS):
        value = divergence(sigma)
        if value <= tolerance:
            inside = sigma, value
        else:
            outside = sigma, value
        if inside is not None and outside is not None:
            if outside[0] <= inside[0] * PRECISION:
                break
            sigma = _between(inside, outside, tolerance)
        else:
            sigma *= _step(value, tolerance)
    if inside is None:
        assert outside is not None
        raise TokurError(
            f"even σ = {outside[0]:.3g} moves the model further ({outside[1]:.3g} nats) than the tolerance "
            f"({tolerance:g} nats): allow more with --tolerance"
        )
    if outside is None:
        raise TokurError(
            f"at σ = {inside[0]:.3g} the model still moves less ({inside[1]:.3g} nats) than the tolerance "
            f"({tolerance:g} nats): these projections hardly matter to it; ask for less with --tolerance"
        )
    return inside[0]


def _step(value: float, tolerance: float) -> float:
    """Return the factor for σ while the answer is on one side of all that was tried: a little past where σ² says."""
    if value <= tolerance:
        return min(1.1 * math.sqrt(tolerance / max(value, 1e-12)), _FARTHEST)
    return max(0.9 * math.sqrt(tolerance / value), 1 / _FARTHEST) if math.isfinite(value) else 1 / _FARTHEST


def _between(inside: tuple[float, float], outside: tuple[float, float], tolerance: float) -> float:
    """Return the σ where the log-log line through both meets the tolerance, kept away from the interval's ends."""
    share = 0.5
    if inside[1] > 0 and math.isfinite(outside[1]):
        share = math.log(tolerance / inside[1]) / math.log(outside[1] / inside[1])
    return float(inside[0] * (outside[0] / inside[0]) ** min(max(share, 0.1), 0.9))
