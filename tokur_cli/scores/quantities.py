"""The table of token quantities: all that is known of one but for how it is computed, which is the engine's.

Helps, the names that guide a generation, heat maps, steps, labelled spans and the scores that are a mean or a sum read
it. To add a quantity, compute it in ``engine/scoring/quantities`` and give it an entry here.
"""

from __future__ import annotations

from tokur_cli.records.quantity import Quantity

QUANTITIES: dict[str, Quantity] = {
    quantity.name: quantity
    for quantity in (
        Quantity("eu", "epistemic uncertainty", mean="eu_mean", sum="eu", of_draws=True),
        Quantity("au", "aleatoric uncertainty", mean="au_mean", sum="au", of_draws=True),
        Quantity("tu", "total uncertainty", mean="tu_mean", sum="tu", of_draws=True),
        Quantity(
            "eu_kl",
            "epistemic uncertainty, KL from the unperturbed model",
            mean="eu_kl_mean",
            sum="eu_kl",
            of_draws=True,
            on_demand=True,
        ),
        Quantity(
            "eu_fisher",
            "epistemic uncertainty, change of the logits in the Fisher metric",
            mean="eu_fisher_mean",
            sum="eu_fisher",
            of_draws=True,
            on_demand=True,
        ),
        Quantity("entropy", "entropy of the unperturbed model", mean="pe", sum="pe_sum"),
        Quantity("logprob", "log-probability of the token", "confidence", mean="ll", sum="ll_sum"),
        Quantity(
            "self_certainty",
            "divergence from the uniform distribution",
            "confidence",
            aggregate="mean",
            mean="self_certainty",
            sum="self_certainty_sum",
        ),
        Quantity(
            "deepconf",
            "mean of the top 20 log-probabilities, negated",
            "confidence",
            aggregate="mean",
            mean="deepconf",
            sum="deepconf_sum",
        ),
        Quantity(
            "margin",
            "difference of the two largest probabilities",
            "confidence",
            unit="",
            aggregate="mean",
            mean="margin",
            on_demand=True,
        ),
    )
}
"""Every quantity that ``tokur score`` may write for a token, by name; the ones that tell most come first."""

OF_DRAWS = frozenset(quantity.name for quantity in QUANTITIES.values() if quantity.of_draws)
"""The names of those that take draws of the weights."""

ON_DEMAND = frozenset(quantity.name for quantity in QUANTITIES.values() if quantity.on_demand)
"""The names of those that are computed only where they are asked for."""

GUIDES: dict[str, Quantity] = {quantity.guide: quantity for quantity in QUANTITIES.values()}
"""The same quantities by what they are called where they guide a generation."""
