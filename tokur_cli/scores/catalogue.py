"""The catalogue of scores: what each is called, how it is computed, which way it points and where it comes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt

from tokur_cli.records.errors import UsageError
from tokur_cli.records.quantity import Orientation
from tokur_cli.scores.quantities import OF_DRAWS, ON_DEMAND, QUANTITIES
from tokur_cli.scores.sets import Array, degree, eccentricity, eigen_score, semantic_entropy, sentence_sar

Features = Mapping[str, npt.NDArray[Any]]
"""What the scores of one response are computed from, by name.

The quantities of its tokens, each of shape (T,) with T ≥ 1; beyond them what is gathered only where a score needs it,
see ``BEYOND_TOKENS``.
"""

_TEXTS = "K passes, K texts"

BEYOND_TOKENS = {
    "p_true": "1 pass",
    "attention_log_diagonal": "1 pass",
    "hidden_eigenvalues": "1 pass",
    "top_entropy": "1 pass",
    "p_correct": "a calibration file",
    "set_classes": f"{_TEXTS}, a model of entailment",
    "set_log_likelihoods": f"{_TEXTS}, a model of similarity",
    "set_mean_log_likelihoods": f"{_TEXTS}, a model of entailment",
    "set_similarity": "K texts, a model of similarity",
    "set_states": _TEXTS,
}
"""Features that take more than the passes of the scoring itself, and what:

    p_true                    (): p(True) / (p(True) + p(False)) when the model is asked about its response
    attention_log_diagonal    (H,): mean log attention of the response's tokens to themselves, for each head of a layer
    hidden_eigenvalues        (T,): of the centred Gram matrix of the response's hidden states at a layer
    top_entropy               (T,): entropy over the 50 largest logits
    p_correct                 (): what a calibration makes of other scores; with one, their features take its place

and of the set of K texts that the response is judged by, attempts to verify it or the samples of its question:

    set_classes               (K,): which mean the same
    set_log_likelihoods       (K,): log p(s)
    set_mean_log_likelihoods  (K,): log p(s) / T
    set_similarity            (K, K): how alike two of them are
    set_states                (K, d): hidden state at the last token
    set_place                 (): which of the samples the response is; not there for attempts
"""

_TOKUR = "TokUR, ICLR 2026"
_LL = "Murray & Chiang 2018"
_PE = "Malinin & Gales 2021"
_SELF_CERTAINTY = "Kang et al. 2025"
_DEEPCONF = "Fu et al. 2025"
_LLM_CHECK = "Sriramanan et al. 2024"
_GRAPH = "Lin et al. 2023"

LENGTH = "neg_length"
"""The score that is the number of the response's tokens, negated."""

GROUP_TOKENS = 2048  # length of DeepConf's sliding windows
BOTTOM_SHARE = 0.1
GRAM_REGULARISATION = 1e-3  # LLM-Check's α


@dataclass(frozen=True)
class Score:
    """One number per response."""

    name: str  # key under ``tokur.scores``
    orientation: Orientation  # ``uncertainty`` (lower is better) or ``confidence`` (higher is better)
    source: str  # who proposed it
    meaning: str  # one line for tables and help
    needs: tuple[str, ...]  # the features it is computed from
    compute: Callable[[Features], float]  # the function, in float64
    # Whether it is computed only where it, or every score, is asked for, though it takes no more
    on_demand: bool = False

    @property
    def sign(self) -> int:
        """1 for a confidence, −1 for an uncertainty: times a value, more is more sure."""
        return 1 if self.orientation == "confidence" else -1

    @property
    def default(self) -> bool:
        """Whether it is computed unless others are asked for: all that the scoring's own passes give anyway."""
        return not self.on_demand and not set(self.needs) & {*BEYOND_TOKENS, *ON_DEMAND}

    @property
    def cost(self) -> str:
        """What it takes beyond one pass over prompt and response under the mean weights, in words."""
        beyond = (BEYOND_TOKENS[need] for need in self.needs if need in BEYOND_TOKENS)
        return next(beyond, "M passes" if OF_DRAWS & set(self.needs) else "nothing")

    @property
    def representative(self) -> str:
        """The score that speaks for it: of those made of one quantity that by which tokens are compared; or itself."""
        quantity = QUANTITIES.get(self.needs[0]) if len(self.needs) == 1 and self.name != LENGTH else None
        if quantity is None:
            return self.name
        return (quantity.sum if quantity.aggregate == "sum" else quantity.mean) or self.name


def _sum(quantity: str) -> Callable[[Features], float]:
    return lambda tokens: float(tokens[quantity].sum(dtype=np.float64))


def _mean(quantity: str) -> Callable[[Features], float]:
    return lambda tokens: float(tokens[quantity].mean(dtype=np.float64))


