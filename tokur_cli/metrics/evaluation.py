"""All metrics of all scores of a set of records, with intervals, comparisons and what had to be left out.

A record without a label, and for each score a record without that score (null, NaN or infinite), is left out and
counted; nothing is imputed. A metric that is not defined is None with the reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.calibration import FOLDS, fit_isotonic, held_out
from tokur_cli.metrics.catalogue import METRICS, Metric
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranking import Floats, Indices, draws, length_strata, ranking, ratio

MOST_GROUPS = 1_024
"""Groups of neighbours that resamples rank at most, so that 100,000 records cost seconds instead of minutes. Values
are shifted by what merging changes in the full set: an interval's width changes by less than a thousandth of itself."""

FEWEST = 5
"""Questions with a correct label, and with an incorrect one, from which scores are told apart.

Of two scores that rank alike, one is called better or worse in 67 % of sets of 60 records of which one is correct, in
28 % with two and in 10 % with five."""


class ScoreResult(NamedTuple):
    """What one score achieves, in one run or over several."""

    records: int  # how many labelled records have it, summed over runs
    metrics: dict[str, Estimate]  # by name, those of ``METRICS`` that it can have, in their order
    # From each other one of the baselines, by the same names, on the records that have both
    differences: dict[str, dict[str, Estimate]]


class Evaluation(NamedTuple):
    """What every score achieves on a set of records, in one run or over several."""

    records: int  # how many records have a label, summed over runs
    questions: int  # how many questions these answer
    unlabelled: int  # how many records have none and are left out
    accuracy: Estimate  # the mean label
    is_binary: bool  # whether all labels are correct or incorrect, not graded in between
    scores: dict[str, ScoreResult]  # what each score achieves, by its name
    undecided: str | None = None  # why no score is called better or worse than another one; None where they may be
    runs: int = 1


