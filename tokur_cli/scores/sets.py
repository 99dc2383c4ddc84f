"""How much a set of K texts disagrees: several samples of one question, or several verifications of one response."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tokur_cli.scores.similarity import Array, as_similarity

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

    Raises:
        ValueError: not a (K, K) array of bool with K ≥ 1.
    """
    entails = np.asarray(entails)
    if entails.dtype != np.bool_ or entails.ndim != 2 or entails.shape[0] != entails.shape[1] or not len(entails):
        raise ValueError(f"entailment is a (K, K) array of bool with K ≥ 1, not {entails.shape} of {entails.dtype}")
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

    Raises:
        ValueError: no texts, not one class per text, not one log-likelihood per text, or one that is positive or NaN.
    """
    labels = np.asarray(classes)
    if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "iu":
        raise ValueError(f"classes are K ≥ 1 whole numbers, not {labels.shape} of {labels.dtype}")
    _, member, counts = np.unique(labels, return_inverse=True, return_counts=True)
    log_p = _log_likelihoods(log_likelihoods, len(labels))
    log_classes = np.full(len(counts), -np.inf)
    np.logaddexp.at(log_classes, member, log_p)
    return 0 - float(log_classes.mean())  # 0 −, since −0 would be written as such


def sentence_sar(
    log_likelihoods: npt.ArrayLike, similarity: npt.ArrayLike, temperature: float = SAR_TEMPERATURE
) -> float:
    """Return sentence-level SAR, an uncertainty: the mean surprise of texts whose probability similar texts raise.

    (1/K) Σ_i −log( p(s_i) + (1/t) Σ_{j≠i} g(s_i, s_j) p(s_j) )

    It is computed in logarithms, so that long texts' tiny p don't vanish. p(s) is the probability of the whole text
    (not length-normalised). One text gives −log p(s); equal texts −log(p·(1 + (K−1)/t)), which is negative unless p is
    tiny. A text of log-likelihood −inf lives off its likes; where it has none (or all are −inf) the result is +inf.

    Source: Duan et al. 2024, SentSAR, t = 0.001.

    Args:
        log_likelihoods: log p(s), (K,), at most 0.
        similarity: g, (K, K); the diagonal isn't used.
        temperature: t > 0.

    Raises:
        ValueError: not a similarity matrix, not one log-likelihood per text, one that is positive or NaN, or t ≤ 0.
    """
    alike = as_similarity(similarity)
    log_p = _log_likelihoods(log_likelihoods, len(alike))
    if not temperature > 0:
        raise ValueError(f"the temperature is above 0, not {temperature}")
    with np.errstate(divide="ignore"):  # log 0 = −inf is meant
        log_weights = np.log(alike) - np.log(temperature)
    np.fill_diagonal(log_weights, 0)
    return 0 - float(np.logaddexp.reduce(log_weights + log_p, axis=1).mean())


def eigen_score(embeddings: npt.ArrayLike, regularisation: float = EIGEN_REGULARISATION) -> float:
    """Return INSIDE's EigenScore, an uncertainty: the log-volume that the embeddings of K texts span.

    (1/K) log det(Σ + α I_K),  Σ = Z J_d Zᵀ,  J_d = I_d − (1/d) 1 1ᵀ

    Each embedding is centred over its d features (not over the texts). One text gives log(‖J_d z‖² + α); equal texts
    give ((K−1) log α + log(K‖J_d z‖² + α)) / K, the least that embeddings of these lengths can have.

    Source: Chen et al. 2024, section 3.1, α = 0.001. The authors' code differs: it divides Σ by d − 1 (which makes α
    weigh more) and takes logarithms to base 10.

    Args:
        embeddings: Z, (K, d), K ≥ 1, d ≥ 1.
        regularisation: α > 0.

    Raises:
        ValueError: another shape, numbers that aren't finite, or α ≤ 0.
    """
    points = np.asarray(embeddings, dtype=np.float64)
    if points.ndim != 2 or not points.size:
        raise ValueError(f"embeddings have the shape (K, d) with K ≥ 1 and d ≥ 1, not {points.shape}")
    if not np.all(np.isfinite(points)):
        raise ValueError("an embedding holds infinity or NaN")
    if not regularisation > 0:
        raise ValueError(f"the regularisation is above 0, not {regularisation}")
    # Squared singular values are Σ's eigenvalues, and unlike those never negative by rounding
    singular = np.linalg.svd(points - points.mean(axis=1, keepdims=True), compute_uv=False)
    zeros = len(points) - len(singular)
    logs = np.log(np.square(singular) + regularisation)
    return float((logs.sum() + zeros * np.log(regularisation)) / len(points))


def _log_likelihoods(values: npt.ArrayLike, texts: int) -> Array:
    log_p = np.asarray(values, dtype=np.float64)
    if log_p.shape != (texts,):
        raise ValueError(f"there are {texts} texts, but the log-likelihoods have the shape {log_p.shape}")
    if not np.all(log_p <= 0):
        raise ValueError("a log-likelihood is positive or NaN")
    return log_p
