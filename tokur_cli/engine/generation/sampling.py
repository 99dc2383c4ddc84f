"""From logits to the next token: temperature, top-k, top-p and min-p, with numbers that depend on their key alone.

Rounding differs with the batch, and what it can change is kept small. Every token races for itself: its random number
depends on (seed, question, sample, step, token) alone, and two tokens swap only where they tie. Inverting a cumulative
distribution would have a change of one probability move the borders of all tokens behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tokur_cli.engine.noise import WORDS_PER_COUNTER, words

_GROUP = 256  # neighbours in the vocabulary that race together
_CPU_ENTRIES, _ENTRIES = 1 << 20, 1 << 27  # of all rows that are worked on at once: on a CPU they stay in its cache
_FIRST_CANDIDATES = 64  # for a nucleus; four times as many when these are not enough


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen; filters apply in this order, each to what the one before it kept.

    Tokens that are equally likely stay or go together.
    """

    temperature: float = 0.0  # 0 takes the most likely token; else logits are divided by it
    top_k: int = 0  # keep the k most likely tokens; 0 keeps all
    # Keep the smallest set of most likely tokens whose probability reaches it (Holtzman et al. 2020)
    top_p: float = 1.0
    min_p: float = 0.0  # keep tokens with at least this share of the most likely one's probability (Nguyen et al. 2025)
    seed: int = 0  # of the random numbers


def random_word(seed: int, key: str, sample: int, token: int, step: int | None = None) -> int:
    """Return the 64 random bits of a token, as a signed integer: the same whatever else is generated with it.

    Args:
        seed: the run's.
        key: the question's id.
        sample: which of the question's responses.
        token: which token of it, or of its step.
        step: of a generation in steps, each of which has words of its own; None for a response in one go.
    """
    stream = (seed, "sample", key, sample) if step is None else (seed, "particle", key, sample, step)
    first = token - token % WORDS_PER_COUNTER
    return int(words(stream, first, WORDS_PER_COUNTER).view("int64")[token - first])


def choose_tokens(logits: Tensor, sampling: Sampling, random: Sequence[int]) -> Tensor:
    """Return one token id per row.

    Args:
        logits: (B, V) of any floating dtype.
        sampling: the settings.
        random: B words of 64 bits, as signed integers; not read at temperature 0.

    Returns:
        (B,) ids, −1 in rows of which the largest logit is not finite; on the CPU where the device has no float64.
    """
    if sampling.temperature == 0:
        largest, ids = logits.max(-1)  # the first of equal ones
        return ids.where(largest.isfinite(), -1)
    logits = logits.cpu() if logits.device.type == "mps" else logits  # a Mac's GPU, which has no float64
    together = max(1, (_CPU_ENTRIES if logits.device.type == "cpu" else _ENTRIES) // logits.shape[-1])
    bits = torch.tensor(random, dtype=torch.long, device=logits.device)
    chosen = []
    for rows, words_of_rows in zip(logits.split(together), bits.split(together), strict=True):
        weights = rows.to(torch.float32, copy=True)
        largest = weights.amax(-1, keepdim=True)
        weights -= largest  # before they are divided: by a tiny temperature they would be infinite
        weights /= max(sampling.temperature, torch.finfo(torch.float32).tiny)
        weights.exp_()
        _leave_out(weights, sampling)
        chosen.append(_race(weights, words_of_rows).where(largest.squeeze(-1).isfinite(), -1))
    return torch.cat(chosen)


def _race(weights: Tensor, random: Tensor) -> Tensor:
    """Draw an index per row in proportion to the weights: the one of least E / weight, for exponential numbers E.

    (That is the largest of log weight + G, for Gumbel numbers G = −log E.) Groups of neighbours race first, then the
    members of the winner: few numbers are needed. Where rounding changes weights a little, the index changes hardly
    more often than any draws from the two distributions must differ.

    Args:
        weights: (b, n), not negative, some above 0.
        random: (b,) words of 64 bits.
    """
    sums = _group_sums(weights)
    places = torch.arange(-sums.shape[-1], 0, device=weights.device)  # below those of tokens
    group = (sums / _exponential(random, places.flip(0))).argmax(-1)
    ids = group[:, None] * _GROUP + torch.arange(_GROUP, device=weights.device)
    last = weights.shape[-1] - 1
    members = weights.gather(-1, ids.clamp(max=last)).masked_fill(ids > last, 0)
    winner = (members / _exponential(random, ids)).argmax(-1, keepdim=True)
    return ids.gather(-1, winner).squeeze(-1)


def _group_sums(weights: Tensor) -> Tensor:
    """Return the sums of groups of neighbours, the last one what is left: (b, n) to (b, groups)."""
    whole = weights.shape[-1] // _GROUP * _GROUP
    sums = weights[:, :whole].unflatten(-1, (-1, _GROUP)).sum(-1)
    return torch.cat([sums, weights[:, whole:].sum(-1, keepdim=True)], dim=-1)


def _exponential(random: Tensor, places: Tensor) -> Tensor:
    """Return numbers of the exponential distribution, float64 (b, n), for words (b,) and places (n,) or (b, n).

    They are computed from the bits of both, as a hash is: so one asks for the few that are wanted.
    """
    bits = _mixed(random[:, None] ^ _mixed(places))
    return -((_shifted(bits, 12).double() + 0.5) * 2.0**-52).log()  # of uniform numbers within (0, 1)


def _mixed(bits: Tensor) -> Tensor:
    """Return a one-to-one map of 64 bits of which every one changes about half of them: SplitMix64's.

    Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators", with Stafford's constants.
    """
    bits = (bits ^ _shifted(bits, 30)) * -0x40A7B892E31B1A47  # as signed integers, whose products wrap
    bits = (bits ^ _shifted(bits, 27)) * -0x6B2FB644ECCEEE15
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Tensor, places: int) -> Tensor:
    """Shift 64 bits to the right, zeros coming in."""
    return (bits >> places) & ((1 << (64 - places)) - 1)


def _leave_out(weights: Tensor, sampling: Sampling) -> None:
    """Set the weights (b, V) of tokens that are not kept to 0; the largest of each row is 1.

    Every filter says how small a weight may be: no order among equal ones decides, which the batch could change.
    """
    if sampling.top_k:
        _keep(weights, weights.topk(min(sampling.top_k, weights.shape[-1])).values[:, -1:])
    if sampling.top_p < 1:
        _keep(weights, _smallest_of_nucleus(weights, sampling.top_p))
    if sampling.min_p:
        _keep(weights, weights.new_full((), sampling.min_p))


def _keep(weights: Tensor, smallest: Tensor) -> None:
    """Set weights below the smallest one that is kept to 0: as a product, since masks are slow on a CPU."""
    weights *= torch.ge(weights, smallest, out=torch.empty_like(weights))


def _smallest_of_nucleus(weights: Tensor, share: float) -> Tensor:
    """Return the smallest weight (b, 1) of those that are kept: less than the share is of larger ones."""
    size = weights.shape[-1]
    wanted = share * _group_sums(weights).double().sum(-1, keepdim=True)
    candidates = _FIRST_CANDIDATES
    while True:
        values = weights.topk(min(candidates, size)).values
        kept = nn.functional.pad(values[:, :-1].double().cumsum(-1), (1, 0)) < wanted
        # All that is kept has been seen if something less likely was looked at and not kept
        if candidates >= size or not bool(kept[:, -1].any()):
            return values.gather(-1, kept.sum(-1, keepdim=True).clamp(min=1) - 1)  # the likeliest always stays
        candidates *= 4
