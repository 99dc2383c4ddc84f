"""Distributions over the vocabulary in float32, and sums over their entries, by PyTorch's operations."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor

GROUP = 64  # entries of the vocabulary whose largest stands for them in the search for the largest of all


class Distributions:
    """Softmax in float32, with one exponential and no logarithm an entry: log p = logits − total.

    Args:
        logits: (1 + M, n, V) in any dtype, of the mean weights, p_0, and M draws; overwritten where they are float32.

    Attributes:
        logits: (1 + M, n, V) float32, moved so that the largest of a distribution is 0.
        total: (1 + M, n) log Σ exp(logits).
        p: (1 + M, n, V).
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits.float()
        self.logits -= self.logits.amax(-1, keepdim=True)
        self.p = self.logits.softmax(-1)
        self.total = -self.p.amax(-1).log()  # the largest logit is 0

    def log_p(self, entries: Tensor) -> Tensor:
        """Return log p, (1 + M, n), of an entry (n,) of the vocabulary each."""
        index = entries.expand(len(self.p), -1)[..., None]
        return self.logits.gather(-1, index).squeeze(-1) - self.total

    def p_of(self, places: Tensor) -> Tensor:
        """Return p, (1 + M, n, K), of K entries (n, K) of the vocabulary each."""
        return self.p.gather(2, places.expand(len(self.p), -1, -1))

    def mean(self) -> Tensor:
        """Return the mean of log p_0 over the vocabulary, (n,)."""
        return self.logits[0].mean(-1) - self.total[0]

    def mean_of_largest(self, count: int) -> Tensor:
        """Return the mean of the ``count`` largest log p_0, (n,)."""
        return largest(self.logits[0], count).mean(-1) - self.total[0]

    def likeliest(self, count: int) -> Tensor:
        """Return the ``count`` likeliest entries under p_0, (n, count), the likeliest first."""
        return places_of_largest(self.logits[0], count)

    def entropies(self) -> Tensor:
        """Return H[p], (1 + M, n); afterwards all logits are finite."""
        self.logits.clamp_(min=torch.finfo(torch.float32).min)  # 0·log 0 is 0, also where a logit is −∞
        # −Σ p·log p with the p that were rounded, whose sum is not quite 1, as the mixture's entropy is computed: what
        # rounding does to both cancels in their difference
        entropies: Tensor = self.total * self.p.sum(-1) - torch.linalg.vecdot(self.p, self.logits)
        return entropies

    def sums(self, weights: Tensor | None, wanted: Collection[str]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return entropies and estimates of the epistemic uncertainty; afterwards all logits are finite.

        Args:
            weights: of the draws, (M, n); None for 1/M.
            wanted: of ``eu_paper``, ``eu_kl`` and ``eu_fisher``.

        Returns:
            Entropies (1 + M, n), and (n,) by each of the names; none of them without a draw.
        """
        entropies = self.entropies().clamp(min=0)
        estimates: dict[str, Tensor] = {}
        if len(self.p) > 1:
            au = mean_of_draws(entropies[1:], weights)
            for name, compute in BESIDE_BASE.items():
                if name in wanted:
                    estimates[name] = mean_of_draws(compute(self), weights)
            if "eu_paper" in wanted:
                drawn = self.p[1:]
                mixture = drawn.mean(0) if weights is None else torch.einsum("mn,mnv->nv", weights, drawn)
                tu = -torch.linalg.vecdot(mixture, mixture.clamp(min=torch.finfo(torch.float32).tiny).log_())
                estimates["eu_paper"] = (tu - au).clamp(min=0)
        return entropies, estimates


def mean_of_draws(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean over the draws of (M, n) values, with weights (M, n) or None for 1/M."""
    return values.mean(0) if weights is None else (weights * values).sum(0)


def divergences(distributions: Distributions) -> Tensor:
    """Return KL(p_0 ‖ p_m), (M, n), of a block whose logits are finite."""
    logits, total = distributions.logits, distributions.total
    across = total - torch.linalg.vecdot(distributions.p[:1], logits)  # (1 + M, n) cross entropies of p_0 and p_m
    beyond: Tensor = across[1:] - across[0]
    return beyond.clamp(min=0)


def fisher_norms(distributions: Distributions) -> Tensor:
    """Return δz_mᵀ F δz_m, (M, n): the variance under p_0 of the logits' changes, which are finite."""
    changes = distributions.logits[1:] - distributions.logits[:1]
    base = distributions.p[:1]
    mean = torch.linalg.vecdot(base, changes)
    norms: Tensor = torch.linalg.vecdot(base, changes.square_()) - mean.square()
    return norms.clamp(min=0)


BESIDE_BASE: dict[str, Callable[[Distributions], Tensor]] = {
    "eu_kl": divergences,
    "eu_fisher": lambda distributions: fisher_norms(distributions) / 2,
}
"""What sets each draw beside the mean weights: (M, n) of a block whose logits are finite."""


def largest(values: Tensor, count: int, maxima: Tensor | None = None) -> Tensor:
    """Return the ``count`` largest of each row (n, V), in any order; maxima (n, V // GROUP) of its groups, if known."""
    return values.gather(1, _candidates(values, count, maxima)).topk(count, sorted=False).values


def places_of_largest(values: Tensor, count: int, maxima: Tensor | None = None) -> Tensor:
    """Return where the ``count`` largest of each row (n, V) stand, the largest first; maxima as above."""
    places = _candidates(values, count, maxima)
    return places.gather(1, values.gather(1, places).topk(count).indices)


def _candidates(values: Tensor, count: int, maxima: Tensor | None) -> Tensor:
    """Return places (n, C) in each row (n, V) that hold its ``count`` largest values.

    They lie in the groups with the ``count`` largest maxima, which are found in one quick pass.
    """
    rows, size = values.shape
    every = torch.arange(size, device=values.device)
    grouped = size // GROUP * GROUP
    if grouped < 4 * count * GROUP:
        return every.expand(rows, -1)
    if maxima is None:
        maxima = values[:, :grouped].unflatten(-1, (-1, GROUP)).amax(-1)  # (n, ⌊V / GROUP⌋)
    best = maxima.topk(count, sorted=False).indices  # (n, count)
    within = (best[..., None] * GROUP + every[:GROUP]).flatten(1)
    return torch.cat([within, every[grouped:].expand(rows, -1)], dim=-1)
