"""How well a confidence ranks correct above incorrect, under many sets of record weights.

Ties are groups of equal confidence: every metric is its expectation over the orders within them, so none depends on the
order of the records. Labels must be 0 or 1 for AUROC and AUPRC. Definitions: the paper's appendix on metrics; the area
under the risk–coverage curve: Geifman & El-Yaniv 2017; the prediction-rejection ratio: Malinin & Gales 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

LENGTH_STRATA = 5
"""Fifths: few enough to leave pairs, as many as stratified means are commonly taken over (Cochran 1968)."""
_CHUNK_NUMBERS = 2_000_000


@dataclass
class Sums:
    """Sums over the G groups of equal confidence, the most confident first, under R sets of weights.

    Attributes:
        size: (R, G) weight of each group.
        right: (R, G) the same, weighted with the label.
        perfect: the sums over the groups of equal labels, the highest first.
        strata: the sums over the records of each stratum of the lengths.
        total: (R, G) weight down to and with each group.
        correct: (R, G) the same, weighted with the label.
    """

    size: Floats
    right: Floats
    perfect: Sums | None = None
    strata: Sequence[Sums] = ()

    def __post_init__(self) -> None:
        self.total, self.correct = self.size.cumsum(axis=1), self.right.cumsum(axis=1)


def ranking(
    confidence: Floats, label: Floats, stratum: Indices | None = None, most_groups: int | None = None
) -> Callable[[Floats], Sums]:
    """Rank records by their confidence, and return what gives the sums under (R, N) weights of them.

    Args:
        confidence: (N,), higher is better, NaN for a record that is left out.
        label: (N,), in [0, 1].
        stratum: (N,) number of each record's stratum, -1 for none; None for no strata.
        most_groups: neighbours are merged into this many groups of about equal size, where there are more.
    """
    from scipy.sparse import csr_array, hstack

    held = np.isfinite(confidence)
    orders = [(confidence, held), (label, held)]
    if stratum is not None:
        orders += [(confidence, held & (stratum == number)) for number in range(LENGTH_STRATA)]
    tables: list[Any] = []  # (N, G) each: of each order the records in the groups, and their labels
    for values, chosen in orders:
        rows = np.flatnonzero(chosen)
        found, group, count = np.unique(-values[rows], return_inverse=True, return_counts=True)
        if most_groups is not None and len(found) > most_groups:
            merged = (count.cumsum() - count) * most_groups // len(rows)
            group = np.unique(merged, return_inverse=True)[1][group]
        shape = (len(label), int(group.max(initial=-1)) + 1)
        tables += [csr_array((of, (rows, group)), shape=shape) for of in (np.ones(len(rows)), label[rows])]
    table, ends = hstack(tables, format="csr"), np.cumsum([one.shape[1] for one in tables])[:-1]

    def sums(weight: Floats) -> Sums:
        size, right, *others = map(np.ascontiguousarray, np.split(weight @ table, ends, axis=1))
        perfect, *strata = (Sums(*pair) for pair in zip(others[::2], others[1::2], strict=True))
        return Sums(size, right, perfect, strata)

    return sums


def pairs_won(sums: Sums) -> Floats:
    """Return (2, R): pairs of a correct and an incorrect record in order, ties half, and all such pairs."""
    wrong = sums.size - sums.right
    won = np.einsum("rg,rg->r", wrong, sums.correct - 0.5 * sums.right)
    return np.stack((won, sums.right.sum(axis=1) * wrong.sum(axis=1)))


def auroc_of(sums: Sums) -> Floats:
    """Return AUROC: P(c⁺ > c⁻) + ½ P(c⁺ = c⁻) of a correct and an incorrect record; NaN for equal labels."""
    return ratio(*pairs_won(sums))


def auroc_at_length_of(sums: Sums) -> Floats:
    """Return the same of the pairs within the strata, Σ_s U_s / Σ_s m_s n_s; NaN without a pair."""
    return ratio(*sum(map(pairs_won, sums.strata), start=np.zeros((2, len(sums.size)))))


def auprc_of(sums: Sums) -> Floats:
    """Return average precision Σ_k (R_k − R_{k−1}) P_k over the distinct confidences k, where correct is positive."""
    precision = ratio(sums.correct, sums.total, 0.0)
    return ratio(np.einsum("rg,rg->r", sums.right, precision), sums.right.sum(axis=1))


def acc_of(sums: Sums, fraction: float = 0.5) -> Floats:
    """Return ACC*, the mean label of the ⌈fraction · N⌉ most confident records."""
    kept = np.ceil(fraction * sums.total[:, -1:] - 1e-9)  # (R, 1); 0.1 · 30 is 3.0000000000000004 in floating point
    within = np.clip(kept - (sums.total - sums.size), 0, sums.size)  # of each group
    return ratio((within * ratio(sums.right, sums.size, 0.0)).sum(axis=1), kept[:, 0])


def aurc_of(sums: Sums) -> Floats:
    """Return (1/N) Σ_k r_k with r_k = (1/k) Σ_{i≤k} (1 − y_i), the risk at k; weights are counts.

    A group of g tied records after the first a, with mean label m and C correct before it, adds to Σ_k (1 − r_k)
    Σ_{k=a+1}^{a+g} (C + (k − a) m)/k = g m + (C − a m)(H_{a+g} − H_a), with H the harmonic numbers.
    """
    total = sums.total
    harmonic = np.concatenate(([0.0], np.cumsum(1 / np.arange(1, total[:, -1].max() + 1))))
    steps = np.diff(harmonic[total.astype(np.intp)], axis=1, prepend=0)
    before = sums.correct - sums.right - (total - sums.size) * ratio(sums.right, sums.size, 0.0)
    return 1 - ratio(sums.right.sum(axis=1) + np.einsum("rg,rg->r", before, steps), total[:, -1])


def prr_of(sums: Sums) -> Floats:
    """Return the prediction-rejection ratio (A_random − A) / (A_random − A_best), A the AURC; NaN for equal labels."""
    assert sums.perfect is not None
    random = 1 - ratio(sums.correct[:, -1], sums.total[:, -1])
    return ratio(random - aurc_of(sums), random - aurc_of(sums.perfect))


def ranked(confidence: ArrayLike, label: ArrayLike) -> Sums:
    """Return the sums of (N,) records, each once."""
    values, labels = np.asarray(confidence, dtype=np.float64), np.asarray(label, dtype=np.float64)
    return ranking(values, labels)(np.ones((1, len(labels))))


def auroc(confidence: ArrayLike, label: ArrayLike) -> float:
    """Return AUROC of (N,) finite confidences and labels 0 or 1; NaN if all labels are the same."""
    return float(auroc_of(ranked(confidence, label))[0])


def within(label: Floats, confidence: Floats) -> float:
    """Return the share of a response's pairs of a correct and an incorrect span whose incorrect one is less confident.

    To compare the spans of one response alone leaves out what differs between responses, such as how hard their
    questions are. A span without a confidence is in no pair.

    Args:
        label: (S,), 1 for correct, 0 for incorrect, NaN for not known; in the order of the text.
        confidence: (S,), NaN where a span has none.

    Returns:
        A number in [0, 1], equal ones counted half; NaN where there is no such pair.
    """
    known = np.isfinite(confidence)
    wrong, right = confidence[(label == 0) & known][:, None], confidence[(label == 1) & known]
    below = (wrong < right) + 0.5 * (wrong == right)
    return float(below.mean()) if below.size else math.nan


def hit(label: Floats, confidence: Floats, most: int) -> float:
    """Return whether the first incorrect span is among the ``most`` least confident ones, in expectation over ties.

    Takes what ``within`` takes; a span without a confidence comes last. NaN of one span, or without an incorrect one.
    """
    wrong = label == 0
    if not wrong.any() or len(label) < 2:
        return math.nan
    first = confidence[wrong.argmax()]
    before, even = (confidence < first).sum(), (confidence == first).sum()  # with itself, unless it has no confidence
    return float(np.clip((most - before) / even, 0, 1)) if even else 0.0


def length_strata(length: Floats) -> Indices:
    """Return (N,) the stratum of each record, from 0 for the shortest on: strata of about equal size.

    Records of one length are in one stratum.

    Args:
        length: (N,), NaN where it is not known: such a record is in no stratum, -1.
    """
    known = np.isfinite(length)
    shares = np.arange(1, LENGTH_STRATA) / LENGTH_STRATA
    bounds = np.quantile(length[known], shares, method="inverted_cdf") if known.any() else ()
    return np.where(known, np.searchsorted(bounds, length), -1)


def draws(cluster: NDArray[np.generic], resamples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each resample draws each of N records, whole clusters at a time: (R', N) a chunk, R in all."""
    generator = np.random.default_rng(seed)
    number = np.unique(cluster, return_inverse=True)[1]
    units, rows = int(number.max()) + 1, max(1, min(resamples, _CHUNK_NUMBERS // len(number)))
    for start in range(0, resamples, rows):
        drawn = generator.integers(0, units, (min(rows, resamples - start), units), dtype=np.int32)
        yield np.array([np.bincount(row, minlength=units)[number] for row in drawn], dtype=np.float64)


def ratio(top: Floats, bottom: Floats, otherwise: float = np.nan) -> Floats:
    """Return top / bottom, ``otherwise`` where nothing is below."""
    return np.divide(top, bottom, out=np.full_like(top, otherwise), where=bottom > 1e-12)
