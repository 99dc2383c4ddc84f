"""What other records might have given: percentile bootstrap of all metrics of all scores on the same resamples.

Records are drawn with replacement; where several belong together (the samples of a question), whole clusters are drawn.
Where a score takes more than ``MOST_GROUPS`` values, neighbouring confidences are merged into as many groups to compute
the resampled values, and these are shifted by what merging changes in the full set: with 1,024 groups the width of an
interval changes by less than a thousandth of itself, and 100,000 records cost seconds instead of minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokur_cli.metrics.catalogue import PROBABILITY_METRICS, RANKING_METRICS, ProbabilityMetric
from tokur_cli.metrics.ranked import Floats, Ranked

MOST_GROUPS = 1_024
_CHUNK_NUMBERS = 2_000_000


@dataclass(frozen=True, slots=True)
class ScoredSet:
    """The records that have a score and a label, for one score.

    Attributes:
        confidence: (N,), NaN where the record has no score.
        probability: (N,) calibrated, NaN where the record has no score; None for no Brier score.
        is_probability: whether the confidence is the probability itself.
    """

    confidence: Floats
    probability: Floats | None = None
    is_probability: bool = False

    def part(self, records: NDArray[np.bool_] | NDArray[np.intp]) -> ScoredSet:
        """Return the score of some of the records: (N,) whether it is one of them, or their places."""
        probability = None if self.probability is None else self.probability[records]
        return ScoredSet(self.confidence[records], probability, self.is_probability)

    def probability_metrics(self) -> list[ProbabilityMetric]:
        """Return the metrics of probabilities that it can have."""
        return [metric for metric in PROBABILITY_METRICS if metric.calibrates or self.is_probability]


def resampled(
    scores: Mapping[str, ScoredSet],
    label: Floats,
    *,
    resamples: int,
    seed: int = 0,
    cluster: NDArray[np.intp] | None = None,
    stratum: NDArray[np.intp] | None = None,
) -> dict[str, dict[str, Floats]]:
    """Return the metrics of every score under the same resamples.

    Args:
        scores: confidences of (N,) records.
        label: (N,), in [0, 1].
        resamples: how many, R.
        seed: of the draws.
        cluster: (N,) number of the cluster that each record belongs to, from 0; by default each is its own.
        stratum: (N,) number of each record's stratum, see ``Ranked``; it stays the record's in every resample.

    Returns:
        For each score and metric (R,) values, NaN where a resample has one class only.
    """
    held = {name: np.isfinite(score.confidence) for name, score in scores.items()}
    subsets = {mask.tobytes(): _Subset(np.flatnonzero(mask), label, stratum) for mask in held.values()}
    prepared = {name: _Prepared(score, subsets[held[name].tobytes()]) for name, score in scores.items()}
    found: dict[str, dict[str, list[Floats]]] = {name: {} for name in scores}
    for weight in draws(len(label), resamples, seed, cluster):
        for subset in subsets.values():
            subset.draw(weight)
        for name, score in prepared.items():
            for metric, values in score.metrics().items():
                found[name].setdefault(metric, []).append(values)
    return {
        name: {metric: np.concatenate(parts) + prepared[name].shift.get(metric, 0.0) for metric, parts in of.items()}
        for name, of in found.items()
    }


def draws(records: int, resamples: int, seed: int, cluster: NDArray[np.intp] | None) -> Iterator[Floats]:
    """Yield how often each resample draws each record: (R', N) a chunk, R resamples in all."""
    generator = np.random.default_rng(seed)
    units = records if cluster is None else int(cluster.max()) + 1
    chunk = max(1, min(resamples, _CHUNK_NUMBERS // records))
    for start in range(0, resamples, chunk):
        weight = np.empty((min(chunk, resamples - start), records))
        for row in weight:
            drawn = np.bincount(generator.integers(0, units, units, dtype=np.int32), minlength=units)
            row[:] = drawn if cluster is None else drawn[cluster]
        yield weight


class _Subset:
    """The records that have a score: scores that are missing in the same records share the work on labels."""

    def __init__(self, records: NDArray[np.intp], label: Floats, stratum: NDArray[np.intp] | None) -> None:
        self.records = records
        self._is_all = len(records) == len(label)
        self.label = label[records]
        self.stratum = None if stratum is None else stratum[records]
        self._best = Ranked(self.label, self.label, MOST_GROUPS)
        self._losses: list[Floats] = []
        self.draw(np.ones((1, len(label))))

    def draw(self, weight: Floats) -> None:
        """Take over (R, N) weights of all records."""
        self.weight = weight if self._is_all else weight[:, self.records]
        self.best = self._best.sums(self.weight)
        # One product for all scores: the weights are read from memory once, not once per score
        self.means = self.weight @ np.array(self._losses).T / self.best.all[:, None] if self._losses else None

    def add(self, losses: Floats) -> int:
        """Take (N,) losses of a score's probabilities; return their column in ``means`` (R, columns)."""
        self._losses.append(losses)
        return len(self._losses) - 1


class _Prepared:
    """One score, ready for the weights of its subset."""

    def __init__(self, score: ScoredSet, subset: _Subset) -> None:
        self._subset = subset
        score = score.part(subset.records)
        self._columns = {
            metric.name: subset.add(np.asarray(metric.of(score.probability, subset.label)))
            for metric in score.probability_metrics()
            if metric.has_interval and score.probability is not None
        }
        self._ranked = Ranked(score.confidence, subset.label, MOST_GROUPS, subset.stratum)
        self.shift: dict[str, float] = {}
        if self._ranked.is_merged:
            whole = Ranked(score.confidence, subset.label, stratum=subset.stratum)
            merged, exact = (self._rankings(ranked) for ranked in (self._ranked, whole))
            self.shift = {metric: float(exact[metric][0] - merged[metric][0]) for metric in exact}

    def metrics(self) -> dict[str, Floats]:
        """Return the metrics under the subset's present weights, (R,) each."""
        means = self._subset.means
        of_probabilities = {} if means is None else {name: means[:, column] for name, column in self._columns.items()}
        return self._rankings(self._ranked) | of_probabilities

    def _rankings(self, ranked: Ranked) -> dict[str, Floats]:
        sums = ranked.sums(self._subset.weight, self._subset.best)
        return {
            metric.name: metric.of(sums)
            for metric in RANKING_METRICS
            if metric.has_interval
            and (ranked.is_binary or not metric.needs_classes)
            and (ranked.has_strata or metric.labels != "strata")
        }
