"""From hidden states to per-token quantities, in blocks of tokens: logits of all members are never held at once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

TOP_K = 20  # candidates in DeepConf's token confidence (Fu et al. 2025)
_BLOCK_BYTES = {"cpu": 16 << 20, "cuda": 1 << 28}  # of float32 logits: on a CPU about what its last cache holds

DRAW_QUANTITIES = ("tu", "au", "eu")
QUANTITIES = ("logprob", "entropy", *DRAW_QUANTITIES, "self_certainty", "deepconf")
COMPARISONS = ("kl", "top1_agreement", "accuracy", "base_accuracy")


@contextmanager
def logits_from(model: PreTrainedModel, outputs: ModelOutput) -> Iterator[Callable[[Tensor], Tensor]]:
    """Give a function from hidden states (1, n, d) to the model's own logits (1, n, V).

    The model's forward runs with its body left out, so whatever a family does after its last hidden state (soft caps,
    scalings, biases) is done, to the rows that are asked for only.

    Args:
        model: the model.
        outputs: what its body (``model.base_model``) returned for the batch.
    """
    body = model.base_model
    hidden: Tensor

    def stand_in(*_: object, **__: object) -> ModelOutput:
        return dataclasses.replace(outputs, last_hidden_state=hidden)  # type: ignore[type-var]

    def logits(states: Tensor) -> Tensor:
        nonlocal hidden
        hidden = states
        token = torch.zeros(states.shape[:2], dtype=torch.long, device=states.device)  # read by nobody
        result: Tensor = model(input_ids=token, use_cache=False).logits
        return result

    own = body.__dict__.get("forward")
    body.forward = stand_in
    try:
        yield logits
    finally:
        if own is None:
            del body.forward
        else:
            body.forward = own


def token_quantities(
    logits: Callable[[Tensor], Tensor],
    hidden: Tensor,
    targets: Tensor,
    starts: Tensor,
    *,
    joint: bool = False,
    compare: bool = False,
) -> dict[str, Tensor]:
    """Reduce the distributions over the vocabulary to a few numbers a token.

    With p_0 under the mean weights, p_1 … p_M under the draws, p̄ = Σ_m w_m p_m and all entropies in nats:

        logprob         log p_0(y)
        entropy         H[p_0]
        self_certainty  KL(uniform ‖ p_0) = −mean_v log p_0(v) − log V     (Kang et al. 2025)
        deepconf        −mean of the 20 largest log p_0                     (Fu et al. 2025)
        au              Σ_m w_m H[p_m]
        eu              max(H[p̄] − au, 0)
        tu              au + eu = H[p̄]

    and, to compare the draws with the mean weights, as means over the draws:

        kl              KL(p_0 ‖ p_m)
        top1_agreement  1 where p_m and p_0 have the same likeliest token, else 0
        accuracy        1 where y is the likeliest token under p_m, else 0
        base_accuracy   the same under p_0

    Args:
        logits: from (1, n, d) hidden states to (1, n, V) logits.
        hidden: (1 + M, N, d): for each response token, the state that predicts it, under W_0 and under each draw;
            responses one after another.
        targets: (N,) ids y of the response tokens.
        starts: (N,) index of the first token of each token's response.
        joint: weights w_m,t ∝ Π_{s<t} p_m(y_s) over the response so far, rather than 1/M.
        compare: whether the comparisons are wanted.

    Returns:
        name → (N,) float32 on the CPU; no tu, au and eu where M = 0.
    """
    members, total, _ = hidden.shape
    block = max(1, _BLOCK_BYTES.get(hidden.device.type, 1 << 28) // (4 * members * _vocabulary_size(logits, hidden)))
    weights = _JointWeights(members - 1, starts) if joint else None
    rows: list[dict[str, Tensor]] = []
    for first in range(0, total, block):
        states = hidden[:, first : first + block]
        log_p = logits(states.flatten(0, 1)[None])[0].float().log_softmax(-1)  # ((1+M)·n, V)
        log_p = log_p.unflatten(0, (members, -1))  # (1+M, n, V)
        chosen = log_p.gather(-1, targets[first : first + block].expand(members, -1)[..., None]).squeeze(-1)
        member_weights = weights.next(chosen[1:]) if weights else None
        rows.append(_reduce(log_p, chosen[0], member_weights))
        if compare:
            rows[-1] |= _compare(log_p, targets[first : first + block])
    return {
        name: torch.cat([row[name] for row in rows]).cpu() for name in (*QUANTITIES, *COMPARISONS) if name in rows[0]
    }


def _vocabulary_size(logits: Callable[[Tensor], Tensor], hidden: Tensor) -> int:
    return logits(hidden[:1, :1]).shape[-1]


def _reduce(log_p: Tensor, chosen: Tensor, weights: Tensor | None) -> dict[str, Tensor]:
    """Reduce a block: log_p (1 + M, n, V) is overwritten; chosen (n,) log p_0(y); weights (M, n) or None for 1/M."""
    base = log_p[0]
    size = base.shape[-1]
    quantities = {
        "logprob": chosen.clone(),
        "self_certainty": -base.mean(-1) - math.log(size),
        "deepconf": -base.topk(min(TOP_K, size), sorted=False).values.mean(-1),
    }
    log_p.clamp_(min=torch.finfo(log_p.dtype).min)  # 0·log 0 is 0, also where a logit is −∞
    p = log_p.exp()
    entropy = -torch.linalg.vecdot(p, log_p)  # (1+M, n)
    quantities["entropy"] = entropy[0]
    draws = log_p.shape[0] - 1
    if draws:
        if weights is None:
            mixture = p[1:].mean(0)
            quantities["au"] = entropy[1:].mean(0)
        else:
            mixture = torch.einsum("mn,mnv->nv", weights, p[1:])
            quantities["au"] = (weights * entropy[1:]).sum(0)
        total = torch.special.entr(mixture).sum(-1)
        quantities["eu"] = (total - quantities["au"]).clamp(min=0)
        quantities["tu"] = quantities["au"] + quantities["eu"]
    return quantities


def _compare(log_p: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Compare the draws of a block with the mean weights: log_p (1 + M, n, V), targets (n,)."""
    base, draws = log_p[0], log_p[1:]
    likeliest = log_p.argmax(-1)  # (1+M, n)
    return {
        "kl": torch.linalg.vecdot(base.exp(), base - draws).mean(0),
        "top1_agreement": (likeliest[1:] == likeliest[0]).float().mean(0),
        "accuracy": (likeliest[1:] == targets).float().mean(0),
        "base_accuracy": (likeliest[0] == targets).float(),
    }


class _JointWeights:
    """w_m,t ∝ Π_{s<t} p_m(y_s), block after block of responses that stand one after another.

    Args:
        members: M.
        starts: (N,) index of the first token of each token's response.
    """

    def __init__(self, members: int, starts: Tensor) -> None:
        self.starts = starts
        self.before = torch.zeros(members, starts.numel() + 1, dtype=torch.float64, device=starts.device)
        self.done = 0

    def next(self, chosen: Tensor) -> Tensor:
        """Return the weights (M, n) of the next n tokens, whose log p_m(y) are ``chosen`` (M, n)."""
        first, last = self.done, self.done + chosen.shape[1]
        self.before[:, first + 1 : last + 1] = self.before[:, first : first + 1] + chosen.double().cumsum(1)
        self.done = last
        evidence = self.before[:, first:last] - self.before[:, self.starts[first:last]]
        return evidence.softmax(0).float()
