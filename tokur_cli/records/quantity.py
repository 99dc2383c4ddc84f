"""What a number of a token or of a response says: its name, in words, and which way it points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Orientation: TypeAlias = Literal["uncertainty", "confidence"]  # whether high values mean unsure or sure


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of each token."""

    name: str  # its key under ``tokur.tokens``, such as ``eu``
    label: str  # its name in words, such as ``epistemic uncertainty``
    orientation: Orientation = "uncertainty"
    unit: str = "nats"
    # What several tokens, such as those of a step, are compared by: ``sum`` where each further token can only add
    # uncertainty, as with uncertainties and log-probabilities; ``mean`` where it can only lower it
    aggregate: Literal["sum", "mean"] = "sum"
    mean: str = ""  # the score of a whole response that is its mean over the tokens; empty if there is none
    sum: str = ""  # the one that is its sum
    of_draws: bool = False  # whether it takes draws of the weights
    on_demand: bool = False  # whether it is computed only where it, or a score that needs it, is asked for

    @property
    def guide(self) -> str:
        """What it is called where it guides a generation: by the name that its scores have in common."""
        return self.mean.removesuffix("_mean") or self.name

    @property
    def scores(self) -> tuple[str, ...]:
        """The scores of a whole response that are shown with it first: the one of its name, else its mean and sum."""
        return (self.name,) if self.guide == self.name else (self.mean, self.sum)

    @property
    def sign(self) -> int:
        """1 for a confidence, −1 for an uncertainty: times a value, more is more sure."""
        return 1 if self.orientation == "confidence" else -1
