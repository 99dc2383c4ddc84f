from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from tokur_cli.metrics.ranking import acc_of, auprc_of, aurc_of, auroc, auroc_of, draws, prr_of, ranked, ranking

tied = st.integers(0, 4).map(float)  # few values, so that ties are common
records = st.lists(st.tuples(tied | st.floats(-5, 5), st.integers(0, 1), st.integers(0, 3)), min_size=2, max_size=40)


def sums(confidence, label, weight=None):
    if weight is None:
        return ranked(confidence, label)
    return ranking(np.asarray(confidence, dtype=float), np.asarray(label, dtype=float))(np.asarray(weight)[None])


def auprc(confidence, label, weight=None):
    return auprc_of(sums(confidence, label, weight))[0]


def top_accuracy(confidence, label):
    return acc_of(sums(confidence, label))[0]


def aurc(confidence, label):
    return aurc_of(sums(confidence, label))[0]


def prr(confidence, label):
    return prr_of(sums(confidence, label))[0]


@given(records)
def test_auroc_and_auprc_agree_with_scikit_learn_with_ties_and_weights(rows):
    confidence, label, weight = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    assume(0 < (weight * label).sum() < weight.sum())
    assert auroc_of(sums(confidence, label, weight))[0] == pytest.approx(
        roc_auc_score(label, confidence, sample_weight=weight)
    )
    assert auprc(confidence, label, weight) == pytest.approx(
        average_precision_score(label, confidence, sample_weight=weight)
    )


def test_draws_take_whole_clusters():
    (drawn,) = draws(np.array([7, 3, 7, 3, 3]), 50, 0)
    assert (drawn[:, [0, 1, 1]] == drawn[:, [2, 3, 4]]).all()
    assert (drawn[:, 0] + drawn[:, 1] == 2).all()


def test_hand_worked_prediction_rejection_ratio():
    # by confidence: right, wrong, right, wrong, wrong
    confidence, label = [5, 4, 3, 2, 1], [1, 0, 1, 0, 0]
    risks = [0, 1 / 2, 1 / 3, 2 / 4, 3 / 5]
    oracle = np.mean([0, 0, 1 / 3, 2 / 4, 3 / 5])
    assert prr(confidence, label) == pytest.approx((3 / 5 - np.mean(risks)) / (3 / 5 - oracle))


def test_one_class_gives_nan():
    assert np.isnan(auroc([1, 2, 3], [1, 1, 1]))
    assert np.isnan(auprc([1, 2, 3], [0, 0, 0]))
    assert np.isnan(prr([1, 2, 3], [0, 0, 0]))


def test_neighbours_are_merged_into_groups_of_about_equal_size():
    confidence = np.array([3.0, 3, 3, 3, 2, 1, 0, 0])
    assert ranking(confidence, confidence / 3, most_groups=3)(np.ones((1, 8))).size.tolist() == [[4, 2, 2]]


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.25, 1.0])), min_size=1, max_size=6))
def test_ties_count_as_the_mean_over_all_orders(rows):
    confidence, label = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    half = -(-len(rows) // 2)
    top, area = [], []
    for order in permutations(range(len(rows))):  # a stable sort makes every order of the ties equally likely
        in_order = sorted(order, key=lambda k: -confidence[k])
        errors = 1 - label[in_order]
        top.append(label[in_order][:half].mean())
        area.append(np.mean(np.cumsum(errors) / np.arange(1, len(rows) + 1)))
    assert top_accuracy(confidence, label) == pytest.approx(np.mean(top))
    assert aurc(confidence, label) == pytest.approx(np.mean(area))


def test_a_perfect_ranking_of_graded_labels_has_prr_one():
    label = np.array([0.1, 0.5, 0.5, 0.9, 1.0])
    assert prr(label * 3 - 7, label) == pytest.approx(1.0)
    assert prr(-label, label) < 0
    assert top_accuracy(label, label) == pytest.approx((1.0 + 0.9 + 0.5) / 3)
