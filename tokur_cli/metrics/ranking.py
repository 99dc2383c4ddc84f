"""How well a confidence ranks right above wrong: AUROC, AUPRC and the accuracy of the most confident half.

Definitions: the paper's appendix on evaluation metrics. Labels must be 0 or 1 for the first two. Each ``*_of`` takes
the ``RankedSums`` of R resamples and gives (R,) values, NaN where a resample has one class only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tokur_cli.metrics.ranked import Floats, Ranked, RankedSums


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
    wrong = sums.group_total - sums.group_right
    area = np.einsum("rg,rg->r", wrong, sums.right - 0.5 * sums.group_right)
    return _ratio(area, sums.all_right * (sums.all - sums.all_right))


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
