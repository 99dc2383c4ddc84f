"""The per-token quantities that records carry under ``tokur.tokens``: what each is called and which way it points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokur_cli.records.errors import UsageError

Orientation = Literal["uncertainty", "confidence"]
"""``uncertainty``: more is less sure; ``confidence``: more is surer."""


@dataclass(frozen=True)
class TokenQuantity:
    """One number a token.

    Args:
        name: key under ``tokur.tokens``.
        orientation: which way it points.
        label: its name in words.
        unit: what it is measured in.
    """

    name: str
    orientation: Orientation
    label: str
    unit: str = "nats"


TOKEN_QUANTITIES: dict[str, TokenQuantity] = {
    quantity.name: quantity
    for quantity in (
        TokenQuantity("eu", "uncertainty", "epistemic uncertainty"),
        TokenQuantity("au", "uncertainty", "aleatoric uncertainty"),
        TokenQuantity("tu", "uncertainty", "total uncertainty"),
        TokenQuantity("entropy", "uncertainty", "entropy of the unperturbed model"),
        TokenQuantity("logprob", "confidence", "log-probability of the token"),
        TokenQuantity("self_certainty", "confidence", "divergence from the uniform distribution"),
        TokenQuantity("deepconf", "confidence", "mean of the top 20 log-probabilities, negated"),
    )
}
"""Every quantity that ``tokur score`` writes for a token, by name; the ones that tell most come first."""


def choose_quantities(names: str) -> list[TokenQuantity]:
    """Return the quantities of a comma-separated list, in its order.

    Raises:
        UsageError: an unknown name, or none at all.
    """
    asked = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    unknown = [name for name in asked if name not in TOKEN_QUANTITIES]
    if unknown or not asked:
        what = f"no quantity of single tokens is called {', '.join(unknown)}" if unknown else "--score names none"
        raise UsageError(f"{what}; there are: {', '.join(TOKEN_QUANTITIES)}")
    return [TOKEN_QUANTITIES[name] for name in asked]
