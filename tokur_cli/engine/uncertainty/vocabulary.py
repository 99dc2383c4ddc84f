"""From hidden states to per-token quantities, in blocks of tokens: logits of all members are never held at once.

The head multiplies blocks that are large enough to run at the machine's speed; what follows runs over a few tokens of
a block at a time, which on a CPU stay in its cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection
from typing import Literal

import torch
from torch import Tensor

from tokur_cli.engine.precision import on_float64_device
from tokur_cli.engine.uncertainty.distributions import Distributions, divergences, mean_of_draws

TOP_K = 20  # candidates in DeepConf's token confidence (Fu et al. 2025)
# Logits of a block in the model's dtype (on a CPU less than what malloc gives back to the system each time), and those
# of the tokens that are reduced together in float32 (on a CPU about a core's own cache, for each thread)
_BLOCK_BYTES = {"cpu": 24 << 20}
_REDUCED_BYTES = {"cpu": 5 << 19}
_ACCELERATOR_BYTES = 1 << 28
_FIRST_BLOCK = 4  # tokens, before the vocabulary's size is known
_ROWS = 96  # of a product with the head, or more: with few, reading the head takes longer than multiplying

Estimator = Literal["paper", "kl", "fisher"]
COMPARISONS = ("kl", "top1_agreement", "accuracy", "base_accuracy")
ALTERNATIVES = ("likeliest", "likeliest_p", "likeliest_mean", "of_draws")
"""What ``token_quantities`` gives of a token's alternatives: more than a number each."""


