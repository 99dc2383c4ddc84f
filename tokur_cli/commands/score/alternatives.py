"""What else might have been written at a token, as records keep it: ``tokur.alternatives``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

_DECIMALS = 4
NEARLY_CERTAIN = 0.95  # from this probability on, what else might have been written is not kept


def kept_alternatives(
    found: Mapping[str, Any], written: Sequence[int], most: int, spell: Callable[[int], str]
) -> dict[str, Any]:
    """Return the alternatives of a response's tokens.

    A token is left out where it is the likeliest one, with a probability of at least 0.95 under p_0 and under p̄, and
    every draw has it as its likeliest.

    Args:
        found: of T tokens, ``ALTERNATIVES`` of ``engine/scoring/quantities``; nothing of draws without any.
        written: T ids.
        most: how many were asked for.
        spell: from an id to what the token adds to a text.

    Returns:
        ``most``, and ``at``: of each token that is kept its place among the response's tokens from 0, the texts of the
        likeliest ones, their p_0 and p̄ to four decimals, and the text of each draw's likeliest one.
    """
    ids, chosen = found["likeliest"], np.asarray(written)
    certain = (ids[:, 0] == chosen) & (found["likeliest_p"][:, 0] >= NEARLY_CERTAIN)
    of_draws = found.get("of_draws")
    if of_draws is not None:
        certain &= (found["likeliest_mean"][:, 0] >= NEARLY_CERTAIN) & (of_draws == chosen[:, None]).all(1)
    kept = []
    for token in np.flatnonzero(~certain).tolist():
        texts = [spell(index) for index in ids[token].tolist()]
        alternatives = {"token": token, "text": texts, "p": rounded(found["likeliest_p"][token])}
        if of_draws is not None:
            alternatives["p_mean"] = rounded(found["likeliest_mean"][token])
            alternatives["draws"] = [spell(index) for index in of_draws[token].tolist()]
        kept.append(alternatives)
    return {"most": most, "at": kept}


def rounded(probabilities: Iterable[float]) -> list[float]:
    """Return probabilities as they are kept: four decimals are more than anyone looks at, and half as large."""
    return [round(float(one), _DECIMALS) for one in probabilities]
