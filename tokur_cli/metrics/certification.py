"""A threshold with a guarantee: at most a part α of the answers given is wrong, with probability 1 − δ over the labels.

N questions with labels and one response each are drawn independently from where new ones will come from. They are put
in order, the most confident first, equal ones by tie-breaks, independent of everything else, that new questions have,
too; so a threshold is a pair of confidence and tie-break. For a size k, the k most confident responses are those above
the place x_k of the next one (above nothing, for k = N). To answer above x_k has the risk R(x_k): the part of all
questions to come that are above it and are answered incorrectly.

**One size.** Given x_k, the k responses above it are independent draws from all that are above it, so that their errors
are binomial with R(x_k). Where R(x_k) > α, at most c errors, with P(Bin(k, α) ≤ c) ≤ δ, come out with probability δ or
less: "R(x_k) > α" is rejected then (Clopper & Pearson 1934).

**Several sizes, fixed before any label or score is seen, the smallest first.** As long as each is rejected, the next is
tested; the last that is rejected is certified. The hypotheses are about places that are random themselves, so why this
costs nothing has to be shown. Let x run over all places as the part of the questions above it, from 0 to 1; W(x) those
above x that are answered incorrectly, as a part of all, so that R(x) = W(x)/x; D(x) = W(x) − αx, continuous, as tie-
breaks leave no ties. D is positive on intervals that begin and end at zeros of D (the last may end at x = 1), so on
each of them but the last, and on each of the gaps between them, a response is wrong with probability α in the mean. Let
k be the first size tested with D(x_k) > 0. Fix its place x, in an interval that begins at a, and how many responses
there are in every interval and gap before a: this decides whether k is the first. Within each, responses are still
drawn independently, and wrong with probability α; those between a and x are wrong with probability α + D(x)/(x − a) >
α. So there are at least as many errors among the k as Bin(k, α) has, and k is rejected with probability δ or less. No
size after it is reached otherwise.

**Several sequences** share δ in equal parts. The first begins at the smallest size that can be certified without an
error, each other one at 4 times the beginning of the one before, for a single error among the surest responses ends a
sequence that begins with few. Up to 4 times the smallest size there is one, with all of δ. A sequence goes on at those
sizes at which one error more is allowed, and ends with all N.

Sources: Angelopoulos et al. 2021 (Learn then Test: fixed-sequence testing from several starts), Geifman & El-Yaniv 2017
(selective risk).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

GROWTH = 4
"""How many times the beginning of a sequence the next one begins at."""


class Certified(NamedTuple):
    """What is certified."""

    size: int  # how many of the labelled responses are above the threshold
    errors: int  # how many of these are wrong
    # The place of the response whose confidence and tie-break are the threshold; None where all are above it
    next: int | None
    bound: float  # the upper end of the Clopper–Pearson interval of their risk, at the level at which it was tested


def certify(
    confidence: ArrayLike, tie_break: ArrayLike, wrong: ArrayLike, alpha: float, delta: float
) -> Certified | None:
    """Return the threshold with the largest coverage that is certified; None where none is.

    Args:
        confidence: (N,), finite.
        tie_break: (N,), independent and uniform in [0, 1); of equal confidences the higher one comes first.
        wrong: (N,) whether each response is.
        alpha: α, the share of the answers given that may be wrong, in (0, 1).
        delta: δ, the probability that this fails, in (0, 1).
    """
    order = np.lexsort((-np.asarray(tie_break, dtype=np.float64), -np.asarray(confidence, dtype=np.float64)))
    errors = np.cumsum(np.asarray(wrong, dtype=bool)[order])
    tests = sequences(len(order), alpha, delta)
    passed = [sizes[np.logical_and.accumulate(errors[sizes - 1] <= allowed)] for sizes, allowed in tests]
    size = max((int(sizes[-1]) for sizes in passed if len(sizes)), default=0)
    if not size:
        return None
    count, after = int(errors[size - 1]), int(order[size]) if size < len(order) else None
    return Certified(size, count, after, upper_bound(count, size, delta / len(tests)))


@lru_cache(maxsize=16)
def sequences(count: int, alpha: float, delta: float) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return the sequences of tests of ``count`` responses, which share δ; none where too few can be certified.

    Of each: how many of the most confident responses each test is of, ascending; how many errors it allows.
    """
    from scipy.stats import nbinom

    starts = 0
    while fewest(alpha, delta / (starts + 1)) * GROWTH**starts <= count:
        starts += 1
    if not starts:
        return []
    # The smallest size that allows c errors, P(Bin(k, α) ≤ c) ≤ its level: so surely c + 1 of k responses are wrong
    allowed = np.arange(math.floor(count * alpha) + 1)
    sizes = nbinom.isf(delta / starts, allowed + 1, alpha) + allowed + 1
    sizes = sizes[sizes <= count].astype(np.intp)
    allowed = allowed[: len(sizes)]
    if sizes[-1] < count:
        sizes, allowed = np.append(sizes, count), np.append(allowed, allowed[-1])
    begins = np.searchsorted(sizes, sizes[0] * GROWTH ** np.arange(starts))
    return [(sizes[begin:], allowed[begin:]) for begin in begins]


def fewest(risk: float, level: float) -> int:
    """Return how many responses without an error have a risk above ``risk`` rejected: (1 − α)^k ≤ level."""
    return math.ceil(math.log(level) / math.log1p(-risk))


def upper_bound(errors: int, size: int, level: float) -> float:
    """Return the upper Clopper–Pearson bound of a risk: under it so few errors have the probability ``level``."""
    from scipy.special import betaincinv

    return float(betaincinv(errors + 1, size - errors, 1 - level)) if errors < size else 1.0
