"""``tokur evaluate --tokens``: scores over those tokens of a response whose text matches."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np

from tokur_cli.commands.shared.scored_tokens import scored_tokens
from tokur_cli.records.record import Record
from tokur_cli.scores.catalogue import Score, compute_scores
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.scores.steps import Span


def has_match(tokens: re.Pattern[str] | None, text: str, offsets: Span) -> bool:
    """Return whether a token counts: whether its part of the text holds a match, if there is a pattern."""
    return tokens is None or tokens.search(text[slice(*offsets)]) is not None


def scores_of_matches(record: Record, scores: Iterable[Score], tokens: re.Pattern[str]) -> dict[str, float] | None:
    """Return scores of a response as if the tokens with a match were all of it; None where there is no such token.

    Args:
        record: the record, with token arrays.
        scores: what is computed, each from the quantities of single tokens; those whose quantity the record lacks are
            left out, and those of a quantity that a token lacks are NaN.
        tokens: what the text of a token holds.

    Raises:
        RecordError: the record has no token arrays, or they do not fit its text.
    """
    response = scored_tokens(record, QUANTITIES)
    counted = [place for place, span in enumerate(response.spans) if has_match(tokens, response.response, span)]
    if not counted:
        return None
    features = {
        name: np.array([math.nan if (value := values[place]) is None else value for place in counted])
        for name, values in response.values.items()
    }
    return compute_scores([score for score in scores if features.keys() >= set(score.needs)], features)
