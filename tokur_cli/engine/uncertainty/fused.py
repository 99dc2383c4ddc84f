"""The reduction of logits on a GPU, in two reads of them, by kernels in Triton, which comes with PyTorch for GPUs.

PyTorch's operations write a block down in float32 and pass over it some fifteen times: 76 to 85 bytes a logit. Here the
first kernel reads each distribution for its largest logit and its denominator, the second all members of a token
together: with what the head writes 6 bytes a logit in bfloat16.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language import constexpr

from tokur_cli.engine.uncertainty.distributions import GROUP, largest, mean_of_draws, places_of_largest

_BLOCK = 2048  # entries that a program has in hand, of all draws together
_WARPS = 8


class FusedDistributions:
    """What ``Distributions`` tells of logits, which stay as they are.

    Args:
        logits: (1 + M, n, V) in any dtype, the vocabulary's entries side by side.
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        members, tokens, self._size = logits.shape
        self._largest, self._total = (self._empty(members, tokens) for _ in range(2))
        self._mean, self._maxima = self._empty(tokens), self._empty(tokens, self._size // GROUP)
        block = min(_BLOCK, max(GROUP, triton.next_power_of_2(self._size)))
        _normalise[tokens, members](
            logits, *logits.stride()[:2], self._size, self._largest, self._total, self._mean, self._maxima,
            tokens, self._maxima.shape[1], block, GROUP, num_warps=_WARPS, enable_fp_fusion=True,
        )  # fmt: skip

    def _empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float32, device=self.logits.device)

    def log_p(self, entries: Tensor) -> Tensor:
        """Return log p, (1 + M, n), of an entry (n,) of the vocabulary each."""
        return self._log_p_of(entries[:, None]).squeeze(-1)

    def p_of(self, places: Tensor) -> Tensor:
        """Return p, (1 + M, n, K), of K entries (n, K) of the vocabulary each."""
        return self._log_p_of(places).exp()

    def _log_p_of(self, places: Tensor) -> Tensor:
        there = self.logits.gather(2, places.expand(len(self.logits), -1, -1)).float()
        return there - self._largest[..., None] - self._total[..., None]

    def mean(self) -> Tensor:
        """Return the mean of log p_0 over the vocabulary, (n,)."""
        return self._mean

    def mean_of_largest(self, count: int) -> Tensor:
        """Return the mean of the ``count`` largest log p_0, (n,)."""
        found = largest(self.logits[0], count, self._maxima).float()
        return (found - self._largest[0, :, None]).mean(-1) - self._total[0]

    def likeliest(self, count: int) -> Tensor:
        """Return the ``count`` likeliest entries under p_0, (n, count), the likeliest first."""
        return places_of_largest(self.logits[0], count, self._maxima)

    def sums(self, weights: Tensor | None, wanted: Collection[str]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return entropies and estimates of the epistemic uncertainty, as ``Distributions.sums`` does."""
        draws, tokens = self._total[1:].shape
        shares = self._empty(draws, tokens).fill_(1 / max(1, draws)) if weights is None else weights.contiguous()
        entropies, spread = self._empty(1 + draws, tokens), self._empty(tokens)
        divergences, variances = self._empty(draws, tokens), self._empty(draws, tokens)
        padded = triton.next_power_of_2(max(1, draws))
        block = min(max(GROUP, _BLOCK // padded), triton.next_power_of_2(self._size))
        _reduce[tokens,](
            self.logits, *self.logits.stride()[:2], self._size, self._largest, self._total, shares,
            entropies, spread, divergences, variances,
            tokens, draws, padded, block, not set(wanted) <= {"eu_paper"}, num_warps=_WARPS, enable_fp_fusion=True,
        )  # fmt: skip
        estimates: dict[str, Tensor] = {}
        if draws:
            beside_base = {"eu_kl": divergences, "eu_fisher": variances / 2}
            estimates = {
                name: mean_of_draws(values.clamp(min=0), weights)
                for name, values in beside_base.items()
                if name in wanted
            }
            if "eu_paper" in wanted:
                estimates["eu_paper"] = spread.clamp(min=0)
        return entropies.clamp(min=0), estimates


@triton.jit
def _normalise(
    logits, of_member, of_token, size,
    largest_of, total_of, mean_of, maxima_of,
    tokens, groups, BLOCK: constexpr, GROUP: constexpr,
):  # fmt: skip
    """Write the largest logit and log Σ exp(logit − largest) of a distribution, and what else a base one tells."""
    token, member = tl.program_id(0), tl.program_id(1)
    row = logits + member.to(tl.int64) * of_member + token.to(tl.int64) * of_token
    largest, denominator, summed = -float("inf"), 0.0, 0.0
    for first in range(0, size, BLOCK):
        entries = first + tl.arange(0, BLOCK)
        values = tl.load(row + entries, mask=entries < size, other=-float("inf")).to(tl.float32)
        maxima = tl.max(tl.reshape(values, (BLOCK // GROUP, GROUP)), axis=1)
        before, largest = largest, tl.maximum(largest, tl.max(maxima, axis=0))
        reference = tl.where(largest == -float("inf"), 0.0, largest)  # −∞ − −∞ is no number
        denominator = denominator * tl.exp(before - reference) + tl.sum(tl.exp(values - reference), axis=0)
        if member == 0:
            summed += tl.sum(tl.where(entries < size, values, 0.0), axis=0)
            places = first // GROUP + tl.arange(0, BLOCK // GROUP)
            tl.store(maxima_of + token.to(tl.int64) * groups + places, maxima, mask=places < groups)
    total = tl.where(denominator > 0, tl.log(denominator), float("nan"))
    tl.store(largest_of + member * tokens + token, largest)
    tl.store(total_of + member * tokens + token, total)
    if member == 0:
        tl.store(mean_of + token, summed / size - largest - total)


@triton.jit
def _reduce(
    logits, of_member, of_token, size, largest_of, total_of, weight_of,
    entropy_of, spread_of, divergence_of, variance_of,
    tokens, draws, DRAWS: constexpr, BLOCK: constexpr, BESIDE_BASE: constexpr,
):  # fmt: skip
    """Write a token's entropies and divergences.

    What the mixture has beyond the draws' entropies is summed as Σ_v Σ_m w_m p_m (log p_m − log p̄), entry by entry:
    no large numbers are subtracted.
    """
    token = tl.program_id(0).to(tl.int64)
    draw = tl.arange(0, DRAWS)
    there = draw < draws
    base_row = logits + token * of_token
    rows = base_row + (draw + 1).to(tl.int64)[:, None] * of_member
    base_largest, base_total = tl.load(largest_of + token), tl.load(total_of + token)
    place = (draw + 1) * tokens + token
    largest = tl.load(largest_of + place, mask=there, other=0.0)[:, None]
    total = tl.load(total_of + place, mask=there, other=0.0)[:, None]
    weight = tl.load(weight_of + draw * tokens + token, mask=there, other=0.0)[:, None]
    zeros = tl.zeros([DRAWS, BLOCK], tl.float32)
    base_entropy = tl.zeros([BLOCK], tl.float32)
    entropy, spread, first_moment, second_moment = zeros, zeros, zeros, zeros
    for first in range(0, size, BLOCK):
        entries = first + tl.arange(0, BLOCK)
        inside = entries < size
        base_logit = tl.load(base_row + entries, mask=inside, other=-float("inf")).to(tl.float32)
        base = _log_p(base_logit, base_largest, base_total)
        base_p = tl.exp(base)
        base_entropy -= base_p * base
        logit = tl.load(rows + entries[None, :], mask=there[:, None] & inside[None, :], other=-float("inf"))
        log_p = _log_p(logit.to(tl.float32), largest, total)
        p = tl.exp(log_p)
        entropy -= p * log_p
        mixture = tl.sum(weight * p, axis=0)
        log_mixture = tl.log(tl.where(mixture == 0, 1.0, mixture))[None, :]
        spread += tl.where(p == 0, 0.0, weight * p * (log_p - log_mixture))
        if BESIDE_BASE:
            nothing = (base_p[None, :] == 0) | (draw[:, None] >= draws)
            change = tl.where(nothing, 0.0, log_p - base[None, :])
            first_moment += base_p[None, :] * change
            second_moment += base_p[None, :] * change * change
    tl.store(entropy_of + token, tl.sum(base_entropy, axis=0))
    tl.store(entropy_of + place, tl.sum(entropy, axis=1), mask=there)
    tl.store(spread_of + token, tl.sum(tl.sum(spread, axis=1), axis=0))
    if BESIDE_BASE:
        mean = tl.sum(first_moment, axis=1)
        tl.store(divergence_of + draw * tokens + token, -mean, mask=there)
        tl.store(variance_of + draw * tokens + token, tl.sum(second_moment, axis=1) - mean * mean, mask=there)


@triton.jit
def _log_p(logit, largest, total):
    """Log-probabilities: finite where the logit is −∞, since 0·log 0 is 0, and NaN where there is no distribution."""
    return tl.where(logit == -float("inf"), -3.4028234663852886e38 + 0.0 * total, logit - largest - total)
