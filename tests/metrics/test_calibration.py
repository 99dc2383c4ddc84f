from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.preprocessing import StandardScaler

from tokur_cli.metrics.calibration import ece_terms, fit_isotonic, fit_logistic, fit_platt, held_out, log_losses
from tokur_cli.metrics.catalogue import METRICS


def scored(count=120, seed=0):
    """(N, 3) scores of unlike sizes, and labels that they tell something of."""
    generator = np.random.default_rng(seed)
    label = (generator.random(count) < 0.4).astype(float)
    return generator.normal(size=(count, 3)) * (1, 30, 0.01) + label[:, None] * (1, -20, 0.005) + (5, -90, 0), label


def test_losses_agree_with_scikit_learn_at_the_ends_too():
    probability, label = np.array([0.0, 1.0, 0.3, 1.0, 0.8]), np.array([0, 0, 1, 1, 0])
    assert log_losses(probability, label).mean() == pytest.approx(log_loss(label, probability))
    assert METRICS["brier"].of(probability, label).mean() == pytest.approx(brier_score_loss(label, probability))


@pytest.mark.parametrize("separable", [False, True])
def test_platt_scaling_minimises_the_cross_entropy_to_platts_targets(separable):
    values, label = scored()
    values = label[:, None] + 0.1 if separable else values[:, :1]
    right, wrong = label.sum(), (1 - label).sum()
    target = np.where(label == 1, (right + 1) / (right + 2), 1 / (wrong + 2))

    def cross_entropy(line):
        margin = line[0] + line[1] * (values[:, 0] - values.mean())
        return np.sum(target * np.logaddexp(0, -margin) + (1 - target) * np.logaddexp(0, margin))

    slope, intercept = minimize(cross_entropy, (0, 0), tol=1e-12).x[::-1]
    expected = 1 / (1 + np.exp(-(intercept + slope * (values[:, 0] - values.mean()))))
    assert fit_platt(values, label).predict(values) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("rising", [False, True])
def test_isotonic_regression_is_the_best_monotone_curve_and_never_certain(rising):
    """Its blocks have the mean of their labels: no monotone curve through the same records has smaller squares."""
    values, label = scored(60)
    values = values[:, :1] * (1 if rising else -1)
    fitted = fit_isotonic(values, label, rising=rising)
    shown = fitted.predict(values)
    assert (np.diff(fitted.y_thresholds_) * (1 if rising else -1) >= 0).all()
    assert (shown.min(), shown.max()) == (pytest.approx(1 / 62), pytest.approx(61 / 62))
    for level in set(shown) - {shown.min(), shown.max()}:
        assert label[shown == level].mean() == pytest.approx(level)


def test_graded_labels_are_fitted_as_so_many_right_and_wrong_ones():
    values, label = scored(40)
    graded = np.where(label == 1, 0.75, 0.25)
    fourfold = np.repeat(values, 4, axis=0)
    repeated = np.concatenate([[1.0, 1, 1, 0] if one else [1.0, 0, 0, 0] for one in label])
    expected = LogisticRegression(C=0.25, tol=1e-8).fit(StandardScaler().fit(values).transform(fourfold), repeated)
    found = fit_logistic(values, graded).predict(values)
    assert found == pytest.approx(
        expected.predict_proba(StandardScaler().fit(values).transform(values))[:, 1], abs=1e-5
    )


def test_probabilities_come_from_what_was_fitted_on_other_questions():
    """The questions that a fit sees and those that it predicts share none, and each record is predicted once."""
    question = np.random.default_rng(3).integers(0, 23, 150) * 7
    values, label = np.arange(150.0)[:, None], np.tile([0.0, 1.0], 75)
    seen = []

    def fit(inside, labels):
        assert (labels == label[inside[:, 0].astype(int)]).all()

        def predict(outside):
            told, asked = (set(question[part[:, 0].astype(int)]) for part in (inside, outside))
            assert not told & asked
            assert told | asked == set(question)
            seen.extend(outside[:, 0])
            return outside[:, 0] / 1000

        return SimpleNamespace(predict=predict)

    assert held_out(values, label, fit, question, 0) == pytest.approx(np.arange(150) / 1000)
    assert sorted(seen) == list(range(150))


def test_hand_worked_calibration_error():
    probability, label = np.array([0.1, 0.15, 0.9, 1.0]), np.array([0, 1, 1, 0])
    # two bins of four: mean 0.125 against 0.5, and 0.95 against 0.5
    assert ece_terms(probability, label, bins=4).mean() == pytest.approx((2 * 0.375 + 2 * 0.45) / 4)


def test_folds_share_out_the_labels():
    # Two right questions, told by their confidence: in two folds, each has the other to be calibrated on.
    label, fit = np.repeat([1.0, 1.0] + [0.0] * 48, 3), partial(fit_isotonic, lowest=0.0)
    for seed in range(20):
        assert (held_out(label[:, None], label, fit, np.repeat(np.arange(50), 3), seed) == label).all()