def token_quantities(
    logits: Callable[[Tensor], Tensor],
    hidden: Tensor,
    targets: Tensor,
    starts: Tensor,
    *,
    joint: bool = False,
    log_weights: Tensor | None = None,
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

    Args:
        logits: from (1, n, d) hidden states to (1, n, V) logits.
        hidden: (1 + M, N, d): for each response token, the state that predicts it, under W_0 and under each draw;
            responses one after another.
        targets: (N,) ids y of the response tokens.
        starts: (N,) index of the first token of each token's response, on the CPU.
        joint: weights w_m,t ∝ Π_{s<t} p_m(y_s) over the response so far, rather than 1/M.
        log_weights: (M, N) their logarithms up to a constant, on the CPU, where they are known.
        estimator: of ``eu``.
        on_demand: those wanted of ``eu_kl`` and ``eu_fisher``, beside ``eu``, and ``margin``.
        compare: whether the comparisons are wanted.
        alternatives: K, or as many as the vocabulary has; 0 for no alternatives.

    Returns:
        name → (N,) float32 on the CPU, in the order of the records, and the alternatives; nothing of draws where M = 0.
    """
    members, total, _ = hidden.shape
    weights = _JointWeights(members - 1, starts) if joint else None
    # Filled in place: small results that stay between the blocks would keep the allocator from using their places again
    quantities: dict[str, Tensor] = {}
    first, block = 0, _FIRST_BLOCK
    while first < total:
        block_logits = logits(hidden[:, first : first + block].flatten(0, 1)[None])[0].unflatten(0, (members, -1))
        block, reduced = _block_sizes(block_logits)
        for part in block_logits.split(reduced, dim=1):
            entries = targets[first : first + part.shape[1]]
            distributions = Distributions(part)
            chosen = distributions.log_p(entries)  # (1 + M, n)
            shares = weights.next(chosen[1:]) if weights else None
            if log_weights is not None:
                shares = log_weights[:, first : first + part.shape[1]].softmax(0).float().to(part.device)
            row = _reduce(distributions, chosen[0], shares, estimator, on_demand)
            if compare:
                row |= _compare(distributions, entries)
            if alternatives:
                row |= _alternatives(distributions, shares, alternatives)
            for name, values in row.items():
                if name not in quantities:
                    quantities[name] = values.new_empty(total, *values.shape[1:])
                quantities[name][first : first + len(values)] = values
            first += part.shape[1]
        del block_logits, part, distributions  # else they would stand beside the next block's
    return {name: values.cpu() for name, values in quantities.items()}


def most_bytes(entries: int, itemsize: int, device: str, *, capped: bool) -> int:
    """Return what logits take at most, of all tokens together, with what is reduced of them at a time in float32.

    Args:
        entries: of all logits.
        itemsize: bytes of one.
        device: the kind that they are on.
        capped: whether the head caps them, which makes another block of one.
    """
    block, reduced = (sizes.get(device, _ACCELERATOR_BYTES) for sizes in (_BLOCK_BYTES, _REDUCED_BYTES))
    block = min(entries * itemsize, block)
    return block + max(4 * min(4 * entries, reduced), block * capped)


def _block_sizes(logits: Tensor) -> tuple[int, int]:
    """Return how many tokens a block of logits like these may have, and how many are reduced together."""
    device = logits.device.type
    entries = logits.shape[0] * logits.shape[-1]  # of a token
    block = max(
        _ROWS // logits.shape[0], _BLOCK_BYTES.get(device, _ACCELERATOR_BYTES) // (entries * logits.dtype.itemsize)
    )
    threads = torch.get_num_threads() if device == "cpu" else 1
    reduced = threads * _REDUCED_BYTES.get(device, _ACCELERATOR_BYTES) // (entries * 4)
    return max(1, block), max(1, reduced)


def _reduce(
    distributions: Distributions,
    chosen: Tensor,
    weights: Tensor | None,
    estimator: Estimator,
    on_demand: Collection[str],
) -> dict[str, Tensor]:
    """Reduce a block, in the order of the records: chosen (n,) is log p_0(y), weights (M, n) or None for 1/M."""
    size = distributions.logits.shape[-1]
    of_base = {
        "self_certainty": -distributions.mean() - math.log(size),
        "deepconf": -distributions.mean_of_largest(min(TOP_K, size)),
    }
    entropies, estimates = distributions.sums(weights, {f"eu_{estimator}", *on_demand} - {"margin"})
    if "margin" in on_demand:
        p = distributions.p_of(distributions.likeliest(2))[0]  # (n, 2)
        of_base["margin"] = p[:, 0] - p[:, 1]
    of_draws = {}
    if len(entropies) > 1:
        au, eu = mean_of_draws(entropies[1:], weights), estimates[f"eu_{estimator}"]
        further = {name: values for name, values in estimates.items() if name in on_demand}
        of_draws = {"tu": au + eu, "au": au, "eu": eu, **further}
    return {"logprob": chosen.clone(), "entropy": entropies[0], **of_draws, **of_base}


def _compare(distributions: Distributions, targets: Tensor) -> dict[str, Tensor]:
    """Compare the draws of a block with the mean weights: targets (n,); after ``entropies``."""
    likeliest = distributions.logits.argmax(-1)  # (1 + M, n)
    return {
        "kl": divergences(distributions).mean(0),
        "top1_agreement": (likeliest[1:] == likeliest[0]).float().mean(0),
        "accuracy": (likeliest[1:] == targets).float().mean(0),
        "base_accuracy": (likeliest[0] == targets).float(),
    }


def _alternatives(distributions: Distributions, weights: Tensor | None, count: int) -> dict[str, Tensor]:
    """Return a block's ``count`` likeliest tokens, and the likeliest one of each draw; after ``sums``."""
    likeliest = distributions.likeliest(min(count, distributions.logits.shape[-1]))  # (n, K)
    p = distributions.p_of(likeliest)  # (1 + M, n, K)
    found = {"likeliest": likeliest, "likeliest_p": p[0]}
    if len(p) > 1:
        found["likeliest_mean"] = mean_of_draws(p[1:], None if weights is None else weights[..., None])
        found["of_draws"] = distributions.logits[1:].argmax(-1).T  # (n, M)
    return found


class _JointWeights:
    """w_m,t ∝ Π_{s<t} p_m(y_s), block after block of responses that stand one after another.

    Args:
        members: M.
        starts: (N,) index of the first token of each token's response, on the CPU.
    """

    def __init__(self, members: int, starts: Tensor) -> None:
        self.starts: list[int] = starts.tolist()
        self.nothing = torch.zeros(members, 1, dtype=torch.float64)
        self.sum = self.nothing  # (M, 1) log p_m of the last token's response so far
        self.done = 0

    def next(self, chosen: Tensor) -> Tensor:
        """Return the weights (M, n) of the next n tokens, whose log p_m(y) are ``chosen`` (M, n)."""
        device, chosen = chosen.device, on_float64_device(chosen).double()
        sums = []
        first, self.done = self.done, self.done + chosen.shape[1]
        for start, tokens in itertools.groupby(self.starts[first : self.done]):
            # Each response has a sum of its own: one that is not finite must not reach the next
            so_far = self.nothing.to(chosen.device) if start >= first else self.sum
            part, chosen = chosen.tensor_split([len(list(tokens))], dim=1)
            so_far = torch.cat([so_far, part], dim=1).cumsum(1)
            sums.append(so_far[:, :-1])
            self.sum = so_far[:, -1:]
        return torch.cat(sums, dim=1).softmax(0).float().to(device)
