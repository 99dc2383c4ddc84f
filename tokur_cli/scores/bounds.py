"""What the largest probabilities of a distribution tell of the rest: all that a service's log-probabilities give."""

from __future__ import annotations

import math
from collections.abc import Sequence

TOP = 20
"""Tokens that DeepConf's confidence takes at each place."""

VOCABULARY = 2**19
"""Tokens that a service's vocabulary has at most: twice as many as the largest of today. It counts little: ``high``
grows by r log 2 where it is doubled."""


def entropy_bounds(likeliest: Sequence[float], other: float | None = None) -> tuple[float, float]:
    """Return the lowest and the highest entropy that a distribution may have, by the probabilities known of it.

    With the known probabilities p_i, the mass r = 1 − Σ p_i that is missing, and q, the least of the likeliest, which
    no unknown probability exceeds:

        low  = −Σ p_i log p_i − n q log q − s log s    with n = ⌊r / q⌋ and s = r − n q
        high = −Σ p_i log p_i + r log(m / r)           with m, the number of unknown tokens

    The entropy is concave in the missing part: it is lowest where that stands on as few tokens as can hold it, and
    highest where it is spread evenly over all of them.

    Args:
        likeliest: log p of the likeliest tokens, in nats, in any order; q is 1 where there are none.
        other: log p of one token more, which is none of them.

    Returns:
        The bounds, in nats, up to the rounding of what is known.
    """
    known = [*likeliest, other] if other is not None else list(likeliest)
    entropy = -math.fsum(math.exp(value) * value for value in known)
    most, unknown = math.exp(min(likeliest, default=0.0)), VOCABULARY - len(known)
    rest = min(1 - math.fsum(map(math.exp, known)), most * unknown)  # what the unknown cannot hold is rounding
    if rest <= 0:
        return entropy, entropy
    whole = math.floor(rest / most)
    left = rest - whole * most
    low = -whole * most * math.log(most) - (left * math.log(left) if left > 0 else 0.0)
    return entropy + low, entropy + rest * math.log(unknown / rest)


def confidence(likeliest: Sequence[float]) -> float:
    """Return DeepConf's confidence of a token: −mean of the 20 largest log p, in nats; NaN where fewer are known.

    Args:
        likeliest: log p of the likeliest tokens, largest first.
    """
    return -math.fsum(likeliest[:TOP]) / TOP if len(likeliest) >= TOP else math.nan
