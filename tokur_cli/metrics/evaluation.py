"""All metrics of all scores of a set of records, with intervals, comparisons and what had to be left out.

A record without a label, and for each score a record without that score (null, NaN or infinite), is left out and
counted; nothing is imputed. A metric that is not defined is None with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.calibration import FOLDS, calibrated
from tokur_cli.metrics.catalogue import (
    METRICS,
    PROBABILITY_METRICS,
    RANKING_METRICS,
    SPAN_METRICS,
    ProbabilityMetric,
    RankingMetric,
    leading,
)
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranking import Floats, Places, draws, length_strata, ranked, resampled

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
        against: differences from each score of ``Plan.against`` in the leading metric, on the records that have both;
            without an interval, and so without a verdict, where right or wrong labels are of few questions.
    """

    records: int
    missing: int
    metrics: dict[str, Estimate]
    differences: dict[str, Estimate] = field(default_factory=dict)
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
        probabilities: the scores that are probabilities of being correct as they are, and are not calibrated.

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
    run = _Run(known, every[labelled], plan, stratum, frozenset(probabilities))
    for name, values in arrays.items():
        run.add(name, values[labelled])
    results = run.results()
    if response is not None:
        results = _with_spans(results, arrays, label, np.asarray(response), every, plan)
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
        stratum: (N,) number of the stratum of the lengths that each is in, -1 for none; None for no strata.
        are_probabilities: the scores that are probabilities as they are.
        confidences: (N,) of each score, NaN where a record has none.
        probabilities: the same, calibrated, of the scores that can be.
    """

    label: Floats
    cluster: NDArray[np.generic]
    plan: Plan
    stratum: Places | None
    are_probabilities: frozenset[str]
    confidences: dict[str, Floats] = field(default_factory=dict)
    probabilities: dict[str, Floats] = field(default_factory=dict)

    def add(self, name: str, confidence: Floats) -> None:
        """Take a score, and calibrate it where there are questions enough."""
        confidence = self.confidences[name] = np.where(np.isfinite(confidence), confidence, np.nan)
        held = np.isfinite(confidence)
        if name in self.are_probabilities:
            self.probabilities[name] = confidence
        elif len(np.unique(self.cluster[held])) >= 2 * FOLDS:
            self.probabilities[name] = np.full(len(self.label), np.nan)
            self.probabilities[name][held] = calibrated(
                confidence[held], self.label[held], cluster=self.cluster[held], seed=self.plan.seed
            )

    def results(self) -> dict[str, ScoreResult]:
        """Return what each score achieves."""
        versus, every = self.plan.versus, np.ones(len(self.label), dtype=bool)
        present = [name for name, confidence in self.confidences.items() if np.isfinite(confidence).any()]
        drawn = self._drawn(present, every)
        figures = {name: self._metrics(name, every) for name in self.confidences}
        leads, few = leading(is_binary=_is_binary(self.label)).name, self._few()
        results = {}
        for name, confidence in self.confidences.items():
            metrics = dict(figures[name])
            for metric, values in drawn.get(name, {}).items():
                if (value := metrics[metric].value) is not None:
                    metrics[metric] = Estimate.resampled(value, values)
            others = [other for other in self.plan.against if other in present]
            if versus is not None and versus not in others:
                others.append(versus)
            found = {other: self._differences(name, other, figures, drawn) for other in others if other != name}
            against = {
                other: differences[leads] if few is None else Estimate(differences[leads].value, reason=few)
                for other, differences in found.items()
                if other in self.plan.against and leads in differences
            }
            count = int(np.isfinite(confidence).sum())
            differences = found.get(versus, {}) if versus is not None else {}
            results[name] = ScoreResult(count, len(self.label) - count, metrics, differences, against)
        return results

    def _few(self) -> str | None:
        """Return why scores are not told apart, if so: resamples of few correct or incorrect labels are too alike."""
        if not _is_binary(self.label):
            return None
        fewest = min(len(np.unique(self.cluster[self.label == value])) for value in (0, 1))
        return (
            f"fewer than {FEWEST} questions have a correct response, or an incorrect one" if fewest < FEWEST else None
        )

    def _differences(
        self,
        name: str,
        baseline: str,
        figures: Mapping[str, dict[str, Estimate]],
        drawn: Mapping[str, dict[str, Floats]],
    ) -> dict[str, Estimate]:
        """Return a score's paired differences from a baseline in every metric, on the records that have both.

        ``figures`` and ``drawn`` are metrics of all records that have a score, and under the resamples of all.
        """
        pair = [name, baseline]
        held = [np.isfinite(self.confidences[one]) for one in pair]
        both = held[0] & held[1]
        if not all((one == both).all() for one in held):
            figures = {one: self._metrics(one, both) for one in pair}
            drawn = self._drawn(pair, both)
        own, other = drawn.get(name, {}), drawn.get(baseline, {})
        found = {}
        for metric in METRICS:
            if metric in own and metric in other:
                value, baseline_value = figures[name][metric].value, figures[baseline][metric].value
                differences = own[metric] - other[metric]
                if value is not None and baseline_value is not None and np.isfinite(differences).any():
                    found[metric] = Estimate.resampled(value - baseline_value, differences, is_difference=True)
        return found

    def _of_probabilities(self, name: str) -> list[ProbabilityMetric]:
        """Return the metrics of probabilities that a score may have."""
        return [metric for metric in PROBABILITY_METRICS if metric.calibrates or name in self.are_probabilities]

    def _rankings(self) -> list[RankingMetric]:
        return [metric for metric in RANKING_METRICS if self.stratum is not None or metric.labels != "strata"]

    def _metrics(self, name: str, records: NDArray[np.bool_]) -> dict[str, Estimate]:
        """Return a score's figures on some of the records, without intervals."""
        held = records & np.isfinite(self.confidences[name])
        label, stratum = self.label[held], None if self.stratum is None else self.stratum[held]
        if not len(label):
            lacking = Estimate(None, reason="no record has this score")
            calibrating = (metric for metric in self._of_probabilities(name) if metric.calibrates)
            return {metric.name: lacking for metric in (*self._rankings(), *calibrating)}
        undefined, sums = _undefined(label, stratum), ranked(self.confidences[name][held], label, stratum)
        found = {
            metric.name: Estimate(None, reason=undefined[metric.labels])
            if metric.labels in undefined
            else Estimate(float(metric.of(sums)[0]))
            for metric in self._rankings()
        }
        few = Estimate(None, reason=f"fewer than {2 * FOLDS} questions to calibrate on")
        probability = self.probabilities.get(name)
        return found | {
            metric.name: few if probability is None else Estimate(float(np.mean(metric.of(probability[held], label))))
            for metric in self._of_probabilities(name)
        }

    def _drawn(self, names: Sequence[str], records: NDArray[np.bool_]) -> dict[str, dict[str, Floats]]:
        """Return resampled metrics of scores on some of the records."""
        cluster = self.cluster[records]
        if not names or not self.plan.bootstrap or len(np.unique(cluster)) < 2:  # all resamples of one are the same
            return {}
        label = self.label[records]
        is_binary = _is_binary(label)
        rankings = [one for one in self._rankings() if one.has_interval and (is_binary or not one.needs_classes)]
        losses = {
            name: {
                metric.name: np.asarray(metric.of(self.probabilities[name][records], label))
                for metric in self._of_probabilities(name)
                if metric.has_interval
            }
            for name in names
            if name in self.probabilities
        }
        return resampled(
            {name: self.confidences[name][records] for name in names},
            losses,
            label,
            {metric.name: metric.of for metric in rankings},
            cluster=cluster,
            stratum=None if self.stratum is None else self.stratum[records],
            resamples=self.plan.bootstrap,
            seed=self.plan.seed,
        )


