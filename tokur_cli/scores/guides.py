"""What a generation is guided by: how sure the model is of what a response says so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tokur_cli.records.quantity import Quantity
from tokur_cli.scores.quantities import GUIDES
from tokur_cli.scores.steps import aggregates

if TYPE_CHECKING:
    from tokur_cli.scores.catalogue import Features  # needs numpy, which the options do without

Over = Literal["mean", "sum", "top5", "step"]


@dataclass(frozen=True)
class GuideScore:
    """A score of a response so far.

    Args:
        name: of a quantity, as in ``GUIDES``.
        over: ``mean`` or ``sum`` over the tokens so far, ``top5`` (the mean of the five least certain ones) or ``step``
            (the mean over the last step alone).
    """

    name: str
    over: Over

    @property
    def quantity(self) -> Quantity:
        """The quantity of single tokens that it is computed from."""
        return GUIDES[self.name]

    def __call__(self, tokens: Features, step: int) -> float:
        """Return the score of a response so far.

        Args:
            tokens: quantities of its tokens, (T,) each.
            step: the token that its last step begins with.
        """
        values = tokens[self.quantity.name].tolist()
        if self.over == "step":
            return aggregates(values[step:], self.quantity.orientation)["mean"]
        return aggregates(values, self.quantity.orientation)[self.over]
