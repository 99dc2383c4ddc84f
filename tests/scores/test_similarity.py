"""Similarity matrices and their graph: hand-worked cases, lm-polygraph's numbers, other ways to the same numbers."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.scores.polygraph import MATRICES, TEXTS
from tokur_cli.scores.sets import degree, eccentricity, jaccard_similarity


@st.composite
def similarities(draw, largest=6):
    """Directed similarity matrices."""
    size = draw(st.integers(1, largest))
    value = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)
    matrix = np.array(draw(st.lists(st.lists(value, min_size=size, max_size=size), min_size=size, max_size=size)))
    np.fill_diagonal(matrix, 1)
    return matrix


def spectrum(similarity):
    """Eigenvalues of the Laplacian, by the general solver on the random walk's matrix."""
    weights = (similarity + similarity.T) / 2
    return 1 - np.linalg.eigvals(weights / weights.sum(axis=1, keepdims=True)).real


def eccentricity_by_projection(similarity):
    """C_Ecc by the projector on all eigenvectors below the threshold: a matrix sign function, without any of them."""
    weights = (similarity + similarity.T) / 2
    size = len(weights)
    degrees = weights.sum(axis=1)
    sign = np.array([[weights[i, j] / math.sqrt(degrees[i] * degrees[j]) for j in range(size)] for i in range(size)])
    sign = (sign - 0.1 * np.eye(size)) / 2
    for _ in range(200):
        sign = (3 * sign - sign @ sign @ sign) / 2
    projector = (np.eye(size) + sign) / 2
    centring = np.eye(size) - 1 / size
    return -np.sqrt(np.diag(centring @ projector @ centring).clip(0))


# --- Jaccard


def test_words_are_compared_as_sets_without_regard_to_case_and_order():
    similarity = jaccard_similarity(["The cat  sat", "sat the CAT\n", "the the dog", "dog", ""])
    expected = [
        [1, 1, 1 / 4, 0, 0],
        [1, 1, 1 / 4, 0, 0],
        [1 / 4, 1 / 4, 1, 1 / 2, 0],
        [0, 0, 1 / 2, 1, 0],
        [0] * 4 + [1],
    ]
    np.testing.assert_array_equal(similarity, expected)


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: str(len(case["texts"])))
def test_texts_are_as_lm_polygraph_finds_them(case):
    similarity = jaccard_similarity(case["texts"])
    np.testing.assert_allclose(similarity, case["jaccard"], atol=1e-15)
    assert degree(similarity)[0] == pytest.approx(case["u_deg"], abs=1e-12)
    assert eccentricity(similarity)[0] == pytest.approx(case["u_ecc"], abs=1e-12)


# --- the graph


@pytest.mark.parametrize("case", MATRICES, ids=lambda case: str(len(case["classes"])))
def test_sets_are_as_uncertain_as_lm_polygraph_finds_them(case):
    assert degree(case["similarity"])[0] == pytest.approx(case["u_deg"], abs=1e-12)
    assert eccentricity(case["similarity"])[0] == pytest.approx(case["u_ecc"], abs=1e-9)


def test_an_eigenvalue_that_equals_the_threshold_is_left_out_whatever_the_rounding():
    """Of [[1, s], [s, 1]] the second eigenvalue is 2s/(1 + s): 0.9 where s = 9/11; it is kept only for a smaller s."""
    for similar in (9 / 11, np.nextafter(9 / 11, 0), np.nextafter(9 / 11, 1)):
        assert eccentricity([[1, similar], [similar, 1]])[0] == pytest.approx(0, abs=1e-12)
    assert eccentricity([[1, 0.818], [0.818, 1]])[0] == pytest.approx(1)


@given(similarities())
def test_eccentricity_is_that_of_the_projection(similarity):
    assume(np.abs(spectrum(similarity) - 0.9).min() > 1e-3)
    uncertainty, confidence = eccentricity(similarity)
    expected = eccentricity_by_projection(similarity)
    np.testing.assert_allclose(confidence, expected, atol=1e-6)
    assert uncertainty == pytest.approx(np.linalg.norm(expected), abs=1e-6)
