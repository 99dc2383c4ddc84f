"""Tokens scored as they are generated, from the logits that the mean weights choose them from and those of the draws.

In a decoder with a cache, a step's query meets the keys that earlier tokens got under the draws of their own steps:
this is what ``stepwise`` means in ``Scorer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tokur_cli.engine.generation.cache import KVCache
from tokur_cli.engine.precision import on_float64_device
from tokur_cli.engine.scoring.scorer import Quantities, Scorer


@dataclass(frozen=True)
class ScoredTokens:
    """A response as far as it is scored.

    Args:
        steps: of each token, the quantities of all tokens that were scored with it, and its place among them.
        draw_log_p: (M,) float64, log p_m of the response under each draw; None but for ``joint``.
    """

    steps: tuple[tuple[Quantities, int], ...] = ()
    draw_log_p: npt.NDArray[np.float64] | None = None

    @property
    def quantities(self) -> Quantities:
        """Per-token quantities, T first in their shapes."""
        return {name: np.stack([values[name][place] for values, place in self.steps]) for name in self.steps[0][0]}


class TokenScorer:
    """Gives tokens the quantities that a scorer gives them in whole responses, up to floating point.

    Args:
        scorer: the scorer.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.draws = scorer, scorer.draws
        self.stepwise = scorer.sampling == "stepwise"
        self._joint = scorer.sampling == "joint" and scorer.draws is not None

    def score(self, logits: Tensor, tokens: Sequence[int], before: Sequence[ScoredTokens | None]) -> list[ScoredTokens]:
        """Score one token of each response.

        Args:
            logits: (1 + M, R, V) that they are chosen from.
            tokens: R ids.
            before: what was scored of each; None for nothing.
        """
        targets = torch.tensor(tokens, device=logits.device)
        so_far = [one or ScoredTokens() for one in before]
        sums: list[npt.NDArray[np.float64] | None] = [None] * len(tokens)
        log_weights = None
        if self._joint:
            nothing = np.zeros(len(logits) - 1)
            earlier = np.stack([nothing if one.draw_log_p is None else one.draw_log_p for one in so_far], axis=1)
            log_weights = torch.from_numpy(earlier)
            entries = logits[1:].gather(-1, targets[None, :, None].expand(len(logits) - 1, -1, 1))[..., 0]
            log_p = entries.float() - logits[1:].float().logsumexp(-1)
            sums = list((earlier + on_float64_device(log_p).double().cpu().numpy()).T)
        quantities = self.scorer.quantities_of_logits(logits, targets, log_weights)
        return [
            ScoredTokens((*one.steps, (quantities, place)), log_p)
            for place, (one, log_p) in enumerate(zip(so_far, sums, strict=True))
        ]


@torch.inference_mode()
def sees_whole_cache(scorer: Scorer) -> bool:
    """Return whether a perturbed projection is given more than a step's own token, as those of latent attention are."""
    seen: list[int] = []

    def note(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        seen.append(arguments[0].numel() // arguments[0].shape[-1])

    modules = {matrix.module for matrix in scorer.draws.posterior.matrices} if scorer.draws else set()
    cache = KVCache(scorer.model, None)
    texts, _ = cache.prefill([[0, 0]], [2])
    cache.admit(texts, [1])
    handles = [module.register_forward_pre_hook(note) for module in modules]
    try:
        cache.step([0], [0])
    finally:
        for handle in handles:
            handle.remove()
    return max(seen, default=1) > 1
