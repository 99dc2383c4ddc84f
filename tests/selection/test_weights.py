import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokur_cli.scores.catalogue import CATALOGUE, compute_scores
from tokur_cli.selection.weights import SIGNED, measures_doubt, weigh


def test_exp_is_the_likelihood_relative_to_the_best():
    assert weigh([-0.5, -1.5, -2.5], "exp", doubt=True) == [1, math.exp(-1), math.exp(-2)]


def test_rank_counts_down_to_one_and_equals_share_the_mean():
    assert weigh([9.0, 5.0, 1.0], "rank", doubt=False) == [3, 2, 1]
    assert weigh([9.0, 5.0, 5.0, 1.0], "rank", doubt=False) == [4, 2.5, 2.5, 1]
    assert weigh([7.0, 7.0, 7.0], "rank", doubt=False) == [2, 2, 2]


def test_score_weighs_in_proportion_to_a_confidence():
    assert weigh([20.0, 15.0, 5.0], "score", doubt=False) == [1, 0.75, 0.25]


def test_score_weighs_by_the_inverse_of_an_uncertainty():
    assert weigh([-0.5, -1.0, -2.0], "score", doubt=True) == [1, 0.5, 0.25]


def test_no_uncertainty_at_all_outweighs_all_others():
    assert weigh([-0.0, 0.0, -1e-9], "score", doubt=True) == [1, 1, 0]


def test_confidences_that_are_zero_weigh_alike():
    assert weigh([0.0, 0.0], "score", doubt=False) == [1, 1]
    assert weigh([1.0, 0.0, -1e-12], "score", doubt=False) == [1, 0, 0]  # rounding below zero is zero


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12),
    st.sampled_from(["score", "exp", "rank"]),
    st.booleans(),
)
def test_weights_are_finite_and_fall_with_confidence(confidences, how, doubt):
    confidences.sort(reverse=True)
    weights = weigh(confidences, how, doubt=doubt)
    assert all(math.isfinite(weight) and weight >= 0 for weight in weights)
    assert weights == sorted(weights, reverse=True)
    assert weights[0] > 0
    for one, other, first, second in zip(weights, weights[1:], confidences, confidences[1:], strict=False):
        assert one == other or first > second, "equals weigh the same"


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in SIGNED])
def test_every_score_of_the_catalogue_is_on_the_side_of_zero_that_its_weight_supposes(name):
    score = CATALOGUE[name]
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(9, 50))  # (T, V)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    entropy = -(np.exp(log_p) * log_p).sum(axis=1)
    tokens = {
        "logprob": log_p[:, 0], "entropy": entropy, "tu": entropy, "au": 0.9 * entropy, "eu": 0.1 * entropy,
        "eu_kl": 0.2 * entropy, "eu_fisher": 0.2 * entropy,
        "self_certainty": -log_p.mean(axis=1) - math.log(50), "deepconf": -np.sort(log_p, axis=1)[:, -20:].mean(axis=1),
        "p_true": np.float64(0.25), "p_correct": np.float64(0.25), "attention_log_diagonal": log_p[0, :4],
        "top_entropy": entropy,
        "set_similarity": np.array([[1, 0.2], [0.2, 1]]),
    }  # fmt: skip
    value = compute_scores([score], tokens)[name]
    confidence = -value if score.orientation == "uncertainty" else value
    assert (confidence < 0) == measures_doubt(name, score.orientation)
