"""All metrics of all scores of a set of records, with intervals, comparisons and what had to be left out.

A record without a label, and for each score a record without that score (null, NaN or infinite), is left out and
counted; nothing is imputed. A metric that is not defined is None with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.bootstrap import ScoredSet, draws, resampled
from tokur_cli.metrics.calibration import FOLDS, calibrated
from tokur_cli.metrics.catalogue import METRICS, RANKING_METRICS, SPAN_METRICS, leading
from tokur_cli.metrics.delong import delong
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranked import Floats, Ranked
from tokur_cli.metrics.ranking import length_strata
from tokur_cli.metrics.within import SpanTable

FEWEST = 5
"""Questions with a right label, and with a wrong one, from which scores are told apart.

Of two scores that rank alike, one is called better or worse in 67 % of sets of 60 records of which one is right, in
28 % with two and in 10 % with five."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How scores are evaluated.

    Attributes:
        bootstrap: number of resamples for intervals and comparisons; 0 for none.
        seed: of the resamples and of the folds of the calibration.
        versus: the score that all others are compared with in every metric.
        against: scores that all others are compared with in the leading metric; those that are not there are left out.
    """

    bootstrap: int = 1000
    seed: int = 0
    versus: str | None = None
    against: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """What one score achieves, in one run or over several.

    Attributes:
        records: how many labelled records have it, summed over runs.
        missing: how many labelled records do not.
        metrics: by name, those of ``METRICS`` that it can have, in their order.
        differences: from the baseline, by the same names, on the records that have both; empty without a baseline.
        delong_p: p-value of no difference in AUROC from the baseline by DeLong's test, see ``delong``; None where it is
            not defined, and over several runs.
        against: differences from each score of ``Plan.against`` in the leading metric, on the records that have both;
            without an interval, and so without a verdict, where right or wrong labels are of few questions.
    """

    records: int
    missing: int
    metrics: dict[str, Estimate]
    differences: dict[str, Estimate] = field(default_factory=dict)
    delong_p: float | None = None
    against: dict[str, Estimate] = field(default_factory=dict)

    @classmethod
    def over_runs(cls, runs: Sequence[ScoreResult]) -> ScoreResult:
        """Return what the score achieves over several runs."""
        metrics, differences, against = (
            {
                name: Estimate.over_runs(found)
                for name in dict.fromkeys(name for one in of_runs for name in one)
                if (found := [one[name] for one in of_runs if name in one])
            }
            for of_runs in zip(*((run.metrics, run.differences, run.against) for run in runs), strict=True)
        )
        records, missing = sum(run.records for run in runs), sum(run.missing for run in runs)
        return cls(records, missing, metrics, differences, against=against)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What every score achieves on a set of records, in one run or over several.

    Attributes:
        records: how many records have a label, summed over runs.
        questions: how many questions these answer.
        unlabelled: how many records have none and are left out.
        accuracy: mean label.
        is_binary: whether all labels are right or wrong, not graded in between.
        scores: what each score achieves, by its name.
        runs: how many runs there are.
    """

    records: int
    questions: int
    unlabelled: int
    accuracy: Estimate
    is_binary: bool
    scores: dict[str, ScoreResult]
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
            len(runs),
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
        label: (N,), 1 for right, 0 for wrong or a quality in [0, 1], NaN where a record has none.
        plan: how.
        cluster: (N,) number of the question of each record; by default each is its own. Resamples, p-values and the
            folds of the calibration go by question.
        response: (N,) number of each record's response, of records that are spans: those of one stand in the order of
            the text. None where a record is a whole response.
        length: (N,) tokens of each record, NaN where that is not known; None for no metrics at fixed length.
        probabilities: the scores that are probabilities of being right as they are, and are not calibrated.

    Raises:
        KeyError: ``plan.versus`` is not one of the scores.
        ValueError: a label lies outside [0, 1].
    """
    label = np.asarray(label, dtype=np.float64)
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in confidences.items()}
    labelled = np.isfinite(label)
    known = label[labelled]
    if ((known < 0) | (known > 1)).any():
        raise ValueError("labels must lie in [0, 1]")
    every = np.arange(len(label)) if cluster is None else np.asarray(cluster)
    stratum = None if length is None else length_strata(np.asarray(length, dtype=np.float64)[labelled])
    run = _Run(known, every[labelled], plan, stratum)
    run.scores = {name: run.scored(values[labelled], name in probabilities) for name, values in arrays.items()}
    results = run.results()
    if response is not None:
        spans = _Spans(SpanTable(label, np.asarray(response)), every, plan)
        results = spans.added_to(results, arrays)
    accuracy = Estimate(float(known.mean()) if len(known) else None)
    questions = len(np.unique(run.cluster))
    return Evaluation(len(known), questions, int((~labelled).sum()), accuracy, _is_binary(known), results)


@dataclass
class _Run:
    """The labelled records of one run.

    Attributes:
        label: (N,), in [0, 1].
        cluster: (N,) number of the question of each.
        plan: how they are evaluated.
        stratum: (N,) number of the part of the lengths that each is in, -1 for none; None for no such parts.
        scores: what is evaluated.
    """

    label: Floats
    cluster: NDArray[np.generic]
    plan: Plan
    stratum: NDArray[np.intp] | None = None
    scores: dict[str, ScoredSet] = field(default_factory=dict)

    def scored(self, confidence: Floats, is_probability: bool) -> ScoredSet:
        """Return a score with its calibrated probabilities, where there are questions enough to calibrate on."""
        confidence = np.where(np.isfinite(confidence), confidence, np.nan)
        held = np.isfinite(confidence)
        if is_probability:
            return ScoredSet(confidence, confidence, is_probability=True)
        if len(np.unique(self.cluster[held])) < 2 * FOLDS:
            return ScoredSet(confidence)
        probability = np.full(len(self.label), np.nan)
        probability[held] = calibrated(
            confidence[held], self.label[held], cluster=self.cluster[held], seed=self.plan.seed
        )
        return ScoredSet(confidence, probability)

    def results(self) -> dict[str, ScoreResult]:
        """Return what each score achieves."""
        versus = self.plan.versus
        present = {name: score for name, score in self.scores.items() if np.isfinite(score.confidence).any()}
        drawn = self._drawn(present, np.ones(len(self.label), dtype=bool)) if present else {}
        figures = {name: self._metrics(score) for name, score in self.scores.items()}
        leads, few = leading(is_binary=_is_binary(self.label)).name, self._few()
        results = {}
        for name, score in self.scores.items():
            metrics = dict(figures[name])
            for metric, values in drawn.get(name, {}).items():
                if (value := metrics[metric].value) is not None:
                    metrics[metric] = Estimate.resampled(value, values)
            count = int(np.isfinite(score.confidence).sum())
            others = [other for other in self.plan.against if other in present and other != name]
            found = {other: self._differences(name, other, figures, drawn) for other in others}
            against = {other: differences[leads] for other, differences in found.items() if leads in differences}
            if few is not None:
                against = {other: Estimate(difference.value, reason=few) for other, difference in against.items()}
            results[name] = ScoreResult(count, len(self.label) - count, metrics, against=against)
            if versus is not None and versus != name:
                differences = found.get(versus) or self._differences(name, versus, figures, drawn)
                results[name] = replace(results[name], differences=differences, delong_p=self._delong_p(name, versus))
        return results

    def _few(self) -> str | None:
        """Return why scores are not told apart, if so: resamples of few right or wrong labels are too much alike."""
        if not _is_binary(self.label):
            return None
        fewest = min(len(np.unique(self.cluster[self.label == value])) for value in (0, 1))
        return f"fewer than {FEWEST} questions have a right response, or a wrong one" if fewest < FEWEST else None

    def _differences(
        self,
        name: str,
        baseline: str,
        figures: Mapping[str, dict[str, Estimate]],
        drawn: Mapping[str, dict[str, Floats]],
    ) -> dict[str, Estimate]:
        """Return a score's paired differences from a baseline in every metric that both have.

        They are of the records that have both; ``figures`` and ``drawn`` are metrics of all records that have a score,
        and under the resamples of all.
        """
        both = self._both(name, baseline)
        pair = {one: self.scores[one] for one in (name, baseline)}
        if not all((np.isfinite(score.confidence) == both).all() for score in pair.values()):
            figures = {one: self._metrics(score, both) for one, score in pair.items()}
            drawn = self._drawn({one: score.part(both) for one, score in pair.items()}, both)
        own, other = figures[name], figures[baseline]
        of_own, of_other = drawn.get(name, {}), drawn.get(baseline, {})
        found = {}
        for metric in METRICS:
            if metric not in of_own or metric not in of_other:
                continue
            value, baseline_value = own[metric].value, other[metric].value
            differences = of_own[metric] - of_other[metric]
            if value is not None and baseline_value is not None and np.isfinite(differences).any():
                found[metric] = Estimate.resampled(value - baseline_value, differences, is_difference=True)
        return found

    def _both(self, name: str, baseline: str) -> NDArray[np.bool_]:
        """Return (N,) whether a record has both scores."""
        held = [np.isfinite(self.scores[one].confidence) for one in (name, baseline)]
        return held[0] & held[1]

    def _delong_p(self, name: str, baseline: str) -> float | None:
        both = self._both(name, baseline)
        label, cluster = self.label[both], self.cluster[both]
        if not _is_binary(label) or min(len(np.unique(cluster[label == value])) for value in (0, 1)) < 2:
            return None
        first, second = (self.scores[one].confidence[both] for one in (name, baseline))
        p = delong(first, second, label, cluster).p
        return p if math.isfinite(p) else None

    def _metrics(self, score: ScoredSet, records: NDArray[np.bool_] | None = None) -> dict[str, Estimate]:
        """Return the metrics of a score on the records that have it, or on those of them that are among ``records``."""
        held = np.isfinite(score.confidence) if records is None else np.isfinite(score.confidence) & records
        score, label = score.part(held), self.label[held]
        stratum = None if self.stratum is None else self.stratum[held]
        rankings = [metric for metric in RANKING_METRICS if stratum is not None or metric.labels != "strata"]
        if not len(label):
            lacking = Estimate(None, reason="no record has this score")
            calibrated_ones = (metric for metric in score.probability_metrics() if metric.calibrates)
            return {metric.name: lacking for metric in (*rankings, *calibrated_ones)}
        undefined = _undefined(label, stratum)
        sums = Ranked(score.confidence, label, stratum=stratum).sums(best=Ranked(label, label).sums())
        found = {
            metric.name: Estimate(None, reason=undefined[metric.labels])
            if metric.labels in undefined
            else Estimate(float(metric.of(sums)[0]))
            for metric in rankings
        }
        few = Estimate(None, reason=f"fewer than {2 * FOLDS} questions to calibrate on")
        return found | {
            metric.name: few
            if score.probability is None
            else Estimate(float(np.mean(metric.of(score.probability, label))))
            for metric in score.probability_metrics()
        }

    def _drawn(self, scores: Mapping[str, ScoredSet], records: NDArray[np.bool_]) -> dict[str, dict[str, Floats]]:
        """Return resampled metrics of scores of some of the records."""
        questions, cluster = np.unique(self.cluster[records], return_inverse=True)
        if not self.plan.bootstrap or len(questions) < 2:  # all resamples of one would be the same
            return {}
        label = self.label[records]
        stratum = None if self.stratum is None else self.stratum[records]
        return resampled(
            scores, label, resamples=self.plan.bootstrap, seed=self.plan.seed, cluster=cluster, stratum=stratum
        )


def _undefined(label: Floats, stratum: NDArray[np.intp] | None) -> dict[str, str]:
    """Return why the metrics for some kinds of labels, see ``RankingMetric.labels``, are not defined."""
    found: dict[str, str] = {}
    if not _is_binary(label):
        found["classes"] = "labels are graded, not right or wrong"
    if (label == label[0]).all():
        found["classes"] = found["unequal"] = f"all {len(label)} records have the label {label[0]:g}"
    if "classes" in found:
        found["strata"] = found["classes"]
    elif stratum is not None and (stratum < 0).all():
        found["strata"] = "no record tells its length (neg_length)"
    elif stratum is not None and not set(stratum[label == 1]) & set(stratum[label == 0]) - {-1}:
        found["strata"] = "no two records of similar length are right and wrong"
    return found


def _is_binary(label: Floats) -> bool:
    return bool(np.isin(label, (0.0, 1.0)).all())


class _Spans:
    """The metrics of spans within their responses: means over responses."""

    def __init__(self, table: SpanTable, cluster: NDArray[np.generic], plan: Plan) -> None:
        self._table, self._versus = table, plan.versus
        questions, question = np.unique(cluster[table.first], return_inverse=True)  # (Q,) the second
        several = len(questions) > 1
        self._weights = list(draws(len(question), plan.bootstrap, plan.seed, question)) if several else []

    def added_to(self, results: Mapping[str, ScoreResult], confidences: Mapping[str, Floats]) -> dict[str, ScoreResult]:
        """Return the results with the metrics of spans beside the others, from the (N,) confidences of each score."""
        if not len(self._table.first):
            return dict(results)
        ranked = {name: self._table.ranked(confidence) for name, confidence in confidences.items()}
        found = {name: {metric.name: metric.of(spans) for metric in SPAN_METRICS} for name, spans in ranked.items()}
        drawn = {name: {metric: self._means(values) for metric, values in of.items()} for name, of in found.items()}
        added = {}
        for name, result in results.items():
            metrics = {metric: _mean(values, drawn[name][metric]) for metric, values in found[name].items()}
            differences = {}
            if self._versus is not None and name != self._versus:
                other, drawn_other = found[self._versus], drawn[self._versus]
                differences = {
                    metric: _mean(values - other[metric], drawn[name][metric] - drawn_other[metric], is_difference=True)
                    for metric, values in found[name].items()
                }
            added[name] = replace(
                result, metrics=result.metrics | metrics, differences=result.differences | differences
            )
        return added

    def _means(self, of_response: Floats) -> Floats:
        """Return (R,) means of (Q,) values, NaN left out; empty without resamples."""
        known = np.isfinite(of_response)
        sums = [weight[:, known] @ of_response[known] for weight in self._weights]
        counts = [weight[:, known].sum(axis=1) for weight in self._weights]
        with np.errstate(invalid="ignore"):  # a resample may hold no such response: it counts as undefined
            return np.concatenate(sums) / np.concatenate(counts) if self._weights else np.array([])


def _mean(of_response: Floats, drawn: Floats, *, is_difference: bool = False) -> Estimate:
    known = of_response[np.isfinite(of_response)]
    if not len(known):
        return Estimate(None, reason="no response has a wrong span beside another one")
    return Estimate.resampled(float(known.mean()), drawn, is_difference=is_difference)
