"""Tokens scored as they are generated, from the logits that the mean weights choose them from and those of the draws.

In a decoder with a cache, a step's query meets the keys that earlier tokens got under the draws of their own steps:
this is what ``stepwise`` means in ``Scorer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tokur_cli.engine.precision import on_float64_device
from tokur_cli.engine.scoring.scorer import Quantities, Scorer


@dataclass
class ScoredTokens:
    """A response as far as it is scored.

    Args:
        tokens: the quantities of each token.
        draw_log_p: (M,) float64, log p_m of the response under each draw, where the sampling mode is ``joint``.
    """

    tokens: list[Quantities] = field(default_factory=list)
    draw_log_p: npt.NDArray[np.float64] | float = 0.0

    @property
    def quantities(self) -> Quantities:
        """Per-token quantities, T first in their shapes."""
        return {name: np.array([token[name] for token in self.tokens]) for name in self.tokens[0]}

    def set_quantities(self, quantities: Quantities) -> None:
        """Have all tokens be scored by these."""
        count = len(next(iter(quantities.values())))
        self.tokens = [{name: values[place] for name, values in quantities.items()} for place in range(count)]


def score_tokens(scorer: Scorer, logits: Tensor, tokens: Sequence[int], responses: Sequence[ScoredTokens]) -> None:
    """Give the next token of each response the quantities that it has in the whole response, up to floating point.

    Args:
        scorer: what scores whole responses.
        logits: (1 + M, R, V) that they are chosen from.
        tokens: R ids.
        responses: R, to which they are added.
    """
    targets = torch.tensor(tokens, device=logits.device)
    log_weights = None
    if scorer.sampling == "joint" and scorer.draws:
        shape = (scorer.draws.num_draws,)
        before = np.stack([np.broadcast_to(one.draw_log_p, shape) for one in responses], axis=1)
        log_weights = torch.from_numpy(before)
        index = targets[None, :, None].expand(*shape, -1, 1)
        log_p = logits[1:].gather(-1, index)[..., 0].float() - logits[1:].float().logsumexp(-1)
        for response, sums in zip(responses, (before + on_float64_device(log_p).cpu().numpy()).T, strict=True):
            response.draw_log_p = sums
    quantities = scorer.quantities_of_logits(logits, targets, log_weights)
    for place, response in enumerate(responses):
        response.tokens.append({name: values[place] for name, values in quantities.items()})
