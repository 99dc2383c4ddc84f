"""How well a confidence ranks correct above incorrect, under many sets of record weights, and the bootstrap of it.

Ties are groups of equal confidence: every metric is its expectation over the orders within them, so none depends on the
order of the records. Labels must be 0 or 1 for AUROC and AUPRC. Definitions: the paper's appendix on metrics; the area
under the risk–coverage curve: Geifman & El-Yaniv 2017; the prediction-rejection ratio: Malinin & Gales 2021.

Resamples draw whole questions with replacement. Where a score takes more than ``MOST_GROUPS`` values, neighbours are
merged for the resamples, whose values are shifted by what merging changes in the full set: the width of an interval
changes by less than a thousandth of itself, and 100,000 records cost seconds instead of minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

LENGTH_STRATA = 5
"""Fifths: few enough to leave pairs, as many as stratified means are commonly taken over (Cochran 1968)."""
MOST_GROUPS = 1_024
_CHUNK_NUMBERS = 2_000_000


@dataclass
class Sums:
    """Sums over the G groups of equal confidence, the most confident first, under R sets of weights.

    Attributes:
        size: (R, G) weight of each group.
        right: (R, G) the same, weighted with the label.
        strata: the sums over the records of each stratum of the lengths.
        best: (R,) AURC of the perfect ranking; None where that is not asked for.
        total: (R, G) weight down to and with each group.
        correct: (R, G) the same, weighted with the label.
    """

    size: Floats
    right: Floats
    strata: Sequence[Sums] = ()
    best: Floats | None = None

    def __post_init__(self) -> None:
        self.total, self.correct = self.size.cumsum(axis=1), self.right.cumsum(axis=1)


class Ranking:
    """N records in the order of their confidence.

    Args:
        confidence: (N,), finite, higher is better.
        label: (N,), in [0, 1].
        stratum: (N,) number of each record's stratum, -1 for none; None for no strata.
        most_groups: neighbours are merged into this many groups of about equal size, where there are more.
    """

    def __init__(
        self, confidence: Floats, label: Floats, stratum: Indices | None = None, most_groups: int | None = None
    ) -> None:
        from scipy.sparse import csr_array

        values, group, count = np.unique(-confidence, return_inverse=True, return_counts=True)
        self.is_merged = most_groups is not None and len(values) > most_groups
        if most_groups is not None and self.is_merged:
            merged = (count.cumsum() - count) * most_groups // len(confidence)
            group = np.unique(merged, return_inverse=True)[1][group]
        groups, record = int(group.max(initial=-1)) + 1, np.arange(len(label))
        numbers = np.concatenate((np.ones(len(label)), label))
        cells = (np.concatenate((record, record)), np.concatenate((group, groups + group)))
        self._groups = csr_array((numbers, cells), shape=(len(label), 2 * groups))
        self._strata: list[tuple[Indices, Ranking]] = []
        for number in range(-1 if stratum is None else int(stratum.max(initial=-1)) + 1):
            those = np.flatnonzero(stratum == number)
            self._strata.append((those, Ranking(confidence[those], label[those], most_groups=most_groups)))

    def sums(self, weight: Floats, best: Floats | None = None) -> Sums:
        """Return the sums under (R, N) weights; best: see ``Sums``."""
        size, right = np.split(np.ascontiguousarray(weight @ self._groups), 2, axis=1)
        strata = [ranking.sums(weight[:, those]) for those, ranking in self._strata]
        return Sums(size, right, strata, best)


def pairs_won(sums: Sums) -> Floats:
    """Return (2, R): pairs of a correct and an incorrect record in order, ties half, and all such pairs."""
    wrong = sums.size - sums.right
    won = np.einsum("rg,rg->r", wrong, sums.correct - 0.5 * sums.right)
    return np.stack((won, sums.right.sum(axis=1) * wrong.sum(axis=1)))


def auroc_of(sums: Sums) -> Floats:
    """Return AUROC: P(c⁺ > c⁻) + ½ P(c⁺ = c⁻) of a correct and an incorrect record; NaN for equal labels."""
    return _ratio(*pairs_won(sums))


def auroc_at_length_of(sums: Sums) -> Floats:
    """Return the same of the pairs within the strata, Σ_s U_s / Σ_s m_s n_s; NaN without a pair."""
    return _ratio(*sum(map(pairs_won, sums.strata), start=np.zeros((2, len(sums.size)))))


def auprc_of(sums: Sums) -> Floats:
    """Return average precision Σ_k (R_k − R_{k−1}) P_k over the distinct confidences k, where correct is positive."""
    precision = _ratio(sums.correct, sums.total, 0.0)
    return _ratio(np.einsum("rg,rg->r", sums.right, precision), sums.right.sum(axis=1))


def acc_of(sums: Sums, fraction: float = 0.5) -> Floats:
    """Return ACC*, the mean label of the ⌈fraction · N⌉ most confident records."""
    kept = np.ceil(fraction * sums.total[:, -1:] - 1e-9)  # (R, 1); 0.1 · 30 is 3.0000000000000004 in floating point
    within = np.clip(kept - (sums.total - sums.size), 0, sums.size)  # of each group
    return _ratio((within * _ratio(sums.right, sums.size, 0.0)).sum(axis=1), kept[:, 0])


def aurc_of(sums: Sums) -> Floats:
    """Return (1/N) Σ_k r_k with r_k = (1/k) Σ_{i≤k} (1 − y_i), the risk at k; weights are counts.

    A group of g tied records after the first a, with mean label m and C correct before it, adds to Σ_k (1 − r_k)
    Σ_{k=a+1}^{a+g} (C + (k − a) m)/k = g m + (C − a m)(H_{a+g} − H_a), with H the harmonic numbers.
    """
    total = sums.total
    harmonic = np.concatenate(([0.0], np.cumsum(1 / np.arange(1, total[:, -1].max() + 1))))
    steps = np.diff(harmonic[total.astype(np.intp)], axis=1, prepend=0)
    before = sums.correct - sums.right - (total - sums.size) * _ratio(sums.right, sums.size, 0.0)
    return 1 - _ratio(sums.right.sum(axis=1) + np.einsum("rg,rg->r", before, steps), total[:, -1])


def prr_of(sums: Sums) -> Floats:
    """Return the prediction-rejection ratio (A_random − A) / (A_random − A_best), A the AURC; NaN for equal labels."""
    assert sums.best is not None
    random = 1 - _ratio(sums.right.sum(axis=1), sums.size.sum(axis=1))
    return _ratio(random - aurc_of(sums), random - sums.best)


def ranked(confidence: ArrayLike, label: ArrayLike, stratum: Indices | None = None) -> Sums:
    """Return the sums of (N,) records, each once, with the best area."""
    values, labels = np.asarray(confidence, dtype=np.float64), np.asarray(label, dtype=np.float64)
    ones = np.ones((1, len(labels)))
    return Ranking(values, labels, stratum).sums(ones, aurc_of(Ranking(labels, labels).sums(ones)))


def auroc(confidence: ArrayLike, label: ArrayLike) -> float:
    """Return AUROC of (N,) finite confidences and labels 0 or 1; NaN if all labels are the same."""
    return float(auroc_of(ranked(confidence, label))[0])


def length_strata(length: ArrayLike, strata: int = LENGTH_STRATA) -> Indices:
    """Return (N,) the stratum of each record, from 0 for the shortest on: strata of about equal size.

    Records of one length are in one stratum.

    Args:
        length: (N,), NaN where it is not known: such a record is in no stratum, -1.
        strata: how many.
    """
    length = np.asarray(length, dtype=np.float64)
    known = np.isfinite(length)
    found = np.full(len(length), -1, dtype=np.intp)
    if known.any():
        ordered = np.sort(length[known])
        ends = -(-np.arange(1, strata) * len(ordered) // strata)  # ⌈s · N / strata⌉ records up to each bound
        found[known] = np.searchsorted(ordered[ends - 1], length[known])
    return found


def draws(cluster: NDArray[np.generic], resamples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each resample draws each of N records, whole clusters at a time: (R', N) a chunk, R in all."""
    generator = np.random.default_rng(seed)
    number = np.unique(cluster, return_inverse=True)[1]
    units, rows = int(number.max()) + 1, max(1, min(resamples, _CHUNK_NUMBERS // len(number)))
    for start in range(0, resamples, rows):
        weight = np.empty((min(rows, resamples - start), len(number)))
        for row in weight:
            row[:] = np.bincount(generator.integers(0, units, units, dtype=np.int32), minlength=units)[number]
        yield weight


def resampled(
    confidences: Mapping[str, Floats],
    losses: Mapping[str, Mapping[str, Floats]],
    label: Floats,
    metrics: Mapping[str, Callable[[Sums], Floats]],
    *,
    cluster: NDArray[np.generic],
    stratum: Indices | None = None,
    resamples: int,
    seed: int = 0,
) -> dict[str, dict[str, Floats]]:
    """Return (R,) values of each score's metrics under the same resamples, NaN where one is not defined.

    Args:
        confidences: (N,) for each score, NaN where a record has none.
        losses: for each score by metric (N,) numbers whose mean, NaN left out, is that metric.
        label: (N,), in [0, 1].
        metrics: of the ranking, by name.
        cluster: (N,) the question of each record.
        stratum: see ``Ranking``; it stays the record's in every resample.
        resamples: R.
        seed: of the draws.
    """
    found: dict[str, dict[str, list[Floats]]] = {name: {} for name in confidences}
    held = {name: np.flatnonzero(np.isfinite(confidence)) for name, confidence in confidences.items()}
    prepared = {
        name: _prepared(confidence[held[name]], label[held[name]], stratum, held[name], metrics)
        for name, confidence in confidences.items()
    }
    columns = [(name, metric, loss) for name in confidences for metric, loss in losses.get(name, {}).items()]
    table = np.array([loss for *_, loss in columns]).reshape(-1, len(label)).T  # (N, L)
    known = np.isfinite(table)
    for weight in draws(cluster, resamples, seed):
        best: dict[bytes, Floats] = {}  # scores that are missing in the same records share it
        for name, (ranking, shift) in prepared.items():
            those, key = held[name], held[name].tobytes()
            of = weight if len(those) == len(label) else weight[:, those]
            if key not in best:
                best[key] = aurc_of(Ranking(label[those], label[those], most_groups=MOST_GROUPS).sums(of))
            sums = ranking.sums(of, best[key])
            for metric, compute in metrics.items():
                found[name].setdefault(metric, []).append(compute(sums) + shift[metric])
        means = _ratio(weight @ np.where(known, table, 0), weight @ known.astype(np.float64))
        for column, (name, metric, _) in enumerate(columns):
            found[name].setdefault(metric, []).append(means[:, column])
    return {name: {metric: np.concatenate(values) for metric, values in of.items()} for name, of in found.items()}


def _prepared(
    confidence: Floats,
    label: Floats,
    stratum: Indices | None,
    held: Indices,
    metrics: Mapping[str, Callable[[Sums], Floats]],
) -> tuple[Ranking, dict[str, float]]:
    """Return the ranking, merged where that is needed, and by how much merging changes each metric."""
    strata = None if stratum is None else stratum[held]
    ranking = Ranking(confidence, label, strata, MOST_GROUPS)
    if not ranking.is_merged:
        return ranking, dict.fromkeys(metrics, 0.0)
    exact = ranked(confidence, label, strata)
    merged = ranking.sums(np.ones((1, len(label))), exact.best)
    return ranking, {name: float((compute(exact) - compute(merged))[0]) for name, compute in metrics.items()}


def _ratio(top: Floats, bottom: Floats, otherwise: float = np.nan) -> Floats:
    return np.divide(top, bottom, out=np.full_like(top, otherwise), where=bottom > 1e-12)
