"""Probabilities from scores: fitted, predicted for questions that were left out, and compared with what happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokur_cli.metrics.ranking import Floats

FOLDS = 5


class Line(NamedTuple):
    """A fitted p = 1 / (1 + e^−(intercept + values · weights)), for (N, K) values as they are; weights are (K,)."""

    weights: Floats
    intercept: float

    def predict(self, values: Floats) -> Floats:
        """Return (N,) probabilities of (N, K) values."""
        from scipy.special import expit

        return np.asarray(expit(self.intercept + values @ self.weights))


Fit = Callable[[Floats, Floats], Any]
"""From (N, K) values and (N,) labels in [0, 1] to what has the method ``predict`` of ``Line``."""


def fit_platt(values: Floats, label: Floats) -> Line:
    """Fit a logistic curve to (N, 1) values without regularisation, to targets not quite 0 and 1 (Platt 1999).

    The targets are (n₊ + 1)/(n₊ + 2) for correct and 1/(n₋ + 2) for incorrect, n₊ and n₋ the numbers of these.
    """
    correct = label.sum()
    high, low = (correct + 1) / (correct + 2), 1 / (len(label) - correct + 2)
    return fit_logistic(values, label * high + (1 - label) * low, strength=np.inf)


def fit_logistic(values: Floats, label: Floats, strength: float = 1.0) -> Line:
    """Fit a logistic regression of standardised values, with scikit-learn's L2 regularisation (C = ``strength``)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(values)
    scaled = scaler.transform(values)
    # A target between 0 and 1 is a correct and an incorrect record, weighted
    model = LogisticRegression(C=strength, max_iter=1000, tol=1e-8).fit(
        np.concatenate((scaled, scaled)),
        np.repeat((1, 0), len(label)),
        sample_weight=np.concatenate((label, 1 - label)),
    )
    weights = model.coef_[0] / scaler.scale_
    return Line(weights, float(model.intercept_[0] - weights @ scaler.mean_))


def fit_isotonic(values: Floats, label: Floats, *, rising: bool = True, lowest: float | None = None) -> Any:
    """Fit scikit-learn's isotonic regression of (N, 1) values: linear between points and level beyond them.

    Args:
        values: the values.
        label: (N,), in [0, 1].
        rising: whether larger values are more often correct; else they are less often.
        lowest: no probability is nearer to 0 or 1, by default 1/(N + 2).
    """
    from sklearn.isotonic import IsotonicRegression

    lowest = 1 / (len(label) + 2) if lowest is None else lowest
    model = IsotonicRegression(y_min=lowest, y_max=1 - lowest, increasing=rising, out_of_bounds="clip")
    return model.fit(values, label)


def held_out(values: Floats, label: Floats, fit: Fit, question: NDArray[np.generic], seed: int) -> Floats:
    """Return each record's probability of being correct (N,), from what was fitted on the questions of other folds.

    The questions are split at random but with their mean labels spread evenly: where a fold has more of the correct
    ones, the others have fewer, and what is fitted on these errs the other way. (scikit-learn's StratifiedGroupKFold
    spreads them, too, but takes 5 s a score for 20,000 questions; its GroupKFold does not.)

    Args:
        values: (N, K), finite.
        label: (N,), in [0, 1].
        fit: takes the values and labels of some records.
        question: (N,) number of the question of each record, of at least ``FOLDS`` questions.
        seed: of the split.
    """
    number = np.unique(question, return_inverse=True)[1]
    mean = np.bincount(number, weights=label) / np.bincount(number)  # (Q,)
    shuffled = np.random.default_rng(seed).permutation(len(mean))
    rank = np.argsort(shuffled[np.argsort(mean[shuffled], kind="stable")])  # (Q,)
    probability = np.empty(len(label))
    for inside in (rank[number] % FOLDS == each for each in range(FOLDS)):
        probability[inside] = fit(values[~inside], label[~inside]).predict(values[inside])
    return probability


def ece_terms(probability: Floats, label: Floats, bins: int = 15) -> Floats:
    """Return (N,) numbers whose mean is the expected calibration error Σ_b (n_b/N) |mean label − mean probability|.

    They are y − p, negated where the sum of these over the record's bin is negative. The bins are of equal width over
    [0, 1], and the last one includes 1. Probabilities and labels are (N,), in [0, 1].
    """
    index = np.minimum((probability * bins).astype(np.intp), bins - 1)
    above = np.bincount(index, weights=label - probability, minlength=bins)
    return np.asarray((label - probability) * np.sign(above)[index])


def log_losses(probability: Floats, label: Floats) -> Floats:
    """Return −y log p − (1 − y) log(1 − p), (N,) in nats; p is kept a rounding error from 0 and 1."""
    rounding = np.finfo(np.float64).eps
    p = np.clip(probability, rounding, 1 - rounding)
    return np.asarray(-label * np.log(p) - (1 - label) * np.log1p(-p))