def evaluate_scores(
    confidences: Mapping[str, ArrayLike],
    label: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    response: ArrayLike | None = None,
    length: ArrayLike | None = None,
    probabilities: Collection[str] = (),
    baselines: Sequence[str] = (),
    bootstrap: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """Evaluate every score of one run.

    Args:
        confidences: for each score (N,) confidences (uncertainties negated), NaN where a record has none.
        label: (N,), 1 for correct, 0 for incorrect or a quality in [0, 1], NaN where a record has none.
        cluster: (N,) number of the question of each record; by default each is its own. Resamples, p-values and the
            folds of the calibration go by question.
        response: (N,) number of each record's response, of records that are spans: those of one stand together, in the
            order of the text. None where a record is a whole response.
        length: (N,) tokens of each record, NaN where that is not known; None for no metrics at fixed length.
        probabilities: the scores that are probabilities of being correct as they are, and are not calibrated.
        baselines: scores that all others are compared with; those that no record has are left out.
        bootstrap: number of resamples for intervals and comparisons; 0 for none.
        seed: of the resamples and of the folds of the calibration.
    """
    label = np.asarray(label, dtype=np.float64)
    labelled = np.isfinite(label)
    question = (np.arange(len(label)) if cluster is None else np.asarray(cluster))[labelled]
    stratum = None if length is None else length_strata(np.asarray(length, dtype=np.float64)[labelled])
    questions = len(np.unique(question))
    run = _Run(label[labelled], question, stratum, bootstrap if questions > 1 else 0, seed)
    scores = {}
    for name, values in confidences.items():
        confidence = np.asarray(values, dtype=np.float64)
        scores[name] = run.columns(confidence[labelled], is_probability=name in probabilities)
        if response is not None:
            scores[name] |= {metric: of[labelled] for metric, of in _of_spans(label, confidence, response).items()}
    # Resamples of few correct or incorrect labels are too alike to tell scores apart
    fewest = min(len(np.unique(question[run.label == value])) for value in (0, 1))
    is_binary = bool(np.isin(run.label, (0, 1)).all())
    few = f"fewer than {FEWEST} questions have a correct response, or an incorrect one"
    return Evaluation(
        records=len(run.label),
        questions=questions,
        unlabelled=int((~labelled).sum()),
        accuracy=Estimate(float(run.label.mean()) if len(run.label) else None),
        is_binary=is_binary,
        scores=run.results(scores, baselines),
        undecided=few if is_binary and fewest < FEWEST else None,
    )


def _of_spans(label: Floats, confidence: Floats, response: ArrayLike) -> dict[str, Floats]:
    """Return (N,) metrics of spans within their responses: at the first labelled one of each, NaN at the others."""
    found = {name: np.full(len(label), np.nan) for name, metric in METRICS.items() if metric.kind == "spans"}
    for row in np.split(np.arange(len(label)), np.flatnonzero(np.diff(response)) + 1):
        if len(known := row[np.isfinite(label[row])]):
            for name, values in found.items():
                values[known[0]] = METRICS[name].of(label[row], confidence[row])
    return found


_Columns = dict[str, Floats]
"""The labelled records by one score, (N,) numbers each, NaN where a record has none: the ``confidence`` in it, and by
metric the losses whose mean it is."""


class _Run(NamedTuple):
    """The labelled records of one run; see ``evaluate_scores`` and ``length_strata``."""

    label: Floats  # (N,)
    cluster: NDArray[np.generic]  # (N,)
    stratum: Indices | None  # (N,)
    resamples: int
    seed: int

    def columns(self, confidence: Floats, *, is_probability: bool) -> _Columns:
        """Return the records by a score, calibrated where there are questions enough."""
        held = np.isfinite(confidence)
        own = np.where(held, confidence, np.nan)
        probability = own if is_probability else np.full(len(held), np.nan)
        if not is_probability and len(np.unique(self.cluster[held])) >= 2 * FOLDS:
            fit = partial(fit_isotonic, lowest=0.0)
            probability[held] = held_out(own[held, None], self.label[held], fit, self.cluster[held], self.seed)
        known, found = np.isfinite(probability), {"confidence": own}
        for name, metric in METRICS.items():
            if metric.kind == "probability" and (metric.calibrates or is_probability):
                found[name] = np.full(len(known), np.nan)
                found[name][known] = metric.of(probability[known], self.label[known])
        return found

    def results(self, scores: Mapping[str, _Columns], baselines: Sequence[str]) -> dict[str, ScoreResult]:
        """Return what each score achieves, and how far it is above each baseline on the records that have both."""
        figures = dict(zip(scores, self._figures(list(scores.values())), strict=True))
        results = {}
        for name, score in scores.items():
            metrics = {
                metric: Estimate.resampled(values, reason=self._why_undefined(METRICS[metric], score))
                for metric, values in figures[name].items()
            }
            differences = {}
            for other in baselines:
                if other != name and other in scores:
                    pair, (ours, theirs) = (score, scores[other]), (figures[name], figures[other])
                    if np.logical_xor(*(np.isnan(of["confidence"]) for of in pair)).any():
                        ours, theirs = self._figures([_beside(*pair), _beside(*reversed(pair))])
                    both = [metric for metric in ours if metric in theirs and METRICS[metric].has_interval]
                    gaps = {metric: ours[metric] - theirs[metric] for metric in both}
                    found = {metric: Estimate.resampled(gap, is_difference=True) for metric, gap in gaps.items()}
                    differences[other] = {metric: gap for metric, gap in found.items() if gap.value is not None}
            results[name] = ScoreResult(int(np.isfinite(score["confidence"]).sum()), metrics, differences)
        return results

    def _why_undefined(self, metric: Metric, score: _Columns) -> str:
        """Return why a score has no such figure."""
        held = ~np.isnan(score["confidence"])
        label = self.label[held]
        if not len(label):
            return "no record has this score"
        if metric.kind == "probability":
            return f"fewer than {2 * FOLDS} questions to calibrate on"
        if metric.kind == "spans":
            return "no response has an incorrect span beside another one"
        if (label == label[0]).all():
            return f"every record has the label {label[0]:g}"
        if not np.isin(label, (0, 1)).all():
            return "labels are graded, not correct or incorrect"
        if self.stratum is not None and (self.stratum[held] < 0).all():
            return "no record tells its length (neg_length)"
        return "no two records of similar length are correct and incorrect"

    def _figures(self, scores: Sequence[_Columns]) -> list[dict[str, Floats]]:
        """Return (1 + R,) values of each score in each metric, in the order of ``METRICS``.

        They are of all records, NaN where a metric is not defined, and of resamples of whole questions, the same for
        all scores; none of these without an interval.
        """
        ones = np.ones((1, len(self.label)))
        found = [self._metrics(score, None)(ones) for score in scores]
        merged = [self._metrics(score, MOST_GROUPS) for score in scores]
        weights = draws(self.cluster, self.resamples, self.seed) if self.resamples else ()
        drawn = [[of(weight) for of in merged] for weight in itertools.chain([ones], weights)]
        for figures, chunks in zip(found, zip(*drawn, strict=True), strict=True):
            for metric, value in figures.items():
                if METRICS[metric].has_interval:
                    first, *others = (chunk[metric] for chunk in chunks)
                    figures[metric] = np.concatenate([value, *(other + (value - first) for other in others)])
        return found

    def _metrics(self, score: _Columns, most_groups: int | None) -> Callable[[Floats], dict[str, Floats]]:
        """Return what gives of (R, N) weights (R,) values of each metric, NaN where one is not defined."""
        sums_of = ranking(score["confidence"], self.label, self.stratum, most_groups)
        labels = np.unique(self.label[~np.isnan(score["confidence"])])

        def of(weight: Floats) -> dict[str, Floats]:
            sums = sums_of(weight)
            found: dict[str, Floats] = {}
            for name, metric in METRICS.items():
                if name in score:
                    known = ~np.isnan(score[name])
                    found[name] = ratio(weight @ np.where(known, score[name], 0.0), weight @ known)
                elif metric.kind == "ranking" or (metric.kind == "at_length" and self.stratum is not None):
                    is_defined = len(labels) if metric.graded else np.array_equal(labels, (0.0, 1.0))
                    found[name] = metric.of(sums) if is_defined else np.full(len(weight), np.nan)
            return found

        return of


def _beside(score: _Columns, other: _Columns) -> _Columns:
    """Return the records by a score that another one has, too."""
    return {name: np.where(np.isnan(other[name]), np.nan, of) for name, of in score.items() if name in other}
