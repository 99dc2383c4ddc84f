"""What a generation is guided by: how sure the model is of what a response says so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tokur_cli.scores.catalogue import CATALOGUE, Features

Over = Literal["mean", "sum", "top5", "step"]

_LEAST_SURE = 5


@dataclass(frozen=True)
class GuideScore:
    """A score of a response so far, in float64.

    Args:
        name: a quantity, by what the catalogue calls its mean or sum.
        over: ``mean`` or ``sum`` over the tokens so far, ``top5`` (the mean of the five least sure ones) or ``step``
            (the mean over the last step alone).
    """

    name: str
    over: Over

    @property
    def mean_name(self) -> str:
        """What the catalogue calls the mean."""
        return f"{self.name}_mean" if f"{self.name}_mean" in CATALOGUE else self.name

    @property
    def quantity(self) -> str:
        """The per-token quantity that it is computed from."""
        (quantity,) = CATALOGUE[self.mean_name].needs
        return quantity

    @property
    def sign(self) -> int:
        """1 for a confidence, −1 for an uncertainty."""
        return 1 if CATALOGUE[self.mean_name].orientation == "confidence" else -1

    def __call__(self, tokens: Features, step: int) -> float:
        """Return the score of a response so far.

        Args:
            tokens: quantities of its tokens, (T,) each.
            step: the token that its last step begins with.
        """
        values = tokens[self.quantity].astype(np.float64)
        if self.over == "sum":
            return float(values.sum())
        if self.over == "step":
            return float(values[step:].mean())
        if self.over == "top5":
            return float(self.sign * np.sort(self.sign * values)[:_LEAST_SURE].mean())
        return float(values.mean())
