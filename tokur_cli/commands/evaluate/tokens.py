"""``tokur evaluate --tokens``: those tokens of a response whose text matches, their values, and scores over them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from tokur_cli.commands.shared.scored_tokens import ScoredTokens, scored_tokens
from tokur_cli.records.record import Record
from tokur_cli.scores.catalogue import Score, compute_scores
from tokur_cli.scores.quantities import QUANTITIES


def matching(response: ScoredTokens, tokens: re.Pattern[str] | None, places: Iterable[int]) -> list[int]:
    """Return those of the tokens at some places that count: whose text holds a match, if there is a pattern."""
    text, spans = response.response, response.spans
    return [place for place in places if tokens is None or tokens.search(text[slice(*spans[place])])]


def values_at(response: ScoredTokens, places: Sequence[int]) -> dict[str, list[float]]:
    """Return all quantities of the tokens at some places, NaN where a token has none."""
    return {
        name: [math.nan if (value := values[place]) is None else value for place in places]
        for name, values in response.values.items()
    }


def scores_of_matches(record: Record, scores: Iterable[Score], tokens: re.Pattern[str]) -> dict[str, float] | None:
    """Return scores of a response as if the tokens with a match were all of it; None where there is no such token.

    Args:
        record: the record, with token arrays.
        scores: what is computed, each from the quantities of single tokens; those whose quantity the record lacks are
            left out, and those of a quantity that a token lacks are NaN.
        tokens: what the text of a token holds.
    """
    response = scored_tokens(record, QUANTITIES)
    counted = matching(response, tokens, range(len(response.spans)))
    if not counted:
        return None
    features = {name: np.array(values) for name, values in values_at(response, counted).items()}
    return compute_scores([score for score in scores if features.keys() >= set(score.needs)], features)
