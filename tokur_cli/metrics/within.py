"""Finding the wrong spans of a response among its other spans: each response by itself.

Comparing the spans of one response alone leaves out what differs between responses, such as how hard their questions
are. A span without a confidence is in no pair and comes last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tokur_cli.metrics.ranked import Floats

_CHUNK_NUMBERS = 10_000_000


class SpanTable:
    """The spans of Q responses as (Q, S) tables, shorter rows padded at the end.

    Args:
        label: (N,), 1 for right, 0 for wrong, NaN for not known.
        response: (N,) number of each span's response; the spans of one stand in the order of the text.

    Attributes:
        first: (Q,) which of the N spans is the first of each response.
        right: (Q, S) whether a span is right.
        wrong: (Q, S) whether it is wrong.
        one_of_several: (Q,) whether a response has a wrong span, and others beside it.
    """

    def __init__(self, label: Floats, response: NDArray[np.generic]) -> None:
        self._order = np.argsort(response, kind="stable")
        _, self.first, row, count = np.unique(response, return_index=True, return_inverse=True, return_counts=True)
        row = row[self._order]
        self._where = (row, np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count))
        self._shape = (len(count), int(count.max(initial=0)))
        labels = self._fill(label)
        self.right, self.wrong = labels == 1, labels == 0
        self.one_of_several = self.wrong.any(axis=1) & (count > 1)

    def ranked(self, confidence: Floats) -> RankedSpans:
        """Return the spans with (N,) confidences, NaN where one has none."""
        return RankedSpans(self, self._fill(confidence))

    def _fill(self, values: Floats) -> Floats:
        table = np.full(self._shape, np.nan)
        table[self._where] = values[self._order]
        return table


@dataclass(frozen=True)
class RankedSpans:
    """The spans of Q responses, at least one, with the confidences of one score.

    Attributes:
        spans: the spans.
        confidence: (Q, S).
    """

    spans: SpanTable
    confidence: Floats

    def pairs(self) -> Floats:
        """Return the share of a response's pairs of a right and a wrong span in which the wrong one is less confident.

        Returns:
            (Q,), equal ones counted half; NaN where a response has no such pair.
        """
        found = np.empty(len(self.confidence))
        rows = max(1, _CHUNK_NUMBERS // self.confidence.shape[1] ** 2)
        for start in range(0, len(found), rows):
            part = slice(start, start + rows)
            wrong = np.where(self.spans.wrong[part], self.confidence[part], np.nan)[:, :, None]
            right = np.where(self.spans.right[part], self.confidence[part], np.nan)[:, None, :]
            below = (wrong < right).sum(axis=(1, 2)) + 0.5 * (wrong == right).sum(axis=(1, 2))
            pairs = (np.isfinite(wrong) & np.isfinite(right)).sum(axis=(1, 2))
            found[part] = np.divide(below, pairs, out=np.full(len(below), np.nan), where=pairs > 0)
        return found

    def hits(self, most: int) -> Floats:
        """Return whether the first wrong span is among the ``most`` least confident, known to be right or wrong or not.

        Returns:
            (Q,), in expectation over the order of ties; NaN without a wrong span, or with one span only.
        """
        before, even = self._first_wrong
        chance = np.clip((most - before) / np.maximum(even, 1), 0, 1) * (even > 0)
        return np.where(self.spans.one_of_several, chance, np.nan)

    @cached_property
    def _first_wrong(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """(Q,) how many spans are less confident than the first wrong one, and how many as confident, with itself."""
        first = np.take_along_axis(self.confidence, self.spans.wrong.argmax(axis=1)[:, None], axis=1)  # (Q, 1)
        return (self.confidence < first).sum(axis=1), (self.confidence == first).sum(axis=1)
