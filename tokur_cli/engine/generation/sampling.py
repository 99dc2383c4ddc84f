"""From logits to the next token: temperature, top-k, top-p and min-p, with numbers that depend on their key alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tokur_cli.engine.noise import uniform
from tokur_cli.engine.precision import on_float64_device

_GROUP, _SMALL_GROUP = 256, 64  # neighbours in the vocabulary that are first looked at together
_ENTRIES = {"cpu": 1 << 20}  # of the vocabulary, over all rows, that are worked on at once: they stay in the cache
_ACCELERATOR_ENTRIES = 1 << 27
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
        (B,) ids, −1 in rows of which the largest logit is not finite; on the CPU where the device has no float64.
    """
    if sampling.temperature > 0:
        logits = on_float64_device(logits)
    together = max(1, _ENTRIES.get(logits.device.type, _ACCELERATOR_ENTRIES) // logits.shape[-1])
    if sampling.temperature == 0:
        return torch.cat([_first_largest(rows) for rows in logits.split(together)])
    uniform = torch.tensor(random, dtype=torch.float64, device=logits.device)
    pairs = zip(logits.split(together), uniform.split(together), strict=True)
    return torch.cat([_draw(rows, sampling, numbers) for rows, numbers in pairs])


def _draw(logits: Tensor, sampling: Sampling, random: Tensor) -> Tensor:
    """Draw ids (b,) from logits (b, V) by random numbers (b,)."""
    scaled = logits.to(torch.float32, copy=True)
    largest = scaled.amax(-1, keepdim=True)
    scaled -= largest  # before they are divided: by a tiny temperature they would be infinite
    scaled /= max(sampling.temperature, torch.finfo(torch.float32).tiny)
    weights = scaled.exp_()
    if sampling.top_k == 0 and sampling.top_p >= 1 and sampling.min_p == 0:
        ids = _invert(weights, random)
    else:
        values, candidates = _candidates(weights, sampling)
        candidates, order = candidates.sort(-1)
        ids = candidates.gather(-1, _invert(values.gather(-1, order), random)[:, None]).squeeze(-1)
    return torch.where(largest.squeeze(-1).isfinite(), ids, -1)


def _first_largest(logits: Tensor) -> Tensor:
    """Return where each row's largest value stands first, found by groups: PyTorch's own search is slow in bfloat16."""
    maxima, group = _groups(logits, lambda part: part.amax(-1)).float().max(-1)
    ids, values = _members(logits, group, float("-inf"))
    found = ids.gather(-1, values.float().argmax(-1, keepdim=True)).squeeze(-1)
    return torch.where(maxima.isfinite(), found, -1)


def _groups(values: Tensor, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    """Reduce groups of neighbours, the last one what is left: (b, V) to (b, groups)."""
    whole = values.shape[-1] // _GROUP * _GROUP
    parts = [reduce(values[:, :whole].unflatten(-1, (-1, _GROUP)))] if whole else []
    if whole < values.shape[-1]:
        parts.append(reduce(values[:, whole:])[:, None])
    return torch.cat(parts, dim=-1)


def _members(values: Tensor, group: Tensor, beyond: float) -> tuple[Tensor, Tensor]:
    """Return ids and values, (b, group size) each, of a group a row: group (b,); past the end, ``beyond`` as value."""
    ids = group[:, None] * _GROUP + torch.arange(_GROUP, device=values.device)
    last = values.shape[-1] - 1
    return ids, values.gather(-1, ids.clamp(max=last)).masked_fill(ids > last, beyond)


def _invert(weights: Tensor, random: Tensor) -> Tensor:
    """Return for each row the first index whose cumulated weight exceeds the row's share of the whole.

    Groups of neighbours first, then within the group: their sums alone are cumulated in float64.

    Args:
        weights: (b, n), not negative.
        random: (b,) shares in [0, 1).
    """
    cumulated = _groups(weights, lambda part: part.sum(-1)).double().cumsum(-1)
    share = random[:, None] * cumulated[:, -1:]
    group = torch.searchsorted(cumulated, share, right=True).clamp_(max=cumulated.shape[-1] - 1)
    before = torch.where(group > 0, cumulated.gather(-1, (group - 1).clamp(min=0)), 0)
    # As a share of the group's, whose sum in float32 was rounded; less than 1, so that a weight of 0 is never chosen
    share = ((share - before) / (cumulated.gather(-1, group) - before)).clamp_(max=1 - 2**-53)
    ids, members = _members(weights, group.squeeze(-1), 0)
    within = members.double().cumsum(-1)
    chosen = torch.searchsorted(within, share * within[:, -1:], right=True).clamp_(max=_GROUP - 1)
    return ids.gather(-1, chosen).squeeze(-1).clamp_(max=weights.shape[-1] - 1)  # beyond it where weights are NaN


def _candidates(weights: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Return (weights, ids), (b, C) each, of at least all tokens kept; those not kept have weight 0."""
    size = weights.shape[-1]
    whole = weights.sum(-1, keepdim=True)
    count = min(sampling.top_k or _FIRST_CANDIDATES, size)
    while True:
        values, ids = _largest(weights, count)
        kept = values / (values.sum(-1, keepdim=True) if sampling.top_k else whole)
        before = kept.cumsum(-1) - kept
        nucleus = (before < sampling.top_p) & (values >= sampling.min_p * values[:, :1])
        nucleus[:, 0] = True  # the most likely token always stays
        # Everything that is kept has been seen if something less likely was looked at and not kept
        if sampling.top_k or count == size or not bool(nucleus[:, -1].any()):
            return torch.where(nucleus, values, 0), ids
        count = min(4 * count, size)


def _largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest of each row (b, V) in falling order, and their ids.

    They lie in the groups with the ``count`` largest maxima, which are found in one quick pass.
    """
    whole = values.shape[-1] // _SMALL_GROUP * _SMALL_GROUP
    if whole < 4 * count * _SMALL_GROUP:
        largest, ids = values.topk(count)
        return largest, ids
    groups = values[:, :whole].unflatten(-1, (-1, _SMALL_GROUP)).amax(-1).topk(count, sorted=False).indices
    everywhere = torch.arange(values.shape[-1], device=values.device)
    ids = (groups[..., None] * _SMALL_GROUP + everywhere[:_SMALL_GROUP]).flatten(1)
    ids = torch.cat([ids, everywhere[whole:].expand(len(ids), -1)], dim=-1)
    largest, places = values.gather(-1, ids).topk(count)
    return largest, ids.gather(-1, places)
