"""From logits to the next token: temperature, top-k, top-p and min-p, with numbers that depend on their key alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tokur_cli.engine.noise import uniform

_FIRST_CANDIDATES = 64  # how many likely tokens are looked at first for a nucleus; four times as many when it is larger


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen; filters apply in this order, each to what the one before it kept.

    Args:
        temperature: 0 takes the most likely token; else logits are divided by it.
        top_k: keep the k most likely tokens; 0 keeps all.
        top_p: keep the smallest set of most likely tokens whose probability reaches it (Holtzman et al. 2020).
        min_p: keep tokens with at least this share of the most likely one's probability (Nguyen et al. 2025).
        seed: of the random numbers.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0


class RandomStream:
    """The uniform numbers of one response: one per token, the same whatever else is generated with it.

    Args:
        seed: the run's.
        key: the question's id.
        sample: which of the question's responses.
        round: of a generation in steps, each of which has numbers of its own; None for a response in one go.
    """

    _BLOCK = 64

    def __init__(self, seed: int, key: str, sample: int, round: int | None = None) -> None:
        self._key = (seed, "sample", key, sample) if round is None else (seed, "particle", key, sample, round)
        self._first, self._numbers = 0, uniform(self._key, 0, self._BLOCK)

    def at(self, step: int) -> float:
        """Return the number of a step, in [0, 1)."""
        if not 0 <= step - self._first < self._BLOCK:
            self._first = step - step % self._BLOCK
            self._numbers = uniform(self._key, self._first, self._BLOCK)
        return float(self._numbers[step - self._first])


def choose_tokens(logits: Tensor, sampling: Sampling, random: list[float]) -> Tensor:
    """Return one token id per row.

    A token is drawn by inverting the cumulative distribution in the order of ids: a rounding difference in a
    probability then moves an interval's border a little, while an order by probability could swap whole intervals.

    Args:
        logits: (B, V) of any floating dtype.
        sampling: the settings.
        random: B numbers in [0, 1); not read at temperature 0.

    Returns:
        (B,) ids.
    """
    if sampling.temperature == 0:
        return logits.argmax(-1)
    scaled = logits.float() / sampling.temperature
    if sampling.top_k == 0 and sampling.top_p >= 1 and sampling.min_p == 0:
        return _invert(scaled.softmax(-1), random)
    values, ids = _candidates(scaled, sampling)
    ids, order = ids.sort(-1)
    chosen = _invert(values.gather(-1, order), random)
    return ids.gather(-1, chosen[:, None]).squeeze(-1)


def _invert(weights: Tensor, random: list[float]) -> Tensor:
    """Return for each row the first index whose cumulated weight exceeds the row's share of the whole."""
    cumulated = weights.double().cumsum(-1)
    share = torch.tensor(random, dtype=torch.float64, device=weights.device)[:, None] * cumulated[:, -1:]
    chosen = torch.searchsorted(cumulated, share, right=True).squeeze(-1)
    return chosen.clamp(max=weights.shape[-1] - 1)


def _candidates(scaled: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Return (weights, ids), (B, C) each, of at least all tokens kept; those not kept have weight 0."""
    size = scaled.shape[-1]
    probability = scaled.softmax(-1)
    count = min(sampling.top_k or _FIRST_CANDIDATES, size)
    while True:
        values, ids = probability.topk(count, sorted=True)
        kept = values / values.sum(-1, keepdim=True) if sampling.top_k else values
        before = kept.cumsum(-1) - kept
        nucleus = (before < sampling.top_p) & (values >= sampling.min_p * values[:, :1])
        nucleus[:, 0] = True  # the most likely token always stays
        # Everything that is kept has been seen if something less likely was looked at and not kept
        if sampling.top_k or count == size or not bool(nucleus[:, -1].any()):
            return torch.where(nucleus, values, 0), ids
        count = min(4 * count, size)
