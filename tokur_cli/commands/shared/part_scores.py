"""Scores of parts of responses, from the token arrays of scored records: ``--tokens`` where no model is at hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from tokur_cli.commands.shared.scored_tokens import scored_tokens
from tokur_cli.records.record import Record
from tokur_cli.scores.catalogue import Score, compute_scores
from tokur_cli.scores.parts import Parts, part_masks, part_of
from tokur_cli.scores.quantities import QUANTITIES


class PartScores:
    """Computes scores of parts for one record after the other.

    Args:
        scores: what is wanted; those of whole responses are left alone.
        parts: the parts that ``--tokens`` gives.
    """

    def __init__(self, scores: Iterable[Score], parts: Parts) -> None:
        self._scores = [score for score in scores if part_of(score.name) in parts]
        self._parts = parts
        self._without_match: Counter[str] = Counter()

    def of(self, record: Record) -> dict[str, float]:
        """Return the scores that the record does not have yet: NaN where no token belongs to the part, or one has none.

        Scores of quantities that the record lacks are left out.

        Raises:
            RecordError: it has no token arrays, or scores of such a part by another expression.
        """
        known = record.settings("run")
        for key, pattern in self._parts.items():
            if known.get(key, pattern) != pattern:
                raise record.error(
                    f"was scored with --tokens '{key[1:]}={known[key]}', not '{key[1:]}={pattern}': give these tokens "
                    "another name"
                )
        there = record.scores
        lacking = [score for score in self._scores if not (score.name in there and part_of(score.name) in known)]
        if not lacking:
            return {}
        response = scored_tokens(record, QUANTITIES)
        masks = part_masks(self._parts, response.response, response.spans)
        self._without_match.update(key for key, belongs in masks.items() if not belongs.any())
        values = {
            name: np.array([math.nan if value is None else value for value in of])
            for name, of in response.values.items()
        }
        features = {**values, **masks}
        return compute_scores([score for score in lacking if features.keys() >= set(score.needs)], features)

    def told(self) -> Iterator[str]:
        """Yield of how many records no token belonged to a part."""
        for key, count in self._without_match.items():
            records = "1 record has" if count == 1 else f"{count:,} records have"
            yield f"{records} no score of {key[1:]}: no token matches {self._parts[key]}"
