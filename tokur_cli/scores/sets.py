"""How much a set of K texts disagrees: several samples of one question, or several verifications of one response."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

SAR_TEMPERATURE = 0.001
EIGEN_REGULARISATION = 1e-3


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
        log_weights = np.log(np.asarray(similarity, dtype=np.float64).clip(0, 1)) - np.log(SAR_TEMPERATURE)
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
        embeddings: Z, (K, d), K ≥ 1, d ≥ 1, finite.
    """
    points = np.asarray(embeddings, dtype=np.float64)
    # Squared singular values are Σ's eigenvalues, and unlike those never negative by rounding
    singular = np.linalg.svd(points - points.mean(axis=1, keepdims=True), compute_uv=False)
    zeros = len(points) - len(singular)
    logs = np.log(np.square(singular) + EIGEN_REGULARISATION)
    return float((logs.sum() + zeros * np.log(EIGEN_REGULARISATION)) / len(points))
