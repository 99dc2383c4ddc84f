"""Disagreement of a set of texts: hand-worked cases, lm-polygraph's numbers, formulas written out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scores.polygraph import MATRICES
from tokur_cli.scores.sets import cluster_by_entailment, eigen_score, semantic_entropy, sentence_sar

INF = math.inf
BY_SIZE = pytest.mark.parametrize("case", MATRICES, ids=lambda case: str(len(case["classes"])))

log_likelihoods = st.floats(-40, 0)
sets_of_texts = st.integers(1, 6).flatmap(
    lambda size: st.tuples(
        st.lists(st.integers(0, 2), min_size=size, max_size=size),
        st.lists(log_likelihoods, min_size=size, max_size=size),
        st.lists(st.lists(st.floats(0, 1), min_size=size, max_size=size), min_size=size, max_size=size),
    )
)


def with_ones(rows):
    similarity = np.array(rows)
    np.fill_diagonal(similarity, 1)
    return similarity


# --- classes


@BY_SIZE
def test_classes_are_those_of_lm_polygraph(case):
    assert cluster_by_entailment(np.array(case["entails"])) == case["classes"]


def test_a_text_joins_by_the_first_member_alone_and_the_first_class_that_fits():
    mutual = np.eye(5, dtype=bool)
    for i, j in [(0, 1), (1, 2), (0, 3), (2, 3), (2, 4)]:
        mutual[i, j] = mutual[j, i] = True
    # 2 is equivalent to 1, but not to 0, whose class 1 is in; 3 would fit into both classes
    assert cluster_by_entailment(mutual) == [0, 0, 1, 0, 1]


def test_the_diagonal_is_not_read_and_one_text_is_one_class():
    assert cluster_by_entailment(np.zeros((1, 1), dtype=bool)) == [0]
    assert cluster_by_entailment(~np.eye(3, dtype=bool)) == [0, 0, 0]


@BY_SIZE
def test_entropies_of_single_classes_add_up_to_lm_polygraphs_mean_over_texts(case):
    classes, log_p = np.array(case["classes"]), np.array(case["log_likelihoods"])
    of_class = {one: semantic_entropy(classes[classes == one], log_p[classes == one]) for one in set(classes)}
    assert np.mean([of_class[one] for one in classes]) == pytest.approx(case["semantic_entropy"])
    assert semantic_entropy(classes, log_p) == pytest.approx(np.mean(list(of_class.values())))


@given(sets_of_texts)
def test_semantic_entropy_is_the_formula(drawn):
    classes, log_p, _ = drawn
    members = [[math.exp(log_p[i]) for i in range(len(classes)) if classes[i] == one] for one in set(classes)]
    expected = -sum(math.log(sum(of_class)) for of_class in members) / len(members)
    assert semantic_entropy(classes, log_p) == pytest.approx(expected, abs=1e-9)


def test_an_impossible_text_counts_only_where_its_class_has_no_other():
    assert semantic_entropy([0, 0], [-INF, -1]) == 1.0
    assert semantic_entropy([0, 1], [-INF, -1]) == INF


@BY_SIZE
def test_sentence_sar_is_that_of_lm_polygraph(case):
    assert sentence_sar(case["log_likelihoods"], case["similarity"]) == pytest.approx(case["sentence_sar"])


@given(sets_of_texts)
def test_sentence_sar_is_the_formula(drawn):
    _, log_p, rows = drawn
    size = len(log_p)
    total = 0.0
    for i in range(size):
        others = sum(rows[i][j] * math.exp(log_p[j]) for j in range(size) if j != i)
        total -= math.log(math.exp(log_p[i]) + others / 0.001)
    assert sentence_sar(log_p, with_ones(rows)) == pytest.approx(total / size, abs=1e-9)


@BY_SIZE
def test_eigen_score_is_that_of_lm_polygraph(case):
    assert eigen_score(case["embeddings"]) == pytest.approx(case["eigen_score"])


@pytest.mark.parametrize(("size", "dimension"), [(1, 4), (3, 2), (5, 5), (7, 64), (10, 1)])
def test_eigen_score_is_the_logarithm_of_the_determinant(size, dimension):
    points = np.random.default_rng(size).normal(2, 3, (size, dimension))
    centring = np.eye(dimension) - np.full((dimension, dimension), 1 / dimension)
    matrix = points @ centring @ points.T + 0.001 * np.eye(size)
    assert eigen_score(points) == pytest.approx(np.linalg.slogdet(matrix)[1] / size, abs=1e-8)
