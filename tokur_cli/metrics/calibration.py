"""Probabilities from confidences, and how far they are from what happens: isotonic calibration, Brier score, ECE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.ranked import Floats

FOLDS = 5
BINS = 15


def calibrated(
    confidence: ArrayLike, label: ArrayLike, *, cluster: ArrayLike | None = None, folds: int = FOLDS, seed: int = 0
) -> Floats:
    """Return each record's probability of being right, by isotonic regression on the questions of the other folds.

    Args:
        confidence: (N,), finite.
        label: (N,), in [0, 1].
        cluster: (N,) number of the question of each record; by default each is its own. At least ``folds`` questions.
        folds: how many folds the questions are split into, at random but with their mean labels spread evenly.
        seed: of the split.

    Returns:
        (N,), in [0, 1].
    """
    from sklearn.isotonic import IsotonicRegression

    confidence, label = np.asarray(confidence, dtype=np.float64), np.asarray(label, dtype=np.float64)
    members = np.arange(len(label)) if cluster is None else np.asarray(cluster)
    fold = _folds(np.unique(members, return_inverse=True)[1], label, folds, seed)
    probability = np.empty(len(label))
    for held_out in range(folds):
        inside = fold == held_out
        model = IsotonicRegression(out_of_bounds="clip")
        probability[inside] = model.fit(confidence[~inside], label[~inside]).predict(confidence[inside])
    return probability


def _folds(question: NDArray[np.intp], label: Floats, folds: int, seed: int) -> NDArray[np.intp]:
    """Return the fold of each record (N,): that of its question."""
    mean = np.bincount(question, weights=label) / np.bincount(question)  # (Q,)
    shuffled = np.random.default_rng(seed).permutation(len(mean))
    fold = np.empty(len(mean), dtype=np.intp)
    fold[shuffled[np.argsort(mean[shuffled], kind="stable")]] = np.arange(len(mean)) % folds
    return fold[question]


def brier(probability: ArrayLike, label: ArrayLike) -> float:
    """Return the Brier score: mean (p − y)².

    Args:
        probability: (N,), in [0, 1].
        label: (N,), in [0, 1].
    """
    return float(np.mean((np.asarray(probability, dtype=np.float64) - np.asarray(label, dtype=np.float64)) ** 2))


def ece(probability: ArrayLike, label: ArrayLike, bins: int = BINS) -> float:
    """Return the expected calibration error Σ_b (n_b/N) |mean label − mean probability| over bins of equal width.

    Args:
        probability: (N,), in [0, 1].
        label: (N,), in [0, 1].
        bins: number of bins over [0, 1]; the last one includes 1.
    """
    probability, label = np.asarray(probability, dtype=np.float64), np.asarray(label, dtype=np.float64)
    index = np.minimum((probability * bins).astype(np.intp), bins - 1)
    return float(np.abs(np.bincount(index, weights=label - probability)).sum() / len(label))
