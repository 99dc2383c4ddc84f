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

from tokur_cli.metrics.calibration import log_losses
from tokur_cli.metrics.ranked import Floats, Ranked
from tokur_cli.metrics.ranking import auprc_of, auroc_of, top_accuracy_of
from tokur_cli.metrics.rejection import aurc_of, prr_of

MOST_GROUPS = 1_024
_CHUNK_NUMBERS = 2_000_000

RESAMPLED = ("auroc", "auprc", "acc", "aurc", "prr", "brier", "log_loss")
"""The metrics that have intervals. ECE has none: resampling adds to its bias, so that its interval would mislead."""


@dataclass(frozen=True, slots=True)
class ScoredSet:
    """The records that have a score and a label, for one score.

    Attributes:
        confidence: (N,), NaN where the record has no score.
        probability: (N,) calibrated, NaN where the record has no score; None for no Brier score.
        is_probability: whether the confidence is the probability itself: only then there is a log loss, since what
            isotonic regression calls impossible may happen.
    """

    confidence: Floats
    probability: Floats | None = None
    is_probability: bool = False


def resampled(
    scores: Mapping[str, ScoredSet],
    label: Floats,
    *,
    resamples: int,
    seed: int = 0,
    cluster: NDArray[np.intp] | None = None,
) -> dict[str, dict[str, Floats]]:
    """Return the metrics of every score under the same resamples.

    Args:
        scores: confidences of (N,) records.
        label: (N,), in [0, 1].
        resamples: how many, R.
        seed: of the draws.
        cluster: (N,) number of the cluster that each record belongs to, from 0; by default each is its own.

    Returns:
        For each score and metric (R,) values, NaN where a resample has one class only.
    """
    held = {name: np.isfinite(score.confidence) for name, score in scores.items()}
    subsets = {mask.tobytes(): _Subset(np.flatnonzero(mask), label) for mask in held.values()}
    prepared = {name: _Prepared(score, subsets[held[name].tobytes()]) for name, score in scores.items()}
    found: dict[str, dict[str, list[Floats]]] = {name: {metric: [] for metric in RESAMPLED} for name in scores}
    for weight in draws(len(label), resamples, seed, cluster):
        for subset in subsets.values():
            subset.draw(weight)
        for name, score in prepared.items():
            for metric, values in score.metrics().items():
                found[name][metric].append(values)
    return {
        name: {
            metric: np.concatenate(parts) + prepared[name].shift[metric] for metric, parts in metrics.items() if parts
        }
        for name, metrics in found.items()
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


def interval(values: Floats) -> tuple[float, float]:
    """Return the 95 % percentile interval of resampled values (R,): their 0.025 and 0.975 quantiles, NaN left out."""
    low, high = np.nanquantile(values, [0.025, 0.975])
    return float(low), float(high)


def two_sided_p(differences: Floats) -> float:
    """Return the p-value of no difference: twice the smaller part of resampled differences on either side of 0.

    Args:
        differences: (R,), NaN left out.

    Returns:
        A number in [2/(R + 1), 1].
    """
    known = differences[np.isfinite(differences)]
    below, above = (known <= 0).sum(), (known >= 0).sum()
    return float(min(1.0, 2 * (min(below, above) + 1) / (len(known) + 1)))


class _Subset:
    """The records that have a score: scores that are missing in the same records share the work on labels."""

    def __init__(self, records: NDArray[np.intp], label: Floats) -> None:
        self.records = records
        self._is_all = len(records) == len(label)
        self.label = label[records]
        self._oracle = Ranked(self.label, self.label, MOST_GROUPS)
        self._errors: list[Floats] = []
        self.draw(np.ones((1, len(label))))

    def draw(self, weight: Floats) -> None:
        """Take over (R, N) weights of all records."""
        self.weight = weight if self._is_all else weight[:, self.records]
        sums = self._oracle.sums(self.weight)
        self.oracle = aurc_of(sums)
        self.error = 1.0 - sums.all_right / sums.all
        # One product for all scores: the weights are read from memory once, not once per score
        self.errors = self.weight @ np.array(self._errors).T / sums.all[:, None] if self._errors else None

    def add_errors(self, errors: Floats) -> int:
        """Take (N,) errors of a score's probabilities; return their column in ``errors`` (R, columns), their means."""
        self._errors.append(errors)
        return len(self._errors) - 1


class _Prepared:
    """One score, ready for the weights of its subset."""

    def __init__(self, score: ScoredSet, subset: _Subset) -> None:
        self._subset = subset
        confidence = score.confidence[subset.records]
        self._columns: dict[str, int] = {}
        if score.probability is not None:
            probability = score.probability[subset.records]
            self._columns["brier"] = subset.add_errors((probability - subset.label) ** 2)
            if score.is_probability:
                self._columns["log_loss"] = subset.add_errors(log_losses(probability, subset.label))
        self._ranked = Ranked(confidence, subset.label, MOST_GROUPS)
        self.shift = dict.fromkeys(RESAMPLED, 0.0)
        if self._ranked.is_merged:
            merged, exact = self.metrics(), self.metrics(Ranked(confidence, subset.label))
            self.shift |= {metric: float(exact[metric][0] - merged[metric][0]) for metric in exact}

    def metrics(self, ranked: Ranked | None = None) -> dict[str, Floats]:
        """Return the metrics under the subset's present weights, (R,) each."""
        ranked = ranked or self._ranked
        sums = ranked.sums(self._subset.weight)
        area = aurc_of(sums)
        values = {
            "acc": top_accuracy_of(sums),
            "aurc": area,
            "prr": prr_of(area, self._subset.oracle, self._subset.error),
        }
        if ranked.is_binary:
            values |= {"auroc": auroc_of(sums), "auprc": auprc_of(sums)}
        if self._subset.errors is not None:
            values |= {metric: self._subset.errors[:, column] for metric, column in self._columns.items()}
        return values
