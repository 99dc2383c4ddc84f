"""Disagreement of a set of texts: by hand, as lm-polygraph finds it, formulas written out."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokur_cli.scores.sets import (
    cluster_by_entailment,
    degree,
    eccentricity,
    eigen_score,
    jaccard_similarity,
    semantic_entropy,
    sentence_sar,
)

EXPECTED = json.loads((Path(__file__).parent.parent / "data/lm_polygraph/expected.json").read_text(encoding="utf-8"))
MATRICES, TEXTS = EXPECTED["matrices"], EXPECTED["texts"]
INF = math.inf
BY_SIZE = pytest.mark.parametrize("case", MATRICES, ids=lambda case: str(len(case["classes"])))

texts = st.lists(st.tuples(st.integers(0, 2), st.floats(-40, 0)), min_size=1, max_size=6)


@BY_SIZE
def test_classes_are_those_of_lm_polygraph(case):
    assert cluster_by_entailment(np.array(case["entails"])) == case["classes"]


def test_a_text_joins_by_the_first_member_alone_and_the_first_class_that_fits():
    mutual = np.eye(5, dtype=bool)
    for i, j in [(0, 1), (1, 2), (0, 3), (2, 3), (2, 4)]:
        mutual[i, j] = mutual[j, i] = True
    # 2 is equivalent to 1, but not to 0, whose class 1 is in; 3 would fit into both classes
    assert cluster_by_entailment(mutual) == [0, 0, 1, 0, 1]


@given(texts)
def test_semantic_entropy_is_the_formula(drawn):
    classes, log_p = zip(*drawn, strict=True)
    members = [[math.exp(log_p[i]) for i in range(len(classes)) if classes[i] == one] for one in set(classes)]
    expected = -sum(math.log(sum(of_class)) for of_class in members) / len(members)
    assert semantic_entropy(classes, log_p) == pytest.approx(expected, abs=1e-9)


def test_an_impossible_text_counts_only_where_its_class_has_no_other():
    assert semantic_entropy([0, 0], [-INF, -1]) == 1.0
    assert semantic_entropy([0, 1], [-INF, -1]) == INF


@BY_SIZE
def test_sentence_sar_is_that_of_lm_polygraph(case):
    assert sentence_sar(case["log_likelihoods"], case["similarity"]) == pytest.approx(case["sentence_sar"])


@BY_SIZE
def test_eigen_score_is_that_of_lm_polygraph(case):
    assert eigen_score(case["embeddings"]) == pytest.approx(case["eigen_score"])


def test_eigen_score_of_more_texts_than_features_has_their_zeros():
    """Five equal texts: centred (−1, 1), of which Σ has the eigenvalue 5 · 2 once and 0 four times."""
    assert eigen_score([[1, 3]] * 5) == pytest.approx((math.log(10.001) + 4 * math.log(0.001)) / 5)


def test_texts_without_words_are_like_each_other_alone():
    np.testing.assert_array_equal(jaccard_similarity(["", " ", "a"]), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: str(len(case["texts"])))
def test_texts_are_as_lm_polygraph_finds_them(case):
    similarity = jaccard_similarity(case["texts"])
    np.testing.assert_allclose(similarity, case["jaccard"], atol=1e-15)
    assert degree(similarity)[0] == pytest.approx(case["u_deg"], abs=1e-12)
    assert eccentricity(similarity)[0] == pytest.approx(case["u_ecc"], abs=1e-12)


@BY_SIZE
def test_sets_are_as_uncertain_as_lm_polygraph_finds_them(case):
    assert degree(case["similarity"])[0] == pytest.approx(case["u_deg"], abs=1e-12)
    assert eccentricity(case["similarity"])[0] == pytest.approx(case["u_ecc"], abs=1e-9)


def test_an_eigenvalue_that_equals_the_threshold_is_left_out_whatever_the_rounding():
    """Of [[1, s], [s, 1]] the second eigenvalue is 2s/(1 + s): 0.9 where s = 9/11; it is kept only for a smaller s."""
    for similar in (9 / 11, np.nextafter(9 / 11, 0), np.nextafter(9 / 11, 1)):
        assert eccentricity([[1, similar], [similar, 1]])[0] == pytest.approx(0, abs=1e-12)
    assert eccentricity([[1, 0.818], [0.818, 1]])[0] == pytest.approx(1)
