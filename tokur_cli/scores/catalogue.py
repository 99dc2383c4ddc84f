"""The catalogue of scores: what each is called, how it is computed, which way it points and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tokur_cli.records.errors import UsageError

Tokens = Mapping[str, npt.NDArray[np.float32]]
"""Per-token quantities of one response by name, each of shape (T,) with T ≥ 1, in nats."""

Orientation = Literal["uncertainty", "confidence"]

_TOKUR = "TokUR, ICLR 2026"
_LL = "Murray & Chiang 2018"
_PE = "Malinin & Gales 2021"
_SELF_CERTAINTY = "Kang et al. 2025"
_DEEPCONF = "Fu et al. 2025"

GROUP_TOKENS = 2048  # length of DeepConf's sliding windows
BOTTOM_SHARE = 0.1


@dataclass(frozen=True)
class Score:
    """One number a response.

    Args:
        name: key under ``tokur.scores``.
        orientation: ``uncertainty`` (lower is better) or ``confidence`` (higher is better).
        source: who proposed it.
        meaning: one line for tables and help.
        needs: the per-token quantities it is computed from.
        compute: the function, in float64.
    """

    name: str
    orientation: Orientation
    source: str
    meaning: str
    needs: tuple[str, ...]
    compute: Callable[[Tokens], float]


def _sum(quantity: str) -> Callable[[Tokens], float]:
    return lambda tokens: float(tokens[quantity].sum(dtype=np.float64))


def _mean(quantity: str) -> Callable[[Tokens], float]:
    return lambda tokens: float(tokens[quantity].mean(dtype=np.float64))


def group_confidences(confidence: npt.NDArray[np.floating], window: int) -> npt.NDArray[np.float64]:
    """Return the mean token confidence of every sliding window of ``window`` tokens (Fu et al. 2025).

    A response shorter than the window is one group: itself.

    Args:
        confidence: token confidences, (T,).
        window: tokens in a group.

    Returns:
        (max(T − window + 1, 1),) means.
    """
    window = min(window, len(confidence))
    groups: npt.NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(confidence, window).mean(
        axis=1, dtype=np.float64
    )
    return groups


def _lowest_group(tokens: Tokens) -> float:
    return float(group_confidences(tokens["deepconf"], GROUP_TOKENS).min())


def _bottom_groups(tokens: Tokens) -> float:
    groups = np.sort(group_confidences(tokens["deepconf"], GROUP_TOKENS))
    return float(groups[: max(1, int(len(groups) * BOTTOM_SHARE))].mean())


def _tail(tokens: Tokens) -> float:
    return float(tokens["deepconf"][-GROUP_TOKENS:].mean(dtype=np.float64))


def _negative_length(tokens: Tokens) -> float:
    return -float(len(tokens["logprob"]))


CATALOGUE: dict[str, Score] = {
    score.name: score
    for score in (
        Score("tu", "uncertainty", _TOKUR, "total uncertainty H[p̄], summed", ("tu",), _sum("tu")),
        Score("au", "uncertainty", _TOKUR, "aleatoric uncertainty E[H[p_m]], summed", ("au",), _sum("au")),
        Score("eu", "uncertainty", _TOKUR, "epistemic uncertainty TU − AU, summed", ("eu",), _sum("eu")),
        Score("tu_mean", "uncertainty", _TOKUR, "TU per token", ("tu",), _mean("tu")),
        Score("au_mean", "uncertainty", _TOKUR, "AU per token", ("au",), _mean("au")),
        Score("eu_mean", "uncertainty", _TOKUR, "EU per token", ("eu",), _mean("eu")),
        Score("ll", "confidence", _LL, "log-likelihood per token", ("logprob",), _mean("logprob")),
        Score("ll_sum", "confidence", _LL, "log-likelihood", ("logprob",), _sum("logprob")),
        Score("pe", "uncertainty", _PE, "predictive entropy per token", ("entropy",), _mean("entropy")),
        Score("pe_sum", "uncertainty", _PE, "predictive entropy, summed", ("entropy",), _sum("entropy")),
        Score(
            "self_certainty",
            "confidence",
            _SELF_CERTAINTY,
            "KL(uniform ‖ p_0) per token",
            ("self_certainty",),
            _mean("self_certainty"),
        ),
        Score(
            "self_certainty_sum",
            "confidence",
            _SELF_CERTAINTY,
            "KL(uniform ‖ p_0), summed",
            ("self_certainty",),
            _sum("self_certainty"),
        ),
        Score(
            "deepconf",
            "confidence",
            _DEEPCONF,
            "token confidence (−mean of the top-20 log p_0), mean",
            ("deepconf",),
            _mean("deepconf"),
        ),
        Score("deepconf_sum", "confidence", _DEEPCONF, "token confidence, summed", ("deepconf",), _sum("deepconf")),
        Score(
            "deepconf_group",
            "confidence",
            _DEEPCONF,
            "lowest mean confidence of a window of 2,048 tokens",
            ("deepconf",),
            _lowest_group,
        ),
        Score(
            "deepconf_bottom10",
            "confidence",
            _DEEPCONF,
            "mean of the lowest 10 % of the windows' confidences",
            ("deepconf",),
            _bottom_groups,
        ),
        Score(
            "deepconf_tail", "confidence", _DEEPCONF, "mean confidence of the last 2,048 tokens", ("deepconf",), _tail
        ),
        Score("neg_length", "confidence", _TOKUR, "−T, the number of tokens, negated", ("logprob",), _negative_length),
    )
}
"""Every score that ``tokur score`` computes, by name, in the order of its output."""


def choose_scores(names: str | None) -> list[Score]:
    """Return the scores of a comma-separated list, in the catalogue's order; None means all.

    Raises:
        UsageError: an unknown name, or none at all.
    """
    if names is None:
        return list(CATALOGUE.values())
    asked = {name.strip() for name in names.split(",") if name.strip()}
    unknown = sorted(asked - CATALOGUE.keys())
    if unknown or not asked:
        what = f"unknown score {', '.join(unknown)}" if unknown else "--scores names none"
        raise UsageError(f"{what}; there are: {', '.join(CATALOGUE)}")
    return [score for score in CATALOGUE.values() if score.name in asked]


def compute_scores(scores: Sequence[Score], tokens: Tokens) -> dict[str, float]:
    """Return name → value of the scores of one response."""
    return {score.name: score.compute(tokens) for score in scores}
