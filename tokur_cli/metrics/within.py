"""Finding the wrong spans of a response among its other spans: each response by itself, then the mean over responses.

Comparing the spans of one response alone leaves out what differs between responses, such as how hard their questions
are. A span without a confidence is in no pair and comes last.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.bootstrap import draws, interval, two_sided_p
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranked import Floats

HITS = {"hit1": 1, "hit3": 3}
WITHIN = ("within", *HITS)
_CHUNK_NUMBERS = 10_000_000


def within_responses(
    confidences: Mapping[str, ArrayLike],
    label: ArrayLike,
    response: ArrayLike,
    cluster: ArrayLike,
    *,
    bootstrap: int = 1000,
    seed: int = 0,
    versus: str | None = None,
) -> dict[str, tuple[dict[str, Estimate], dict[str, Estimate]]]:
    """Return ``within``, ``hit1`` and ``hit3`` of every score.

    ``within`` is the share of a response's pairs of a right and a wrong span in which the wrong one has the lower
    confidence; equal ones count half. ``hitK`` is whether the first wrong span is among the K least confident, of spans
    that are known to be right or wrong or neither; in expectation over the order of ties. Responses without such a
    pair, or without a wrong span or with one span only, are left out.

    Args:
        confidences: for each score (N,), NaN where a span has none.
        label: (N,), 1 for right, 0 for wrong, NaN for not known.
        response: (N,) number of each span's response; the spans of one stand in the order of the text.
        cluster: (N,) number of each span's question; resamples draw questions.
        bootstrap: number of resamples for intervals and comparisons; 0 for none.
        seed: of the resamples.
        versus: the score that all others are compared with.

    Returns:
        For each score its metrics, and their differences from those of ``versus``, empty without it.
    """
    table = _Table(np.asarray(label, dtype=np.float64), np.asarray(response))
    questions, question = np.unique(np.asarray(cluster)[table.first], return_inverse=True)  # (Q,) the second
    values = {name: table.metrics(np.asarray(scores, dtype=np.float64)) for name, scores in confidences.items()}
    weights = list(draws(len(question), bootstrap, seed, question)) if len(questions) > 1 else []

    def resampled(of_response: Floats) -> Floats:
        known = np.isfinite(of_response)
        sums = [weight[:, known] @ of_response[known] for weight in weights]
        counts = [weight[:, known].sum(axis=1) for weight in weights]
        with np.errstate(invalid="ignore"):  # a resample may hold no such response: it counts as undefined
            return np.concatenate(sums) / np.concatenate(counts) if weights else np.array([])

    means = {(name, metric): resampled(found) for name, of in values.items() for metric, found in of.items()}

    def estimate(found: Floats, drawn: Floats, *, p: bool) -> Estimate:
        known = found[np.isfinite(found)]
        if not len(known):
            return Estimate(None, reason="no response has a wrong span beside another one")
        if not np.isfinite(drawn).any():
            return Estimate(float(known.mean()))
        return Estimate(float(known.mean()), *interval(drawn), p=two_sided_p(drawn) if p else None)

    results = {}
    for name, of in values.items():
        metrics = {metric: estimate(found, means[name, metric], p=False) for metric, found in of.items()}
        differences = {}
        if versus is not None and name != versus:
            differences = {
                metric: estimate(found - values[versus][metric], means[name, metric] - means[versus, metric], p=True)
                for metric, found in of.items()
            }
        results[name] = metrics, differences
    return results


class _Table:
    """The spans of Q responses as (Q, S) tables, shorter rows padded at the end.

    Attributes:
        first: (Q,) which of the N spans is the first of each response.
    """

    def __init__(self, label: Floats, response: NDArray[np.generic]) -> None:
        self._order = np.argsort(response, kind="stable")
        _, self.first, row, count = np.unique(response, return_index=True, return_inverse=True, return_counts=True)
        row = row[self._order]
        self._where = (row, np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count))
        self._shape = (len(count), int(count.max(initial=0)))
        labels = self._fill(label)
        self._right, self._wrong = labels == 1, labels == 0
        self._one_of_several = self._wrong.any(axis=1) & (count > 1)  # (Q,)

    def _fill(self, values: Floats) -> Floats:
        table = np.full(self._shape, np.nan)
        table[self._where] = values[self._order]
        return table

    def metrics(self, confidence: Floats) -> dict[str, Floats]:
        """Return (Q,) values of each metric, NaN where a response has none."""
        table = self._fill(confidence)
        if not table.size:
            return {metric: np.array([]) for metric in WITHIN}
        first_wrong = np.take_along_axis(table, self._wrong.argmax(axis=1)[:, None], axis=1)  # (Q, 1)
        before = (table < first_wrong).sum(axis=1)
        even = (table == first_wrong).sum(axis=1)  # itself among them; none where it has no confidence
        found = {"within": self._pairs(table)}
        for metric, most in HITS.items():
            chance = np.clip((most - before) / np.maximum(even, 1), 0, 1) * (even > 0)
            found[metric] = np.where(self._one_of_several, chance, np.nan)
        return found

    def _pairs(self, table: Floats) -> Floats:
        found = np.empty(len(table))
        rows = max(1, _CHUNK_NUMBERS // table.shape[1] ** 2)
        for start in range(0, len(table), rows):
            part = slice(start, start + rows)
            wrong = np.where(self._wrong[part], table[part], np.nan)[:, :, None]
            right = np.where(self._right[part], table[part], np.nan)[:, None, :]
            below = (wrong < right).sum(axis=(1, 2)) + 0.5 * (wrong == right).sum(axis=(1, 2))
            pairs = (np.isfinite(wrong) & np.isfinite(right)).sum(axis=(1, 2))
            found[part] = np.divide(below, pairs, out=np.full(len(below), np.nan), where=pairs > 0)
        return found
