"""All metrics of all scores of a set of records, with intervals, comparisons and what had to be left out.

A record without a label, and for each score a record without that score (null, NaN or infinite), is left out and
counted; nothing is imputed. A metric that is not defined is None with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.calibration import FOLDS, calibrated
from tokur_cli.metrics.catalogue import METRICS, ProbabilityMetric, RankingMetric, SpanMetric
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranking import Floats, Indices, length_strata, ranked, resampled

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

    Raises:
        ValueError: a label lies outside [0, 1].
    """
    label = np.asarray(label, dtype=np.float64)
    labelled = np.isfinite(label)
    known = label[labelled]
    if ((known < 0) | (known > 1)).any():
        raise ValueError("labels must lie in [0, 1]")
    every = np.arange(len(label)) if cluster is None else np.asarray(cluster)
    stratum = None if length is None else length_strata(np.asarray(length, dtype=np.float64)[labelled])
    run = _Run(known, every[labelled], plan, stratum)
    scores = {}
    for name, values in confidences.items():
        confidence = np.asarray(values, dtype=np.float64)
        scores[name] = run.score(confidence[labelled], is_probability=name in probabilities)
        if response is not None:
            of_spans = _of_spans(label, confidence, np.asarray(response))
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


def _of_spans(label: Floats, confidence: Floats, response: NDArray[np.generic]) -> dict[str, Floats]:
    """Return (N,) metrics of spans within their responses: at the first labelled one of each, NaN at the others."""
    found = {name: np.full(len(label), np.nan) for name, metric in METRICS.items() if isinstance(metric, SpanMetric)}
    order = np.argsort(response, kind="stable")
    starts = np.flatnonzero(response[order][1:] != response[order][:-1]) + 1
    for row in np.split(order, starts):
        if len(known := row[np.isfinite(label[row])]):
            for metric in METRICS.values():
                if isinstance(metric, SpanMetric):
                    found[metric.name][known[0]] = metric.of(label[row], confidence[row])
    return found


@dataclass(frozen=True, slots=True)
class _Score:
    """The labelled records by one score.

    Attributes:
        confidence: (N,), NaN where a record has none.
        probability: the same, calibrated unless it is a probability as it is; None for too few questions.
        is_probability: whether it is.
        losses: by metric (N,) numbers whose mean, NaN left out, is that metric.
    """

    confidence: Floats
    probability: Floats | None
    is_probability: bool
    losses: dict[str, Floats]

    def beside(self, other: _Score) -> _Score:
        """Return the score of the records that another one has, too."""
        both = np.isfinite(self.confidence) & np.isfinite(other.confidence)
        losses = {
            metric: np.where(np.isfinite(other.losses[metric]), loss, np.nan)
            for metric, loss in self.losses.items()
            if metric in other.losses
        }
        probability = None if self.probability is None else np.where(both, self.probability, np.nan)
        return _Score(np.where(both, self.confidence, np.nan), probability, self.is_probability, losses)


