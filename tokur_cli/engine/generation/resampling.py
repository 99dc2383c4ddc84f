"""Which particles go on: from rewards to weights, and from weights to the indices of those that are copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tokur_cli.engine.noise import uniform

Weights = npt.NDArray[np.float64]
Scheme = Literal["multinomial", "systematic"]


@dataclass(frozen=True)
class Resampling:
    """How particles are resampled; the defaults are the paper's (appendix "Particle Filtering").

    Args:
        temperature: T of softmax(rewards / T); None for the rewards' standard deviation in each round.
        scheme: ``multinomial`` (N independent draws in every round) or ``systematic`` (one draw, N places at equal
            distances, only where the effective sample size is below N/2: fewer lineages are lost by chance).
    """

    temperature: float | None = 1.0
    scheme: Scheme = "multinomial"

    def resample(
        self, rewards: Sequence[float], key: tuple[object, ...], earlier: Weights | None = None
    ) -> tuple[list[int], float, Weights | None]:
        """Resample one round.

        Args:
            rewards: (N,) of the particles, finite; more is better.
            key: what the random numbers belong to.
            earlier: (N,) weights of the rounds before, which were left as they are; None for equal ones.

        Returns:
            The particle that each slot goes on with, (N,); the effective sample size; and the weights (N,) where the
            round is left as it is, None where they are equal from now on.
        """
        weights = softmax_weights(np.array(rewards, dtype=np.float64), self.temperature)
        if earlier is not None:
            weights = weights * earlier / (weights * earlier).sum()
        count = len(weights)
        size = min(float(1 / np.square(weights).sum()), float(count))  # from 1 (one has all the weight) to N
        if self.scheme == "systematic" and size >= count / 2:
            return list(range(count)), size, weights
        return draw(weights, self.scheme, key), size, None


def softmax_weights(rewards: Weights, temperature: float | None) -> Weights:
    """Return softmax(rewards / T), (N,); with no T its standard deviation, and equal weights where that is 0."""
    scale = float(rewards.std()) if temperature is None else temperature
    powers = np.exp((rewards - rewards.max()) / scale) if scale else np.ones(len(rewards))
    weights: Weights = powers / powers.sum()
    return weights


def draw(weights: Weights, scheme: Scheme, key: tuple[object, ...]) -> list[int]:
    """Draw N of N indices by their weights, with the random numbers of ``key``."""
    count = len(weights)
    numbers = uniform(key, count if scheme == "multinomial" else 1)
    shares = numbers if scheme == "multinomial" else (np.arange(count) + numbers) / count
    cumulated = weights.cumsum()
    indices: list[int] = np.searchsorted(cumulated, shares * cumulated[-1], side="right").clip(max=count - 1).tolist()
    return indices
