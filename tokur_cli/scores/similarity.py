"""How alike a set of K texts is, and how well each fits in: similarity matrices and the graph that they make.

A similarity matrix here is a (K, K) array of values in [0, 1] with ones on its diagonal: every text is like itself.
It may be directed (how far text i entails text j).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

EIGENVALUE_THRESHOLD = 0.9
ROUNDING = 1e-9
"""How far a value may be off its range; an eigenvalue this close to the threshold counts as equal to it."""


def jaccard_similarity(texts: Sequence[str]) -> Array:
    """Return the Jaccard similarity of every two texts as sets of words, |a ∩ b| / |a ∪ b|.

    Words are what whitespace separates, in lower case. Equal texts have similarity 1, two texts without words as well
    (their union is empty; the authors' code gives 0), one with and one without words 0. One text gives [[1]].

    Source: Lin et al. 2023, section 4.1.

    Args:
        texts: K ≥ 1 texts.

    Returns:
        (K, K), symmetric.
    """
    words = [frozenset(text.lower().split()) for text in texts]
    similarity = np.ones((len(words), len(words)))
    for i, first in enumerate(words):
        for j, second in enumerate(words[:i]):
            either = len(first | second)
            similarity[i, j] = similarity[j, i] = len(first & second) / either if either else 1.0
    return similarity


def degree(similarity: npt.ArrayLike) -> tuple[float, Array]:
    """Return U_Deg of a set of texts and C_Deg of each: how little, and how much, they are like the others.

    U_Deg = trace(K·I − D) / K²,  C_Deg(s_j) = D_jj / K,  with W = (A + Aᵀ)/2 and D_jj = Σ_i W_ji.

    U_Deg = 0 and C_Deg = 1 for one text and for equal texts; unlike ones (W = I) give 1 − 1/K and 1/K. U_Deg is
    1 − the mean of C_Deg.

    Source: Lin et al. 2023, section 4.2. The authors' code leaves out the division of C_Deg by K and, there alone,
    takes the directed A for W.

    Args:
        similarity: A, (K, K).

    Returns:
        (U_Deg, an uncertainty; C_Deg of every text, (K,), a confidence).
    """
    confidence = _symmetric(similarity).mean(axis=1)
    return float(1 - confidence.mean()), confidence


def eccentricity(similarity: npt.ArrayLike) -> tuple[float, Array]:
    """Return U_Ecc of a set of texts and C_Ecc of each: how far they lie from the middle in the graph's embedding.

    v_j = (u_1j, …, u_kj) over the eigenvectors u of L = I − D^(−1/2) W D^(−1/2) whose eigenvalue is below 0.9, with
    W = (A + Aᵀ)/2 and D_jj = Σ_i W_ji; then with v̄ the mean of all v_j

    C_Ecc(s_j) = −‖v_j − v̄‖₂,  U_Ecc = ‖(v_1 − v̄, …, v_K − v̄)‖₂.

    Both are 0 for one text and for equal texts; unlike ones (W = I) give U_Ecc = √(K − 1), C_Ecc = −√(1 − 1/K). What
    is between jumps where an eigenvalue crosses the threshold; one that equals it is left out.

    Source: Lin et al. 2023, section 4.2. lm-polygraph's U_Ecc is the same number, its confidences are those of
    eigenvectors, not of texts.

    Args:
        similarity: A, (K, K).

    Returns:
        (U_Ecc, an uncertainty; C_Ecc of every text, (K,), a confidence).
    """
    weights = _symmetric(similarity)
    scale = 1 / np.sqrt(weights.sum(axis=1))
    eigenvalues, eigenvectors = np.linalg.eigh(np.eye(len(weights)) - scale[:, None] * weights * scale)
    embedding = eigenvectors[:, eigenvalues < EIGENVALUE_THRESHOLD - ROUNDING]  # (K, k)
    distance = np.linalg.norm(embedding - embedding.mean(axis=0), axis=1)
    return float(np.linalg.norm(distance)), 0 - distance  # −distance would have −0


def _symmetric(matrix: npt.ArrayLike) -> Array:
    similarity = np.asarray(matrix, dtype=np.float64).clip(0, 1)
    symmetric: Array = (similarity + similarity.T) / 2
    return symmetric
