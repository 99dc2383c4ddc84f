"""How well a confidence ranks right above wrong: AUROC, AUPRC and the accuracy of the most confident half.

AUROC within strata compares only records of one stratum with each other. Strata of the length leave out what a score
owes to long responses being wrong more often: ``length_strata``.

Definitions: the paper's appendix on evaluation metrics. Labels must be 0 or 1 for the first two. Each ``*_of`` takes
the ``RankedSums`` of R resamples and gives (R,) values, NaN where a resample has one class only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.ranked import Floats, Ranked, RankedSums

LENGTH_STRATA = 5
"""Fifths: few enough to leave pairs, as many as stratified means are commonly taken over (Cochran 1968).

On the 172 sample responses they keep a seventh of the pairs, and of the length's own 78 % AUROC they leave 60 %; tenths
keep a fourteenth and leave 54 %. What ``neg_length`` itself has is therefore what to compare another score with.
"""


def auroc(confidence: ArrayLike, label: ArrayLike) -> float:
    """Return the area under the ROC curve: P(c⁺ > c⁻) + ½ P(c⁺ = c⁻) for a right and a wrong record drawn at random.

    Args:
        confidence: (N,), finite.
        label: (N,), 1 for right and 0 for wrong.

    Returns:
        A number in [0, 1]; NaN if all labels are the same.
    """
    ranked = Ranked(np.asarray(confidence, dtype=np.float64), np.asarray(label, dtype=np.float64))
    return float(auroc_of(ranked.sums())[0])


def auroc_of(sums: RankedSums) -> Floats:
    """Return AUROC under each resample, see ``auroc``."""
    return _ratio(*_pairs(sums))


def auroc_within_strata_of(sums: RankedSums) -> Floats:
    """Return, of all pairs of a right and a wrong record of one stratum, the share that is ranked rightly, ties half.

    The pairs of all strata are counted together, Σ_s U_s / Σ_s m_s n_s with U_s the Mann–Whitney statistic of the m_s
    right and the n_s wrong records of stratum s, so that a stratum weighs as much as it has pairs. NaN without a pair.
    """
    pairs = [_pairs(stratum) for stratum in sums.strata]
    if not pairs:
        return np.full(len(sums.all), np.nan)
    won, all_pairs = (np.sum(parts, axis=0) for parts in zip(*pairs, strict=True))
    return _ratio(won, all_pairs)


def length_strata(length: ArrayLike, strata: int = LENGTH_STRATA) -> NDArray[np.intp]:
    """Return (N,) the stratum of each record, from 0 for the shortest on: parts of about equal size by their length.

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
        ends = -(-np.arange(1, strata) * len(ordered) // strata)  # ⌈part · N⌉ records up to each bound
        found[known] = np.searchsorted(ordered[ends - 1], length[known])
    return found


def _pairs(sums: RankedSums) -> tuple[Floats, Floats]:
    """Return how many pairs of a right and a wrong record are ranked rightly, ties half, and how many there are."""
    wrong = sums.group_total - sums.group_right
    won = np.einsum("rg,rg->r", wrong, sums.right - 0.5 * sums.group_right)
    return won, sums.all_right * (sums.all - sums.all_right)


def auprc_of(sums: RankedSums) -> Floats:
    """Return average precision Σ_k (R_k − R_{k−1}) P_k over the distinct confidences k, where right is positive."""
    return _ratio(np.einsum("rg,rg->r", sums.group_right, sums.precision), sums.all_right)


def top_accuracy_of(sums: RankedSums, fraction: float = 0.5) -> Floats:
    """Return ACC*, the mean label of the ⌈fraction · N⌉ most confident records, ``fraction`` in (0, 1].

    Where the cut goes through a group of equal confidence, its members count as its mean: the expectation over all ways
    to break the tie.
    """
    kept = np.ceil(fraction * sums.all - 1e-9)  # (R,); 0.1 · 30 is 3.0000000000000004 in floating point
    cut = (sums.total < kept[:, None]).sum(axis=1)  # the group that the cut goes through
    rows = np.arange(len(cut))
    beyond = sums.total[rows, cut] - kept
    share = _ratio(sums.group_right[rows, cut], sums.group_total[rows, cut])
    return _ratio(sums.right[rows, cut] - beyond * share, kept)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
