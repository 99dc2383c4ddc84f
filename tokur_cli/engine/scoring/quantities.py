"""From hidden states to per-token quantities, in blocks of tokens: logits of all members are never held at once.

The head multiplies blocks that are large enough to run at the machine's speed; what follows runs over a few tokens of
a block at a time, which on a CPU stay in its cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Literal

import torch
from torch import Tensor

_GROUP = 64  # entries of the vocabulary whose largest stands for them in the search for the largest of all
TOP_K = 20  # candidates in DeepConf's token confidence (Fu et al. 2025)
# Logits of a block in the model's dtype (on a CPU less than what malloc gives back to the system each time), and those
# of the tokens that are reduced together in float32 (on a CPU about a core's own cache, for each thread)
_BLOCK_BYTES = {"cpu": 24 << 20}
_REDUCED_BYTES = {"cpu": 5 << 19}
_ACCELERATOR_BYTES = 1 << 28
_ROWS = 96  # of a product with the head, or more: with few, reading the head takes longer than multiplying

Estimator = Literal["paper", "kl", "fisher"]
COMPARISONS = ("kl", "top1_agreement", "accuracy", "base_accuracy")
ALTERNATIVES = ("likeliest", "likeliest_p", "likeliest_mean", "of_draws")
"""What ``token_quantities`` gives of a token's alternatives: more than a number each."""