def _of_tokens(name: str, source: str, meaning: str) -> Score:
    """Return the score that the table of quantities calls a quantity's mean or sum over the tokens."""
    quantity = next(quantity for quantity in QUANTITIES.values() if name in (quantity.mean, quantity.sum))
    compute = _mean(quantity.name) if name == quantity.mean else _sum(quantity.name)
    return Score(name, quantity.orientation, source, meaning, (quantity.name,), compute)


def group_confidences(confidence: npt.NDArray[np.floating]) -> Array:
    """Return the mean of every sliding window of ``GROUP_TOKENS`` of (T,) token confidences (Fu et al. 2025).

    A response shorter than the window is one group: itself.
    """
    windows = np.lib.stride_tricks.sliding_window_view(confidence, min(GROUP_TOKENS, len(confidence)))
    return np.asarray(windows.mean(axis=1, dtype=np.float64))


def _bottom_groups(tokens: Features) -> float:
    groups = np.sort(group_confidences(tokens["deepconf"]))
    return float(groups[: max(1, int(len(groups) * BOTTOM_SHARE))].mean())


def _perplexity(tokens: Features) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(-tokens["logprob"].mean(dtype=np.float64)))


def _of_set(compute: Callable[..., float], *needs: str) -> Callable[[Features], float]:
    """Return a function that is NaN where there is no set to speak of, one text, or where the model gave no numbers."""

    def checked(features: Features) -> float:
        given = [features[need] for need in needs]
        return math.nan if any(len(one) < 2 or np.isnan(one).any() for one in given) else compute(*given)

    return checked


def _of_graph(
    compute: Callable[[Array], tuple[float, Array]], of_sample: Callable[[float], float]
) -> Callable[[Features], float]:
    """Return a function of the similarities: of attempts as a set, of a sample by its confidence among the others."""

    def placed(features: Features) -> float:
        def judged(similarity: Array) -> float:
            of_set, confidences = compute(similarity)
            return of_sample(float(confidences[features["set_place"]])) if "set_place" in features else of_set

        return _of_set(judged, "set_similarity")(features)

    return placed


_TOKEN_SCORES = (
    _of_tokens("tu", _TOKUR, "total uncertainty H[p̄], summed"),
    _of_tokens("au", _TOKUR, "aleatoric uncertainty E[H[p_m]], summed"),
    _of_tokens("eu", _TOKUR, "epistemic uncertainty TU − AU, summed"),
    _of_tokens("tu_mean", _TOKUR, "TU per token"),
    _of_tokens("au_mean", _TOKUR, "AU per token"),
    _of_tokens("eu_mean", _TOKUR, "EU per token"),
    _of_tokens("eu_kl", _TOKUR, "EU as --estimator kl computes it, summed"),
    _of_tokens("eu_kl_mean", _TOKUR, "EU as --estimator kl computes it, per token"),
    _of_tokens("eu_fisher", _TOKUR, "EU as --estimator fisher computes it, summed"),
    _of_tokens("eu_fisher_mean", _TOKUR, "EU as --estimator fisher computes it, per token"),
    _of_tokens("ll", _LL, "log-likelihood per token"),
    _of_tokens("ll_sum", _LL, "log-likelihood"),
    _of_tokens("pe", _PE, "predictive entropy per token"),
    _of_tokens("pe_sum", _PE, "predictive entropy, summed"),
    _of_tokens("self_certainty", _SELF_CERTAINTY, "KL(uniform ‖ p_0) per token"),
    _of_tokens("self_certainty_sum", _SELF_CERTAINTY, "KL(uniform ‖ p_0), summed"),
    _of_tokens("deepconf", _DEEPCONF, "token confidence (−mean of the top-20 log p_0), mean"),
    _of_tokens("deepconf_sum", _DEEPCONF, "token confidence, summed"),
    _of_tokens("margin", "Jiang & Gupta 2018", "difference of the two largest p_0, mean"),
)