@dataclass(frozen=True, slots=True)
class _Run:
    """The labelled records of one run.

    Attributes:
        label: (N,), in [0, 1].
        cluster: (N,) number of the question of each.
        plan: how they are evaluated.
        stratum: (N,) number of the stratum of the lengths that each is in, -1 for none; None for no strata.
    """

    label: Floats
    cluster: NDArray[np.generic]
    plan: Plan
    stratum: Indices | None

    def score(self, confidence: Floats, *, is_probability: bool) -> _Score:
        """Return the records by a score, calibrated where there are questions enough."""
        held = np.isfinite(confidence)
        confidence = np.where(held, confidence, np.nan)
        probability = confidence if is_probability else None
        if not is_probability and len(np.unique(self.cluster[held])) >= 2 * FOLDS:
            probability = np.full(len(confidence), np.nan)
            probability[held] = calibrated(
                confidence[held], self.label[held], cluster=self.cluster[held], seed=self.plan.seed
            )
        losses = {
            name: np.asarray(metric.of(probability, self.label))
            for name, metric in METRICS.items()
            if probability is not None and isinstance(metric, ProbabilityMetric)
            if metric.has_interval and (metric.calibrates or is_probability)
        }
        return _Score(confidence, probability, is_probability, losses)

    def results(self, scores: Mapping[str, _Score]) -> dict[str, ScoreResult]:
        """Return what each score achieves."""
        values = {name: self._values(score) for name, score in scores.items()}
        drawn = self._drawn(scores)
        results = {}
        for name, score in scores.items():
            metrics = dict(values[name])
            for metric, resamples in drawn.get(name, {}).items():
                if (value := metrics[metric].value) is not None:
                    metrics[metric] = Estimate.resampled(value, resamples)
            differences = {}
            for other in self.plan.baselines:
                if other != name and other in drawn:
                    pair, figures, of_pair = {name: score, other: scores[other]}, values, drawn
                    if (np.isfinite(score.confidence) != np.isfinite(scores[other].confidence)).any():
                        pair = {name: score.beside(scores[other]), other: scores[other].beside(score)}
                        figures, of_pair = {one: self._values(of) for one, of in pair.items()}, self._drawn(pair)
                    differences[other] = _differences(name, other, figures, of_pair)
            count = int(np.isfinite(score.confidence).sum())
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

    def _values(self, score: _Score) -> dict[str, Estimate]:
        """Return a score's figures in the metrics that it can have, without intervals."""
        held = np.isfinite(score.confidence)
        label, stratum = self.label[held], None if self.stratum is None else self.stratum[held]
        undefined = _undefined(label, stratum)
        sums = ranked(score.confidence[held], label, stratum) if len(label) else None
        found = {}
        for name, metric in METRICS.items():
            reason: str | None = None
            value: float | None = None
            if isinstance(metric, RankingMetric):
                if metric.labels == "strata" and self.stratum is None:
                    continue
                reason = undefined.get(metric.labels)
                if sums is not None and reason is None:
                    value = float(metric.of(sums)[0])
            elif name in score.losses:
                loss = score.losses[name]
                known = loss[np.isfinite(loss)]
                value = float(known.mean()) if len(known) else None
                reason = "no response has an incorrect span beside another one" if value is None else None
            elif isinstance(metric, ProbabilityMetric) and (metric.calibrates or score.is_probability):
                if score.probability is None:
                    reason = f"fewer than {2 * FOLDS} questions to calibrate on"
                elif len(label):
                    value = float(np.mean(metric.of(score.probability[held], label)))
            else:
                continue
            found[name] = Estimate(value, reason=reason if len(label) else "no record has this score")
        return found

    def _drawn(self, scores: Mapping[str, _Score]) -> dict[str, dict[str, Floats]]:
        """Return resampled metrics of the scores that any record has; none where all resamples are the same."""
        present = {name: score for name, score in scores.items() if np.isfinite(score.confidence).any()}
        if not present or not self.plan.bootstrap or len(np.unique(self.cluster)) < 2:
            return {}
        defined = {"any", "unequal"} | ({"classes"} if _is_binary(self.label) else set())
        if "classes" in defined and self.stratum is not None:
            defined.add("strata")
        return resampled(
            {name: score.confidence for name, score in present.items()},
            {name: score.losses for name, score in present.items()},
            self.label,
            {
                name: metric.of
                for name, metric in METRICS.items()
                if isinstance(metric, RankingMetric) and metric.has_interval and metric.labels in defined
            },
            cluster=self.cluster,
            stratum=self.stratum,
            resamples=self.plan.bootstrap,
            seed=self.plan.seed,
        )


def _differences(
    name: str,
    baseline: str,
    values: Mapping[str, Mapping[str, Estimate]],
    drawn: Mapping[str, Mapping[str, Floats]],
) -> dict[str, Estimate]:
    """Return a score's paired differences from a baseline in every metric that both have."""
    found = {}
    for metric in METRICS:
        if metric in drawn.get(name, {}) and metric in drawn.get(baseline, {}):
            value, other = values[name][metric].value, values[baseline][metric].value
            differences = drawn[name][metric] - drawn[baseline][metric]
            if value is not None and other is not None and np.isfinite(differences).any():
                found[metric] = Estimate.resampled(value - other, differences, is_difference=True)
    return found


def _undefined(label: Floats, stratum: Indices | None) -> dict[str, str]:
    """Return why the metrics for some kinds of labels, see ``RankingMetric.labels``, are not defined."""
    found: dict[str, str] = {}
    if not len(label):
        return found
    if not _is_binary(label):
        found["classes"] = "labels are graded, not correct or incorrect"
    if (label == label[0]).all():
        found["classes"] = found["unequal"] = f"all {len(label)} records have the label {label[0]:g}"
    if "classes" in found:
        found["strata"] = found["classes"]
    elif stratum is not None and (stratum < 0).all():
        found["strata"] = "no record tells its length (neg_length)"
    elif stratum is not None and not set(stratum[label == 1]) & set(stratum[label == 0]) - {-1}:
        found["strata"] = "no two records of similar length are correct and incorrect"
    return found


def _is_binary(label: Floats) -> bool:
    return bool(np.isin(label, (0.0, 1.0)).all())