def token_quantities(
    logits: Callable[[Tensor], Tensor],
    hidden: Tensor,
    targets: Tensor,
    counts: Sequence[int],
    *,
    before: Tensor | None = None,
    estimator: Estimator = "paper",
    on_demand: Collection[str] = (),
    compare: bool = False,
    alternatives: int = 0,
) -> dict[str, Tensor]:
    """Reduce the distributions over the vocabulary to a few numbers per token.

    With p_0 under the mean weights, p_1 … p_M under the draws, p̄ = Σ_m w_m p_m and all entropies in nats:

        logprob         log p_0(y)
        entropy         H[p_0]
        self_certainty  KL(uniform ‖ p_0) = −mean_v log p_0(v) − log V     (Kang et al. 2025)
        deepconf        −mean of the 20 largest log p_0                     (Fu et al. 2025)
        margin          the largest p_0 minus the next; on demand
        au              Σ_m w_m H[p_m]
        eu              max(H[p̄] − au, 0)
        tu              au + eu, which is H[p̄]

    That ``eu`` is the paper's: a divergence among M draws, whose mean is about (M − 1)/M of its limit for many draws.
    Two estimators of that limit set each draw beside the mean weights instead, which are computed anyway. For small
    changes δz of the logits, with F = diag(p_0) − p_0 p_0ᵀ their Fisher matrix, all three limits are E[δzᵀFδz]/2:

        eu_kl           Σ_m w_m KL(p_0 ‖ p_m)
        eu_fisher       Σ_m w_m δz_mᵀ F δz_m / 2 = Σ_m w_m Var_{v ∼ p_0}[z_m(v) − z_0(v)] / 2

    They are ``eu`` in place of the paper's where the estimator is ``kl`` or ``fisher``, and stand beside it under these
    names on demand. To compare the draws with the mean weights, there are, as means over the draws:

        kl              KL(p_0 ‖ p_m)
        top1_agreement  1 where p_m and p_0 have the same likeliest token, else 0
        accuracy        1 where y is the likeliest token under p_m, else 0
        base_accuracy   the same under p_0

    and, to see what else might have been written, of the K likeliest tokens under p_0, the likeliest first:

        likeliest       (N, K) their ids, int64
        likeliest_p     (N, K) p_0
        likeliest_mean  (N, K) p̄
        of_draws        (N, M) the id of each draw's likeliest token, int64

    With joint weights w_m,t ∝ Π_{s<t} p_m(y_s) over the response so far, rather than 1/M, there is

        draw_log_p      (N, M) log p_m(y)

    Args:
        logits: from (1, n, d) hidden states to (1, n, V) logits.
        hidden: (1 + M, N, d): for each response token, the state that predicts it, under W_0 and under each draw;
            responses one after another.
        targets: (N,) ids y of the response tokens.
        counts: tokens of each of R responses.
        before: (R, M) float64 on the CPU, for joint weights: log p_m of what each response had before these tokens;
            None for weights of 1/M.
        estimator: of ``eu``.
        on_demand: those wanted of ``eu_kl`` and ``eu_fisher``, beside ``eu``, and ``margin``.
        compare: whether the comparisons are wanted.
        alternatives: K, or as many as the vocabulary has; 0 for no alternatives.

    Returns:
        name → (N,) float32 on the CPU, in the order of the records, and the alternatives; nothing of draws where M = 0.
    """
    num_rows, total, _ = hidden.shape
    weights = None if before is None else _JointWeights(before, counts)
    # Filled in place: small results that stay between the blocks would keep the allocator from using their places again
    quantities: dict[str, Tensor] = {}
    first, block = 0, max(1, _ROWS // num_rows)  # before the vocabulary's size is known
    while first < total:
        block_logits = logits(hidden[:, first : first + block].flatten(0, 1)[None])[0].unflatten(0, (num_rows, -1))
        block, reduced = _block_sizes(block_logits)
        for some in block_logits.split(reduced, dim=1):
            place = slice(first, first + some.shape[1])
            distributions = _Distributions(some, targets[place], weights)
            row = distributions.quantities(estimator, on_demand)
            if weights:
                row["draw_log_p"] = distributions.chosen[1:].T
            if compare:
                row |= distributions.comparisons()
            if alternatives:
                row |= distributions.alternatives(alternatives)
            for name, values in row.items():
                if name not in quantities:
                    quantities[name] = values.new_empty(total, *values.shape[1:])
                quantities[name][place] = values
            first = place.stop
            del distributions  # else it would stand beside the next tokens'
        del block_logits, some
    return {name: values.cpu() for name, values in quantities.items()}


def _block_sizes(logits: Tensor) -> tuple[int, int]:
    """Return how many tokens a block of logits like these may have, and how many are reduced together."""
    device = logits.device.type
    entries = logits.shape[0] * logits.shape[-1]  # of a token
    block = _BLOCK_BYTES.get(device, _ACCELERATOR_BYTES) // (entries * logits.dtype.itemsize)
    threads = torch.get_num_threads() if device == "cpu" else 1
    reduced = threads * _REDUCED_BYTES.get(device, _ACCELERATOR_BYTES) // (entries * 4)
    return max(1, block, _ROWS // logits.shape[0]), max(1, reduced)


class _JointWeights:
    """w_m,t ∝ Π_{s<t} p_m(y_s), block after block of responses that stand one after another.

    Args:
        before: (R, M) float64 log p_m of what each response had before, on the CPU.
        counts: tokens of each response.
    """

    def __init__(self, before: Tensor, counts: Sequence[int]) -> None:
        firsts = itertools.accumulate(counts, initial=0)
        self._begin = dict(zip(firsts, before, strict=False))  # of a response, by its first token
        self._sum = before.new_zeros(before.shape[1])  # log p_m of the response so far
        self._done = 0

    def next(self, chosen: Tensor) -> Tensor:
        """Return the weights (M, n) of the next n tokens, whose log p_m(y) are ``chosen`` (M, n)."""
        sums = []
        for log_p in chosen.cpu().double().T:
            sums.append(self._begin.get(self._done, self._sum))
            self._sum = sums[-1] + log_p
            self._done += 1
        return torch.stack(sums, dim=1).softmax(0).float().to(chosen.device)


class _Distributions:
    """A block of n tokens' distributions in float32, with one exponential and no logarithm an entry.

    The exponentials are powers of 2: PyTorch's ``exp`` is MKL's, which is slow on AMD, and a softmax reads more.

    Args:
        logits: (1 + M, n, V) in any dtype, of the mean weights, p_0, and M draws.
        targets: (n,) the tokens y.
        weights: of the draws; None for 1/M.

    Attributes:
        chosen: (1 + M, n) log p(y).
    """

    def __init__(self, logits: Tensor, targets: Tensor, weights: _JointWeights | None) -> None:
        logits = logits.float()
        self._logits = logits - logits.amax(-1, keepdim=True)
        self._exp = (self._logits * math.log2(math.e)).exp2_()
        self._sum = self._exp.sum(-1)  # (1 + M, n): p is exp / sum, divided where few numbers are left
        self._total = self._sum.log()  # log p = logits − total
        self._targets = targets
        self.chosen = self._logits.gather(-1, targets.expand(len(logits), -1)[..., None]).squeeze(-1) - self._total
        draws = self.chosen[1:]
        self._weights = weights.next(draws) if weights else torch.ones_like(draws) / len(draws)  # (M, n)

    def _mean(self, values: Tensor) -> Tensor:
        """Return the mean over the draws of (M, n, …) values."""
        return torch.einsum("mn,mn...->n...", self._weights, values)

    def _p_of(self, places: Tensor) -> Tensor:
        """Return p, (1 + M, n, K), of K entries (n, K) of the vocabulary each."""
        return self._exp.gather(2, places.expand(len(self._exp), -1, -1)) / self._sum[..., None]

    def _finite(self) -> Tensor:
        """Return the logits, of which from now on none is −∞: 0·log 0 is 0."""
        return self._logits.clamp_(min=torch.finfo(torch.float32).min)

    def _under_base(self, values: Tensor) -> Tensor:
        """Return the means under p_0, (…, n), of (…, n, V) values."""
        means: Tensor = torch.linalg.vecdot(self._exp[:1], values) / self._sum[:1]
        return means

    def quantities(self, estimator: Estimator, on_demand: Collection[str]) -> dict[str, Tensor]:
        """Return the quantities in the order of the records."""
        logits, size = self._logits[0], self._logits.shape[-1]
        of_base = {
            "self_certainty": self._total[0] - logits.mean(-1) - math.log(size),
            "deepconf": self._total[0] - logits.gather(1, places_of_largest(logits, min(TOP_K, size))).mean(-1),
        }
        if "margin" in on_demand:
            p = self._p_of(places_of_largest(logits, 2))[0]  # (n, 2)
            of_base["margin"] = p[:, 0] - p[:, 1]
        # 0·log 0 is 0, also where a logit is −∞; a NaN of the model's own is in the total, too
        entropies = self._total - (self._exp * self._logits).nansum(-1) / self._sum
        found = {"logprob": self.chosen[0], "entropy": entropies[0]}
        if len(entropies) > 1:
            au = self._mean(entropies[1:])
            wanted = {f"eu_{estimator}", *on_demand}
            beside_base = {"eu_kl": self._divergences, "eu_fisher": self._fisher_terms}
            further = {name: self._mean(compute()) for name, compute in beside_base.items() if name in wanted}
            if estimator == "paper":  # 0 of one draw, but for rounding
                eu = (self._mixture_entropy() - au).clamp(min=0) * (len(entropies) > 2)
            else:
                eu = further[f"eu_{estimator}"]
            found |= {"tu": au + eu, "au": au, "eu": eu}
            found |= {name: values for name, values in further.items() if name in on_demand}
        return found | of_base

    def _mixture_entropy(self) -> Tensor:
        """Return H[Σ_m w_m p_m], (n,)."""
        weights = (self._weights / self._sum[1:])[..., None]
        mixture = self._exp[1] * weights[0]
        for values, weight in zip(self._exp[2:], weights[1:], strict=True):
            mixture.addcmul_(values, weight)  # a product of matrices would copy them all
        return -mixture.log().mul_(mixture).nansum(-1)

    def _divergences(self) -> Tensor:
        """Return KL(p_0 ‖ p_m), (M, n)."""
        across = self._total - self._under_base(self._finite())  # cross entropies of p_0 and p_m
        beyond: Tensor = across[1:] - across[0]
        return beyond.clamp(min=0)

    def _fisher_terms(self) -> Tensor:
        """Return δz_mᵀ F δz_m / 2, (M, n): half the variance under p_0 of the logits' changes."""
        logits = self._finite()
        changes = logits[1:] - logits[:1]
        mean = self._under_base(changes)
        return (self._under_base(changes.square_()) - mean.square()).clamp(min=0) / 2

    def comparisons(self) -> dict[str, Tensor]:
        """Compare the draws with the mean weights; after ``quantities``."""
        likeliest = self._logits.argmax(-1)  # (1 + M, n)
        return {
            "kl": self._divergences().mean(0),
            "top1_agreement": (likeliest[1:] == likeliest[0]).float().mean(0),
            "accuracy": (likeliest[1:] == self._targets).float().mean(0),
            "base_accuracy": (likeliest[0] == self._targets).float(),
        }

    def alternatives(self, count: int) -> dict[str, Tensor]:
        """Return the ``count`` likeliest tokens, and the likeliest one of each draw; after ``quantities``."""
        likeliest = places_of_largest(self._logits[0], min(count, self._logits.shape[-1]))  # (n, K)
        p = self._p_of(likeliest)  # (1 + M, n, K)
        found = {"likeliest": likeliest, "likeliest_p": p[0]}
        if len(p) > 1:
            found["likeliest_mean"] = self._mean(p[1:])
            found["of_draws"] = self._logits[1:].argmax(-1).T  # (n, M)
        return found


def places_of_largest(values: Tensor, count: int) -> Tensor:
    """Return where the ``count`` largest of each row (n, V) stand, the largest first.

    They lie in the groups with the ``count`` largest maxima, which are found in one quick pass.
    """
    grouped = values.shape[1] // _GROUP * _GROUP
    if grouped < 4 * count * _GROUP:
        return values.topk(count).indices
    begin = torch.arange(_GROUP, device=values.device)
    rest = torch.arange(grouped, values.shape[1], device=values.device)
    best = values[:, :grouped].unflatten(-1, (-1, _GROUP)).amax(-1).topk(count, sorted=False).indices  # (n, count)
    within = (best[..., None] * _GROUP + begin).flatten(1)
    places = torch.cat([within, rest.expand(len(values), -1)], dim=-1)
    return places.gather(1, values.gather(1, places).topk(count).indices)
