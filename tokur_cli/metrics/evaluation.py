"""All metrics of all scores of a set of records, with intervals, comparisons and what had to be left out.

A record without a label, and for each score a record without that score (null, NaN or infinite), is left out and
counted; nothing is imputed. A metric that is not defined is None with the reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.calibration import FOLDS, fit_isotonic, held_out
from tokur_cli.metrics.catalogue import METRICS, Metric
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranking import Floats, Indices, Ranking, draws, length_strata, ratio
from tokur_cli.metrics.scaling import rows_of

MOST_GROUPS = 1_024
"""Groups of neighbours that resamples rank at most, so that 100,000 records cost seconds instead of minutes. Values
are shifted by what merging changes in the full set: an interval's width changes by less than a thousandth of itself."""

FEWEST = 5
"""Questions with a correct label, and with an incorrect one, from which scores are told apart.

Of two scores that rank alike, one is called better or worse in 67 % of sets of 60 records of which one is correct, in
28 % with two and in 10 % with five."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How scores are evaluated.

    Attributes:
        bootstrap: number of resamples for intervals and comparisons; 0 for none.
        seed: of the resamples and of the folds of the calibration.
        baselines: scores that all others are compared with; those that no record has are left out.
    """

    bootstrap: int = 1000
    seed: int = 0
    baselines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """What one score achieves, in one run or over several.

    Attributes:
        records: how many labelled records have it, summed over runs.
        missing: how many labelled records do not.
        metrics: by name, those of ``METRICS`` that it can have, in their order.
        differences: from each other score of ``Plan.baselines``, by the same names, on the records that have both.
    """

    records: int
    missing: int
    metrics: dict[str, Estimate]
    differences: dict[str, dict[str, Estimate]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What every score achieves on a set of records, in one run or over several.

    Attributes:
        records: how many records have a label, summed over runs.
        questions: how many questions these answer.
        unlabelled: how many records have none and are left out.
        accuracy: mean label.
        is_binary: whether all labels are correct or incorrect, not graded in between.
        scores: what each score achieves, by its name.
        undecided: why no score is called better or worse than another one; None where they may be.
        runs: how many runs there are.
    """

    records: int
    questions: int
    unlabelled: int
    accuracy: Estimate
    is_binary: bool
    scores: dict[str, ScoreResult]
    undecided: str | None = None
    runs: int = 1


def evaluate_scores(
    confidences: Mapping[str, ArrayLike],
    label: ArrayLike,
    plan: Plan = Plan(),
    *,
    cluster: ArrayLike | None = None,
    response: ArrayLike | None = None,
    length: ArrayLike | None = None,
    probabilities: Collection[str] = (),
) -> Evaluation:
    """Evaluate every score of one run.

    Args:
        confidences: for each score (N,) confidences (uncertainties negated), NaN where a record has none.
        label: (N,), 1 for correct, 0 for incorrect or a quality in [0, 1], NaN where a record has none.
        plan: how.
        cluster: (N,) number of the question of each record; by default each is its own. Resamples, p-values and the
            folds of the calibration go by question.
        response: (N,) number of each record's response, of records that are spans: those of one stand in the order of
            the text. None where a record is a whole response.
        length: (N,) tokens of each record, NaN where that is not known; None for no metrics at fixed length.
        probabilities: the scores that are probabilities of being correct as they are, and are not calibrated.
    """
    label = np.asarray(label, dtype=np.float64)
    labelled = np.isfinite(label)
    question = np.arange(len(label)) if cluster is None else np.asarray(cluster)
    stratum = None if length is None else length_strata(np.asarray(length, dtype=np.float64)[labelled])
    run = _Run(label[labelled], question[labelled], stratum, plan)
    scores = {}
    for name, values in confidences.items():
        confidence = np.asarray(values, dtype=np.float64)
        scores[name] = run.score(confidence[labelled], is_probability=name in probabilities)
        if response is not None:
            of_spans = _of_spans(label, confidence, response)
            scores[name].losses.update({metric: of[labelled] for metric, of in of_spans.items()})
    return run.evaluation(scores, int((~labelled).sum()))


def _of_spans(label: Floats, confidence: Floats, response: ArrayLike) -> dict[str, Floats]:
    """Return (N,) metrics of spans within their responses: at the first labelled one of each, NaN at the others."""
    metrics = [metric for metric in METRICS.values() if metric.kind == "spans"]
    found = {metric.name: np.full(len(label), np.nan) for metric in metrics}
    for row in rows_of(response):
        if len(known := row[np.isfinite(label[row])]):
            for metric in metrics:
                found[metric.name][known[0]] = metric.of(label[row], confidence[row])
    return found


@dataclass(frozen=True, slots=True)
class _Score:
    """The labelled records by one score.

    Attributes:
        confidence: (N,), NaN where a record has none.
        losses: by metric (N,) numbers whose mean, NaN left out, is that metric.
    """

    confidence: Floats
    losses: dict[str, Floats]

    @property
    def held(self) -> NDArray[np.bool_]:
        """Whether each record has the score, (N,)."""
        return np.isfinite(self.confidence)

    def beside(self, other: _Score) -> _Score:
        """Return the score of the records that another one has, too."""
        both = [name for name in self.losses if name in other.losses]
        losses = {name: np.where(np.isfinite(other.losses[name]), self.losses[name], np.nan) for name in both}
        return _Score(np.where(other.held, self.confidence, np.nan), losses)


@dataclass(frozen=True, slots=True)
class _Run:
    """The labelled records of one run.

    Attributes:
        label: (N,), in [0, 1].
        cluster: (N,) number of the question of each.
        stratum: (N,) number of the stratum of the lengths that each is in, -1 for none; None for no strata.
        plan: how they are evaluated.
    """

    label: Floats
    cluster: NDArray[np.generic]
    stratum: Indices | None
    plan: Plan

    def score(self, confidence: Floats, *, is_probability: bool) -> _Score:
        """Return the records by a score, calibrated where there are questions enough."""
        found = _Score(np.where(np.isfinite(confidence), confidence, np.nan), {})
        probability, held = found.confidence, found.held
        if not is_probability:
            probability, questions = np.full(len(held), np.nan), self.cluster[held]
            if len(np.unique(questions)) >= 2 * FOLDS:
                fit = partial(fit_isotonic, lowest=0.0)
                probability[held] = held_out(confidence[held, None], self.label[held], fit, questions, self.plan.seed)
        known = np.isfinite(probability)
        for name, metric in METRICS.items():
            if metric.kind == "probability" and (metric.calibrates or is_probability):
                found.losses[name] = np.full(len(known), np.nan)
                found.losses[name][known] = metric.of(probability[known], self.label[known])
        return found

    def evaluation(self, scores: Mapping[str, _Score], unlabelled: int) -> Evaluation:
        """Return what each score achieves, in a run with so many more records that have no label."""
        figures = self._figures(scores)
        results = {}
        for name, score in scores.items():
            differences = {}
            for other in self.plan.baselines:
                if other != name and other in scores and self._is_resampled:
                    ours, theirs = figures[name], figures[other]
                    if (score.held != scores[other].held).any():
                        both = {"ours": score.beside(scores[other]), "theirs": scores[other].beside(score)}
                        ours, theirs = self._figures(both).values()
                    differences[other] = _differences(ours, theirs)
            count = int(score.held.sum())
            metrics = {metric: self._estimate(METRICS[metric], score, of) for metric, of in figures[name].items()}
            results[name] = ScoreResult(count, len(self.label) - count, metrics, differences)
        accuracy = Estimate(float(self.label.mean()) if len(self.label) else None)
        questions, is_binary = len(np.unique(self.cluster)), _is_binary(self.label)
        # Resamples of few correct or incorrect labels are too alike to tell scores apart
        fewest = min(len(np.unique(self.cluster[self.label == value])) for value in (0, 1))
        undecided = None
        if is_binary and fewest < FEWEST:
            undecided = f"fewer than {FEWEST} questions have a correct response, or an incorrect one"
        return Evaluation(len(self.label), questions, unlabelled, accuracy, is_binary, results, undecided)

    @property
    def _is_resampled(self) -> bool:
        return self.plan.bootstrap > 0 and len(np.unique(self.cluster)) > 1

    def _estimate(self, metric: Metric, score: _Score, values: Floats) -> Estimate:
        """Return a figure with its interval, or why it is not defined; values are as in ``_figures``."""
        if not np.isnan(values[0]):
            return Estimate.resampled(float(values[0]), values[1:])
        label = self.label[score.held]
        if not len(label):
            reason = "no record has this score"
        elif metric.kind == "probability":
            reason = f"fewer than {2 * FOLDS} questions to calibrate on"
        elif metric.kind == "spans":
            reason = "no response has an incorrect span beside another one"
        elif (label == label[0]).all():
            reason = f"all {len(label)} records have the label {label[0]:g}"
        elif not _is_binary(label):
            reason = "labels are graded, not correct or incorrect"
        elif self.stratum is not None and (self.stratum[score.held] < 0).all():
            reason = "no record tells its length (neg_length)"
        else:
            reason = "no two records of similar length are correct and incorrect"
        return Estimate(None, reason=reason)

    def _figures(self, scores: Mapping[str, _Score]) -> dict[str, dict[str, Floats]]:
        """Return what each score has in each metric, in the order of ``METRICS``.

        Returns:
            (1 + R,) values: that of all records, NaN where it is not defined, and those of resamples, the same for all
            scores, which draw whole questions with replacement; none of a metric without an interval.
        """
        ones = np.ones((1, len(self.label)))
        found = {name: self._metrics(score, None)(ones) for name, score in scores.items()}
        if not self._is_resampled:
            return found
        merged = {name: self._metrics(score, MOST_GROUPS) for name, score in scores.items()}
        chunks: dict[str, list[dict[str, Floats]]] = {name: [] for name in scores}
        for weight in itertools.chain([ones], draws(self.cluster, self.plan.bootstrap, self.plan.seed)):
            for name, of in merged.items():
                chunks[name].append(of(weight))
        for name, of_chunks in chunks.items():
            for metric, exact in found[name].items():
                if METRICS[metric].has_interval:
                    drawn = np.concatenate([values[metric] for values in of_chunks])
                    found[name][metric] = np.concatenate([exact, drawn[1:] + (exact - drawn[0])])
        return found

    def _metrics(self, score: _Score, most_groups: int | None) -> Callable[[Floats], dict[str, Floats]]:
        """Return what gives of (R, N) weights (R,) values of each metric, NaN where one is not defined."""
        ranking = Ranking(score.confidence, self.label, self.stratum, most_groups)
        labels = np.unique(self.label[score.held])
        losses = np.array([*score.losses.values()]).reshape(len(score.losses), len(self.label)).T  # (N, L)
        known, losses = np.isfinite(losses).astype(np.float64), np.nan_to_num(losses)

        def of(weight: Floats) -> dict[str, Floats]:
            sums = ranking.sums(weight)
            found = dict(zip(score.losses, ratio(weight @ losses, weight @ known).T, strict=True))
            for name, metric in METRICS.items():
                if metric.kind == "ranking" and (self.stratum is not None or not metric.by_length):
                    is_defined = len(labels) if metric.graded else np.array_equal(labels, (0.0, 1.0))
                    found[name] = metric.of(sums) if is_defined else np.full(len(weight), np.nan)
            return {name: found[name] for name in METRICS if name in found}

        return of


def _differences(ours: Mapping[str, Floats], theirs: Mapping[str, Floats]) -> dict[str, Estimate]:
    """Return how far one score is above another in every metric that both have; values are as in ``_figures``."""
    found = {}
    for metric in ours:
        if metric in theirs:
            values = ours[metric] - theirs[metric]
            if np.isfinite(values[0]) and np.isfinite(values[1:]).any():
                found[metric] = Estimate.resampled(float(values[0]), values[1:], is_difference=True)
    return found


def _is_binary(label: Floats) -> bool:
    return bool(np.isin(label, (0.0, 1.0)).all())
