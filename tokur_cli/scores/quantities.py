"""The table of token quantities: all that is known of one but for how it is computed, which is the engine's.

Helps, the names that guide a generation, heat maps, steps, labelled spans and the scores that are a mean or a sum read
it. To add a quantity, compute it in ``engine/scoring/quantities`` and give it an entry here.
"""

from __future__ import annotations

from tokur_cli.records.quantity import Quantity


def _of_draws(name: str, label: str, *, on_demand: bool = False) -> Quantity:
    return Quantity(name, label, mean=f"{name}_mean", sum=name, of_draws=True, on_demand=on_demand)


_ALL = (
    _of_draws("eu", "epistemic uncertainty"),
    _of_draws("au", "aleatoric uncertainty"),
    _of_draws("tu", "total uncertainty"),
    _of_draws("eu_kl", "epistemic uncertainty, KL from the unperturbed model", on_demand=True),
    _of_draws("eu_fisher", "epistemic uncertainty, change of the logits in the Fisher metric", on_demand=True),
    Quantity("entropy", "entropy of the unperturbed model", mean="pe", sum="pe_sum"),
    Quantity("logprob", "log-probability of the token", "confidence", mean="ll", sum="ll_sum"),
    Quantity(
        "self_certainty", "divergence from the uniform distribution", "confidence",
        aggregate="mean", mean="self_certainty", sum="self_certainty_sum",
    ),
    Quantity(
        "deepconf", "mean of the top 20 log-probabilities, negated", "confidence",
        aggregate="mean", mean="deepconf", sum="deepconf_sum",
    ),
    Quantity(
        "margin", "difference of the two largest probabilities", "confidence",
        unit="", aggregate="mean", mean="margin", on_demand=True,
    ),
)  # fmt: skip

QUANTITIES: dict[str, Quantity] = {quantity.name: quantity for quantity in _ALL}
"""Every quantity that ``tokur score`` may write for a token, by name; the ones that tell most come first."""

OF_DRAWS = frozenset(quantity.name for quantity in QUANTITIES.values() if quantity.of_draws)
"""The names of those that take draws of the weights."""

ON_DEMAND = frozenset(quantity.name for quantity in QUANTITIES.values() if quantity.on_demand)
"""The names of those that are computed only where they are asked for."""

GUIDES: dict[str, Quantity] = {quantity.guide: quantity for quantity in QUANTITIES.values()}
"""The same quantities by what they are called where they guide a generation."""