_U: Orientation = "uncertainty"
_C: Orientation = "confidence"
_OTHER_SCORES = (
    Score(
        "deepconf_group", _C, _DEEPCONF, "lowest mean confidence of a window of 2,048 tokens",
        ("deepconf",), lambda tokens: float(group_confidences(tokens["deepconf"]).min()),
    ),
    Score(
        "deepconf_bottom10", _C, _DEEPCONF, "mean of the lowest 10 % of the windows' confidences",
        ("deepconf",), _bottom_groups,
    ),
    Score(
        "deepconf_tail", _C, _DEEPCONF, "mean confidence of the last 2,048 tokens",
        ("deepconf",), lambda tokens: float(tokens["deepconf"][-GROUP_TOKENS:].mean(dtype=np.float64)),
    ),
    Score(
        "ll_min", _C, "Manakul et al. 2023", "log-probability of the least likely token",
        ("logprob",), lambda tokens: float(tokens["logprob"].min()), on_demand=True,
    ),
    Score(
        LENGTH, _C, _TOKUR, "−T, the number of tokens, negated",
        ("logprob",), lambda tokens: -float(len(tokens["logprob"])),
    ),
    Score(
        "p_true", _C, "Kadavath et al. 2022", "p(True) when the model is asked whether its response is true",
        ("p_true",), lambda features: float(features["p_true"]),
    ),
    Score(
        "llm_check_attention", _C, _LLM_CHECK,
        "log attention of tokens to themselves, mean over tokens, summed over a layer's heads",
        ("attention_log_diagonal",),
        _sum("attention_log_diagonal"),  # log det of each head's lower triangular kernel, over its size
    ),
    Score(
        "llm_check_hidden", _C, _LLM_CHECK, "mean log eigenvalue of the Gram matrix of a layer's hidden states",
        ("hidden_eigenvalues",),  # (1/T) log det(Z J Zᵀ + α I)
        lambda features: float(np.log(features["hidden_eigenvalues"] + GRAM_REGULARISATION).mean()),
    ),
    Score("llm_check_perplexity", _U, _LLM_CHECK, "e to the power of −ll", ("logprob",), _perplexity),
    Score(
        "llm_check_window_entropy", _U, _LLM_CHECK, "highest entropy H[p_0] of a token",
        ("entropy",), lambda tokens: float(tokens["entropy"].max()),
    ),
    Score(
        "llm_check_logit_entropy", _U, _LLM_CHECK, "entropy over the 50 largest logits per token",
        ("top_entropy",), _mean("top_entropy"),
    ),
    Score(
        "inside", _U, "Chen et al. 2024", "EigenScore of the texts' hidden states at a middle layer",
        ("set_states",), _of_set(eigen_score, "set_states"),
    ),
    Score(
        "semantic_entropy", _U, "Kuhn et al. 2023", "entropy over classes of texts that entail each other",
        ("set_classes", "set_mean_log_likelihoods"),
        _of_set(semantic_entropy, "set_classes", "set_mean_log_likelihoods"),
    ),
    Score(
        "sar", _U, "Duan et al. 2024", "surprise of the texts, less where others are like them",
        ("set_log_likelihoods", "set_similarity"),
        _of_set(sentence_sar, "set_log_likelihoods", "set_similarity"),
    ),
    Score(
        "u_ecc", _U, _GRAPH, "distance from the middle of the texts in the embedding by their similarity",
        ("set_similarity",), _of_graph(eccentricity, lambda confidence: 0.0 - confidence),
    ),
    Score(
        "u_deg", _U, _GRAPH, "1 − how like the others a text is",
        ("set_similarity",), _of_graph(degree, lambda confidence: 1 - confidence),
    ),
    Score(
        "p_correct", _C, "Platt 1999", "probability of being correct, from other scores, with --calibration",
        ("p_correct",), lambda features: float(features["p_correct"]),
    ),
)  # fmt: skip

CATALOGUE: dict[str, Score] = {score.name: score for score in (*_TOKEN_SCORES, *_OTHER_SCORES)}
"""Every score that ``tokur score`` computes, by name; listed in the order of its output."""

DEFAULT, ALL = "default", "all"
"""Names for the scores that are computed unless others are asked for, and for every score."""


def choose_scores(names: str | None) -> list[Score]:
    """Return the scores of a comma-separated list, in the catalogue's order.

    Args:
        names: of scores, in any case, ``default`` or ``all``; None means ``default``.

    Raises:
        UsageError: an unknown name, or none at all.
    """
    asked = [name.strip().lower() for name in (DEFAULT if names is None else names).split(",") if name.strip()]
    for name in asked:
        if name not in (DEFAULT, ALL):
            score_named(name, "--scores")
    if not asked:
        raise UsageError("--scores names none; --scores help explains them")
    return [
        score
        for score in CATALOGUE.values()
        if score.name in asked or ALL in asked or (score.default and DEFAULT in asked)
    ]


def score_named(name: str, option: str) -> Score:
    """Return the score of a name, in any case.

    Args:
        name: the name.
        option: the option that gives it.

    Raises:
        UsageError: there is none; the nearest is named.
    """
    if (known := CATALOGUE.get(name.lower())) is None:
        nearest = get_close_matches(name.lower(), CATALOGUE, 1, 0.5)
        meant = f"did you mean {nearest[0]}? " if nearest else ""
        raise UsageError(f"{option}: unknown score {name}; {meant}`tokur score --scores help` lists them")
    return known


def compute_scores(scores: Sequence[Score], features: Features) -> dict[str, float]:
    """Return name → value of the scores of one response."""
    return {score.name: score.compute(features) for score in scores}
