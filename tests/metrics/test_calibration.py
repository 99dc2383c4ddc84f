import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from tokur_cli.metrics.calibration import brier, calibrated, ece, reliability


def test_brier_agrees_with_scikit_learn():
    generator = np.random.default_rng(0)
    probability, label = generator.random(50), generator.integers(0, 2, 50)
    assert brier(probability, label) == pytest.approx(brier_score_loss(label, probability))


def test_hand_worked_calibration_error():
    probability, label = [0.1, 0.15, 0.9, 1.0], [0, 1, 1, 1]
    # two bins of four: mean 0.125 against 0.5, and 0.95 against 1
    assert ece(probability, label, bins=4) == pytest.approx((2 * 0.375 + 2 * 0.05) / 4)
    diagram = reliability(probability, label, bins=4)
    assert diagram.records.tolist() == [2, 2]
    assert diagram.probability == pytest.approx([0.125, 0.95])
    assert diagram.label == pytest.approx([0.5, 1.0])


def test_calibration_recovers_the_probability_of_being_right():
    generator = np.random.default_rng(1)
    confidence = generator.normal(size=20_000)
    truth = 1 / (1 + np.exp(-2 * confidence))
    label = (generator.random(len(truth)) < truth).astype(float)
    probability = calibrated(confidence, label)
    assert np.abs(probability - truth).mean() < 0.02
    assert ece(probability, label) < 0.01
    assert brier(probability, label) == pytest.approx(np.mean(truth * (1 - truth)), abs=0.01)


def test_no_record_is_calibrated_on_itself():
    # Each record's own label would be predicted perfectly from its unique confidence; from the others it cannot be.
    generator = np.random.default_rng(2)
    confidence = np.arange(400.0)
    label = generator.integers(0, 2, 400).astype(float)
    assert brier(calibrated(confidence, label), label) > 0.2


def test_calibration_is_deterministic_and_keeps_to_its_range():
    label = np.array([0.0, 1.0] * 10)
    confidence = np.linspace(-1, 1, 20)
    first = calibrated(confidence, label, seed=3)
    assert (first == calibrated(confidence, label, seed=3)).all()
    assert ((first >= 0) & (first <= 1)).all()
