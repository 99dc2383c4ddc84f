"""All metrics of all scores of a set of records, with intervals, comparisons and what had to be left out.

A record without a label, and for each score a record without that score (null, NaN or infinite), is left out and
counted; nothing is imputed. A metric that is not defined is None with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.calibration import FOLDS, fit_isotonic, held_out
from tokur_cli.metrics.catalogue import METRICS, Metric, ProbabilityMetric, RankingMetric, SpanMetric
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
    differences: dict[str, dict[str, Estimate]] = field(default_factory=dict)

    @classmethod
    def over_runs(cls, runs: Sequence[ScoreResult]) -> ScoreResult:
        """Return what the score achieves over several runs."""
        baselines = dict.fromkeys(name for run in runs for name in run.differences)
        return cls(
            sum(run.records for run in runs),
            sum(run.missing for run in runs),
            _over_runs([run.metrics for run in runs]),
            {name: _over_runs([run.differences.get(name, {}) for run in runs]) for name in baselines},
        )


def _over_runs(runs: Sequence[Mapping[str, Estimate]]) -> dict[str, Estimate]:
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: Estimate.over_runs([run[name] for run in runs if name in run]) for name in names}


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

    @classmethod
    def over_runs(cls, runs: Sequence[Evaluation]) -> Evaluation:
        """Return the only run's evaluation, or that of several runs with the same scores."""
        if len(runs) == 1:
            return runs[0]
        names = runs[0].scores if runs else ()
        return cls(
            sum(run.records for run in runs),
            sum(run.questions for run in runs),
            sum(run.unlabelled for run in runs),
            Estimate.over_runs([run.accuracy for run in runs]),
            all(run.is_binary for run in runs),
            {name: ScoreResult.over_runs([run.scores[name] for run in runs]) for name in names},
            runs=len(runs),
        )


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
    known = label[labelled]
    question = np.arange(len(label)) if cluster is None else np.asarray(cluster)
    stratum = None if length is None else length_strata(np.asarray(length, dtype=np.float64)[labelled])
    run = _Run(known, question[labelled], stratum, plan)
    scores = {}
    for name, values in confidences.items():
        confidence = np.asarray(values, dtype=np.float64)
        scores[name] = run.score(confidence[labelled], is_probability=name in probabilities)
        if response is not None:
            of_spans = _of_spans(label, confidence, response)
            scores[name].losses.update({metric: of[labelled] for metric, of in of_spans.items()})
    return Evaluation(
        len(known),
        len(np.unique(run.cluster)),
        int((~labelled).sum()),
        Estimate(float(known.mean()) if len(known) else None),
        _is_binary(known),
        run.results(scores),
        run.undecided(),
    )


def _of_spans(label: Floats, confidence: Floats, response: ArrayLike) -> dict[str, Floats]:
    """Return (N,) metrics of spans within their responses: at the first labelled one of each, NaN at the others."""
    metrics = {name: metric for name, metric in METRICS.items() if isinstance(metric, SpanMetric)}
    found = {name: np.full(len(label), np.nan) for name in metrics}
    for row in rows_of(response):
        if len(known := row[np.isfinite(label[row])]):
            for name, metric in metrics.items():
                found[name][known[0]] = metric.of(label[row], confidence[row])
    return found


@dataclass(frozen=True, slots=True)
class _Score:
    """The labelled records by one score.

    Attributes:
        confidence: (N,), NaN where a record has none.
        losses: by metric (N,) numbers whose mean, NaN left out, is that metric.
        others: metrics that are not resampled.
    """

    confidence: Floats
    losses: dict[str, Floats] = field(default_factory=dict)
    others: dict[str, Estimate] = field(default_factory=dict)

    def beside(self, other: _Score) -> _Score:
        """Return the score of the records that another one has, too."""
        losses = {
            metric: np.where(np.isfinite(other.losses[metric]), loss, np.nan)
            for metric, loss in self.losses.items()
            if metric in other.losses
        }
        return _Score(np.where(np.isfinite(other.confidence), self.confidence, np.nan), losses)


