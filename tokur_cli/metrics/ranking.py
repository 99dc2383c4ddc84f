"""How well a confidence ranks right above wrong: AUROC, AUPRC and the accuracy of the most confident half.

Definitions: the paper's appendix on evaluation metrics. Labels must be 0 or 1 for the first two. Each ``*_of`` takes
the ``RankedSums`` of R resamples and gives (R,) values, NaN where a resample has one class only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tokur_cli.metrics.ranked import Floats, Ranked, RankedSums


def auroc(confidence: ArrayLike, label: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Area under the ROC curve: P(c⁺ > c⁻) + ½ P(c⁺ = c⁻) for a right and a wrong record drawn at random.

    Args:
        confidence: (N,), finite.
        label: (N,), 1 for right and 0 for wrong.
        weight: (N,), non-negative; by default 1.

    Returns:
        A number in [0, 1]; NaN if all labels are the same.
    """
    return float(auroc_of(_sums(confidence, label, weight))[0])


def auprc(confidence: ArrayLike, label: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Average precision Σ_k (R_k − R_{k−1}) P_k over the distinct confidences k, right being the positive class.

    Args:
        confidence: (N,), finite.
        label: (N,), 1 for right and 0 for wrong.
        weight: (N,), non-negative; by default 1.

    Returns:
        A number in [0, 1]; NaN if no label is right.
    """
    return float(auprc_of(_sums(confidence, label, weight))[0])


def top_accuracy(confidence: ArrayLike, label: ArrayLike, fraction: float = 0.5) -> float:
    """ACC*: the mean label of the ⌈fraction · N⌉ most confident records.

    Where the cut goes through a group of equal confidence, its members count as its mean: the expectation over all ways
    to break the tie.

    Args:
        confidence: (N,), finite.
        label: (N,), in [0, 1].
        fraction: the part that is kept, in (0, 1].
    """
    return float(top_accuracy_of(_sums(confidence, label, None), fraction)[0])


def auroc_of(sums: RankedSums) -> Floats:
    """AUROC under each resample, see ``auroc``."""
    wrong = sums.group_total - sums.group_right
    area = np.einsum("rg,rg->r", wrong, sums.right - 0.5 * sums.group_right)
    return _ratio(area, sums.all_right * (sums.all - sums.all_right))


def auprc_of(sums: RankedSums) -> Floats:
    """Average precision under each resample, see ``auprc``."""
    return _ratio(np.einsum("rg,rg->r", sums.group_right, sums.precision), sums.all_right)


def top_accuracy_of(sums: RankedSums, fraction: float = 0.5) -> Floats:
    """Accuracy of the most confident part under each resample, see ``top_accuracy``."""
    kept = np.ceil(fraction * sums.all - 1e-9)  # (R,); 0.1 · 30 is 3.0000000000000004 in floating point
    cut = (sums.total < kept[:, None]).sum(axis=1)  # the group that the cut goes through
    rows = np.arange(len(cut))
    beyond = sums.total[rows, cut] - kept
    share = _ratio(sums.group_right[rows, cut], sums.group_total[rows, cut])
    return _ratio(sums.right[rows, cut] - beyond * share, kept)


def _sums(confidence: ArrayLike, label: ArrayLike, weight: ArrayLike | None) -> RankedSums:
    ranked = Ranked(np.asarray(confidence, dtype=np.float64), np.asarray(label, dtype=np.float64))
    return ranked.sums(None if weight is None else np.asarray(weight, dtype=np.float64)[None])


def _ratio(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
