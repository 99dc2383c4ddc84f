import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from tokur_cli.metrics.calibration import brier, calibrated, ece


def test_brier_agrees_with_scikit_learn():
    generator = np.random.default_rng(0)
    probability, label = generator.random(50), generator.integers(0, 2, 50)
    assert brier(probability, label) == pytest.approx(brier_score_loss(label, probability))


def test_hand_worked_calibration_error():
    probability, label = [0.1, 0.15, 0.9, 1.0], [0, 1, 1, 1]
    # two bins of four: mean 0.125 against 0.5, and 0.95 against 1
    assert ece(probability, label, bins=4) == pytest.approx((2 * 0.375 + 2 * 0.05) / 4)


def test_fifteen_bins_of_equal_width_unless_others_are_asked_for():
    ends = np.add.outer(np.arange(15), [0.01, 0.99]).ravel() / 15
    # in each bin half of the records are right, and the mean probability is its middle
    assert ece(ends, np.tile([0.0, 1.0], 15)) == pytest.approx(np.abs((np.arange(15) + 0.5) / 15 - 0.5).mean())


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
    # The most confident record is the only right one, so that all others say 0 there; its own label would say 1.
    for place in range(50):
        label, confidence = np.zeros(50), np.arange(50.0)
        label[place], confidence[place] = 1.0, 100.0
        assert calibrated(confidence, label)[place] == 0.0
        assert calibrated(-confidence, 1 - label)[place] == 1.0


def test_no_question_is_calibrated_on_its_own_samples():
    question = np.tile(np.arange(20), 8) * 3  # gaps in the numbers; samples far from each other
    for place in range(20):
        own = question == 3 * place
        confidence = np.where(own, 100.0, np.arange(160.0) / 2)
        assert (calibrated(confidence, own.astype(float), cluster=question)[own] == 0.0).all()
        assert calibrated(confidence, own.astype(float))[own].max() == 1.0  # by record, siblings tell


def test_copies_of_records_change_neither_probabilities_nor_their_errors():
    generator = np.random.default_rng(4)
    label = (generator.random(172) < 0.3).astype(float)
    confidence = generator.normal(size=172) + label
    single = calibrated(confidence, label)
    question, label_of_copies = np.repeat(np.arange(172), 8), np.repeat(label, 8)
    copied = calibrated(np.repeat(confidence, 8), label_of_copies, cluster=question)
    assert copied == pytest.approx(np.repeat(single, 8))
    assert ece(copied, label_of_copies) == pytest.approx(ece(single, label))
    assert brier(copied, label_of_copies) == pytest.approx(brier(single, label))


def test_a_useless_score_is_not_calibrated_by_what_siblings_tell():
    # Questions of other folds tell the share p of right ones, no more: the best Brier score is p(1 - p).
    generator = np.random.default_rng(5)
    question = np.repeat(np.arange(100), 16)
    label = (generator.random(100) < 0.4)[question].astype(float)
    confidence = generator.normal(size=100)[question] + 0.01 * generator.normal(size=1600)
    share = label.mean()
    assert brier(calibrated(confidence, label, cluster=question), label) > share * (1 - share)
    assert brier(calibrated(confidence, label), label) < share * (1 - share)  # by record, siblings tell


def test_folds_share_out_the_labels():
    # Two right questions, told by their confidence: in two folds, each has the other to be calibrated on.
    label = np.repeat([1.0, 1.0] + [0.0] * 48, 3)
    for seed in range(20):
        assert (calibrated(label, label, cluster=np.repeat(np.arange(50), 3), seed=seed) == label).all()


def test_calibration_is_deterministic_and_keeps_to_its_range():
    label = np.array([0.0, 1.0] * 10)
    confidence = np.linspace(-1, 1, 20)
    first = calibrated(confidence, label, seed=3)
    assert (first == calibrated(confidence, label, seed=3)).all()
    assert ((first >= 0) & (first <= 1)).all()


def test_folds_are_drawn_anew_with_every_seed():
    generator = np.random.default_rng(6)
    confidence, label = generator.normal(size=60), np.tile([0.0, 1.0], 30)
    drawn = {tuple(calibrated(confidence, label, seed=seed)) for seed in range(4)}
    assert len(drawn) == 4