class _Figures(NamedTuple):
    """A score's value in each metric, NaN where it is not defined, and (R,) resampled values of each."""

    values: dict[str, float]
    drawn: dict[str, Floats]


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
        held = np.isfinite(confidence)
        probability = np.where(held, confidence, np.nan)
        found = _Score(probability)
        questions = self.cluster[held]
        is_enough = len(np.unique(questions)) >= 2 * FOLDS
        if is_enough and not is_probability:
            fit = partial(fit_isotonic, lowest=0.0)
            probability = np.full(len(confidence), np.nan)
            probability[held] = held_out(confidence[held, None], self.label[held], fit, questions, self.plan.seed)
        for name, metric in METRICS.items():
            if isinstance(metric, ProbabilityMetric) and (metric.calibrates or is_probability):
                if not is_enough and not is_probability:
                    found.others[name] = Estimate(None, reason=f"fewer than {2 * FOLDS} questions to calibrate on")
                elif metric.has_interval:
                    found.losses[name] = np.asarray(metric.of(probability, self.label))
                elif len(questions):
                    found.others[name] = Estimate(float(np.mean(metric.of(probability[held], self.label[held]))))
        return found

    def results(self, scores: Mapping[str, _Score]) -> dict[str, ScoreResult]:
        """Return what each score achieves."""
        figures = self._figures(scores)
        results = {}
        for name, score in scores.items():
            differences = {}
            for other in self.plan.baselines:
                if other != name and other in figures and figures[other].drawn:
                    own, baseline = figures[name], figures[other]
                    if (np.isfinite(score.confidence) != np.isfinite(scores[other].confidence)).any():
                        pair = {name: score.beside(scores[other]), other: scores[other].beside(score)}
                        own, baseline = self._figures(pair).values()
                    differences[other] = _differences(own, baseline)
            count = int(np.isfinite(score.confidence).sum())
            metrics = self._estimates(score, figures[name])
            results[name] = ScoreResult(count, len(self.label) - count, metrics, differences)
        return results

    def undecided(self) -> str | None:
        """Return why scores are not told apart, if so: resamples of few correct or incorrect labels are too alike."""
        if not _is_binary(self.label):
            return None
        fewest = min(len(np.unique(self.cluster[self.label == value])) for value in (0, 1))
        return (
            f"fewer than {FEWEST} questions have a correct response, or an incorrect one" if fewest < FEWEST else None
        )

    def _estimates(self, score: _Score, figures: _Figures) -> dict[str, Estimate]:
        """Return a score's figures with their intervals, or why they are not defined, in the order of the metrics."""
        found = {}
        for name, metric in METRICS.items():
            if name in score.others:
                found[name] = score.others[name]
            elif name in figures.values:
                value = figures.values[name]
                if np.isnan(value):
                    found[name] = Estimate(None, reason=self._undefined(metric, np.isfinite(score.confidence)))
                else:
                    found[name] = Estimate.resampled(value, figures.drawn.get(name, np.empty(0)))
        return found

    def _undefined(self, metric: Metric, held: NDArray[np.bool_]) -> str:
        """Return why a metric of the records of which a score is held is not defined."""
        label = self.label[held]
        if not len(label):
            return "no record has this score"
        if isinstance(metric, SpanMetric):
            return "no response has an incorrect span beside another one"
        if (label == label[0]).all():
            return f"all {len(label)} records have the label {label[0]:g}"
        if not _is_binary(label):
            return "labels are graded, not correct or incorrect"
        if self.stratum is not None and (self.stratum[held] < 0).all():
            return "no record tells its length (neg_length)"
        return "no two records of similar length are correct and incorrect"

    def _figures(self, scores: Mapping[str, _Score]) -> dict[str, _Figures]:
        """Return the figures of scores under the same resamples, which draw whole questions with replacement."""
        ones = np.ones((1, len(self.label)))
        exact = {name: self._metrics(score, None)(ones) for name, score in scores.items()}
        found = {
            name: _Figures({metric: float(value[0]) for metric, value in of.items()}, {}) for name, of in exact.items()
        }
        if not self.plan.bootstrap or len(np.unique(self.cluster)) < 2:
            return found
        merged = {name: self._metrics(score, MOST_GROUPS) for name, score in scores.items()}
        chunks: dict[str, list[dict[str, Floats]]] = {name: [] for name in scores}
        for weight in draws(self.cluster, self.plan.bootstrap, self.plan.seed):
            for name, of in merged.items():
                chunks[name].append(of(weight))
        for name, of in merged.items():
            for metric, value in of(ones).items():
                drawn = np.concatenate([chunk[metric] for chunk in chunks[name]])
                found[name].drawn[metric] = drawn + (exact[name][metric] - value)
        return found

    def _metrics(self, score: _Score, most_groups: int | None) -> Callable[[Floats], dict[str, Floats]]:
        """Return what gives of (R, N) weights (R,) values of each metric, NaN where one is not defined."""
        held = np.flatnonzero(np.isfinite(score.confidence))
        label, stratum = self.label[held], None if self.stratum is None else self.stratum[held]
        ranking = Ranking(score.confidence[held], label, stratum, most_groups)
        has_classes = np.array_equal(np.unique(label), (0.0, 1.0))
        losses = np.array([*score.losses.values()]).reshape(len(score.losses), len(self.label)).T  # (N, L)
        known, losses = np.isfinite(losses).astype(np.float64), np.nan_to_num(losses)

        def of(weight: Floats) -> dict[str, Floats]:
            sums = ranking.sums(weight if len(held) == len(self.label) else weight[:, held])
            found = {}
            for name, metric in METRICS.items():
                if isinstance(metric, RankingMetric) and (stratum is not None or not metric.by_length):
                    is_defined = len(held) and (metric.graded or has_classes)
                    found[name] = metric.of(sums) if is_defined else np.full(len(weight), np.nan)
            return found | dict(zip(score.losses, ratio(weight @ losses, weight @ known).T, strict=True))

        return of


def _differences(own: _Figures, baseline: _Figures) -> dict[str, Estimate]:
    """Return a score's paired differences from a baseline in every metric that both have, in the metrics' order."""
    found = {}
    for metric in METRICS:
        if metric in own.drawn and metric in baseline.drawn:
            value = own.values[metric] - baseline.values[metric]
            drawn = own.drawn[metric] - baseline.drawn[metric]
            if np.isfinite(value) and np.isfinite(drawn).any():
                found[metric] = Estimate.resampled(value, drawn, is_difference=True)
    return found


def _is_binary(label: Floats) -> bool:
    return bool(np.isin(label, (0.0, 1.0)).all())
