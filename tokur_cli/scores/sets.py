"""How much a set of K texts disagrees: several samples of one question, or several verifications of one response.

A similarity matrix is a (K, K) array of values in [0, 1] with ones on its diagonal: every text is like itself. It may
be directed (how far text i entails text j).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SAR_TEMPERATURE = 0.001
EIGEN_REGULARISATION = 1e-3
EIGENVALUE_THRESHOLD = 0.9
ROUNDING = 1e-9
"""An eigenvalue this close to the threshold counts as equal to it."""


def cluster_by_entailment(entails: npt.NDArray[np.bool_]) -> list[int]:
    """Group texts that entail each other: each joins the first class whose first member it entails and is entailed by.

    Classes are numbered from 0 in the order of their first members; one text gives [0]. The order of the texts
    matters where entailment isn't transitive. The diagonal isn't read.

    Source: Kuhn et al. 2023, algorithm 1 (bidirectional entailment). The authors' code joins texts that don't
    contradict each other, and compares all pairs; Farquhar et al. 2024's moves texts that have a class already.

    Args:
        entails: (K, K) bool, whether text i entails text j.

    Returns:
        The class of each text, K of them.
    """
    mutual = entails & entails.T
    first_members: list[int] = []
    classes = []
    for text in range(len(mutual)):
        found = next((index for index, first in enumerate(first_members) if mutual[first, text]), len(first_members))
        if found == len(first_members):
            first_members.append(text)
        classes.append(found)
    return classes


def semantic_entropy(classes: Sequence[int], log_likelihoods: npt.ArrayLike) -> float:
    """Return the entropy over classes of meaning, in nats.

    Kuhn et al. 2023's Monte-Carlo estimate over the classes C:  −(1/|C|) Σ_c log p(c),
    p(c) = Σ_{s∈c} p(s). log p(s) is used as it is given: the authors' code takes the mean over a text's tokens
    (length-normalised), and for its "unnormalised" variant the sum.

    One text, or all in one class, gives −log Σ p(s) and 0. Sums of length-normalised p can exceed 1, so the estimate
    can be negative. A class whose texts all have log-likelihood −inf gives +inf.

    Kuhn's code subtracts 5 from every log p(c), which adds 5 and changes no order; lm-polygraph weights classes by
    how many texts they have.

    Args:
        classes: the class of each text, K ≥ 1.
        log_likelihoods: log p(s) of each text, (K,), at most 0.
    """
    found, member = np.unique(classes, return_inverse=True)
    log_classes = np.full(len(found), -np.inf)
    np.logaddexp.at(log_classes, member, np.asarray(log_likelihoods, dtype=np.float64))
    return 0 - float(log_classes.mean())  # 0 −, since −0 would be written as such


def sentence_sar(log_likelihoods: npt.ArrayLike, similarity: npt.ArrayLike) -> float:
    """Return sentence-level SAR, an uncertainty: the mean surprise of texts whose probability similar texts raise.

    (1/K) Σ_i −log( p(s_i) + (1/t) Σ_{j≠i} g(s_i, s_j) p(s_j) )

    It is computed in logarithms, so that long texts' tiny p don't vanish. p(s) is the probability of the whole text
    (not length-normalised). One text gives −log p(s); equal texts −log(p·(1 + (K−1)/t)), which is negative unless p is
    tiny. A text of log-likelihood −inf lives off its likes; where it has none (or all are −inf) the result is +inf.

    Source: Duan et al. 2024, SentSAR, t = 0.001.

    Args:
        log_likelihoods: log p(s), (K,), at most 0.
        similarity: g, (K, K); the diagonal isn't used.
    """
    log_p = np.asarray(log_likelihoods, dtype=np.float64)
    with np.errstate(divide="ignore"):  # log 0 = −inf is meant
        log_weights = np.log(np.asarray(similarity, dtype=np.float64)) - np.log(SAR_TEMPERATURE)
    np.fill_diagonal(log_weights, 0)
    return 0 - float(np.logaddexp.reduce(log_weights + log_p, axis=1).mean())


def eigen_score(embeddings: npt.ArrayLike) -> float:
    """Return INSIDE's EigenScore, an uncertainty: the log-volume that the embeddings of K texts span.

    (1/K) log det(Σ + α I_K),  Σ = Z J_d Zᵀ,  J_d = I_d − (1/d) 1 1ᵀ

    Each embedding is centred over its d features (not over the texts). One text gives log(‖J_d z‖² + α); equal texts
    give ((K−1) log α + log(K‖J_d z‖² + α)) / K, the least that embeddings of these lengths can have.

    Source: Chen et al. 2024, section 3.1, α = 0.001. The authors' code differs: it divides Σ by d − 1 (which makes α
    weigh more) and takes logarithms to base 10.

    Args:
        embeddings: Z, (K, d), K ≥ 1, d ≥ 1; where one is infinite, the result is NaN.
    """
    points = np.asarray(embeddings, dtype=np.float64)
    if not np.isfinite(points).all():
        return np.nan
    # Squared singular values are Σ's eigenvalues, and unlike those never negative by rounding
    singular = np.linalg.svd(points - points.mean(axis=1, keepdims=True), compute_uv=False)
    zeros = len(points) - len(singular)
    logs = np.log(np.square(singular) + EIGEN_REGULARISATION)
    return float((logs.sum() + zeros * np.log(EIGEN_REGULARISATION)) / len(points))


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
    similarity = np.asarray(matrix, dtype=np.float64)
    symmetric: Array = (similarity + similarity.T) / 2
    return symmetric