def _undefined(label: Floats, stratum: Places | None) -> dict[str, str]:
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


def _with_spans(
    results: Mapping[str, ScoreResult],
    confidences: Mapping[str, Floats],
    label: Floats,
    response: NDArray[np.generic],
    cluster: NDArray[np.generic],
    plan: Plan,
) -> dict[str, ScoreResult]:
    """Return the results with the metrics of spans within their responses: means over the responses."""
    if not len(label):
        return dict(results)
    _, first, counts = np.unique(response, return_index=True, return_counts=True)
    rows = np.split(np.argsort(response, kind="stable"), np.cumsum(counts)[:-1])
    several = len(np.unique(cluster[first])) > 1
    weights = list(draws(cluster[first], plan.bootstrap, plan.seed)) if several else []
    found = {
        name: {metric.name: np.array([metric.of(label[row], values[row]) for row in rows]) for metric in SPAN_METRICS}
        for name, values in confidences.items()
    }
    drawn = {
        name: {metric: _resampled_mean(values, weights) for metric, values in of.items()} for name, of in found.items()
    }
    added = {}
    for name, result in results.items():
        metrics = {metric: _mean(values, drawn[name][metric]) for metric, values in found[name].items()}
        differences = {}
        if (versus := plan.versus) is not None and name != versus:
            differences = {
                metric: _mean(
                    values - found[versus][metric], drawn[name][metric] - drawn[versus][metric], is_difference=True
                )
                for metric, values in found[name].items()
            }
        added[name] = replace(result, metrics=result.metrics | metrics, differences=result.differences | differences)
    return added


def _resampled_mean(of_response: Floats, weights: Sequence[Floats]) -> Floats:
    """Return (R,) means of (Q,) values, NaN left out; empty without resamples."""
    known = np.isfinite(of_response)
    sums = [weight[:, known] @ of_response[known] for weight in weights]
    counts = [weight[:, known].sum(axis=1) for weight in weights]
    with np.errstate(invalid="ignore"):  # a resample may hold no such response: it counts as undefined
        return np.concatenate(sums) / np.concatenate(counts) if weights else np.array([])


def _mean(of_response: Floats, drawn: Floats, *, is_difference: bool = False) -> Estimate:
    known = of_response[np.isfinite(of_response)]
    if not len(known):
        return Estimate(None, reason="no response has a wrong span beside another one")
    return Estimate.resampled(float(known.mean()), drawn, is_difference=is_difference)
