"""All metrics of all scores of a set of records, with intervals, comparisons and what had to be left out.

A record without a label, and for each score a record without that score (null, NaN or infinite), is left out and
counted; nothing is imputed. A metric that is not defined is None with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.calibration import FOLDS, calibrated
from tokur_cli.metrics.catalogue import METRICS, Metric, ProbabilityMetric, RankingMetric, SpanMetric
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranking import Floats, Indices, Sums, length_strata, ranked, resampled

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
    for name, values in confidences.items():
        confidence = np.asarray(values, dtype=np.float64)
        run.add(name, confidence[labelled], is_probability=name in probabilities)
        if response is not None:
            of_spans = _of_spans(label, confidence, np.asarray(response))
            run.losses[name] |= {metric: of[labelled] for metric, of in of_spans.items()}
    accuracy = Estimate(float(known.mean()) if len(known) else None)
    questions, unlabelled = len(np.unique(run.cluster)), int((~labelled).sum())
    return Evaluation(len(known), questions, unlabelled, accuracy, _is_binary(known), run.results(), run.undecided())


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


@dataclass
class _Run:
    """The labelled records of one run.

    Attributes:
        label: (N,), in [0, 1].
        cluster: (N,) number of the question of each.
        plan: how they are evaluated.
        stratum: (N,) number of the stratum of the lengths that each is in, -1 for none; None for no strata.
        confidences: (N,) of each score, NaN where a record has none.
        probabilities: the same, calibrated unless they are probabilities as they are; of the scores that can be.
        are_probabilities: the scores that are.
        losses: for each score by metric (N,) numbers whose mean, NaN left out, is that metric.
    """

    label: Floats
    cluster: NDArray[np.generic]
    plan: Plan
    stratum: Indices | None
    confidences: dict[str, Floats] = field(default_factory=dict)
    probabilities: dict[str, Floats] = field(default_factory=dict)
    are_probabilities: set[str] = field(default_factory=set)
    losses: dict[str, dict[str, Floats]] = field(default_factory=dict)

    def add(self, name: str, confidence: Floats, *, is_probability: bool) -> None:
        """Take a score, and calibrate it where there are questions enough."""
        held = np.isfinite(confidence)
        confidence = self.confidences[name] = np.where(held, confidence, np.nan)
        self.losses[name] = {}
        if is_probability:
            self.are_probabilities.add(name)
            self.probabilities[name] = confidence
        elif len(np.unique(self.cluster[held])) >= 2 * FOLDS:
            self.probabilities[name] = np.full(len(self.label), np.nan)
            self.probabilities[name][held] = calibrated(
                confidence[held], self.label[held], cluster=self.cluster[held], seed=self.plan.seed
            )
        for metric in self._metrics(name):
            if isinstance(metric, ProbabilityMetric) and metric.has_interval and name in self.probabilities:
                self.losses[name][metric.name] = np.asarray(metric.of(self.probabilities[name], self.label))

    def results(self) -> dict[str, ScoreResult]:
        """Return what each score achieves."""
        values = {name: self._values(name) for name in self.confidences}
        drawn = self._drawn()
        results = {}
        for name, confidence in self.confidences.items():
            metrics = {
                metric: Estimate.resampled(of.value, drawn[name][metric])
                if of.value is not None and metric in drawn.get(name, {})
                else of
                for metric, of in values[name].items()
            }
            differences = {
                other: self._differences(name, other, values, drawn)
                for other in self.plan.baselines
                if other != name and other in drawn
            }
            count = int(np.isfinite(confidence).sum())
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

    def _differences(
        self,
        name: str,
        baseline: str,
        values: Mapping[str, Mapping[str, Estimate]],
        drawn: Mapping[str, Mapping[str, Floats]],
    ) -> dict[str, Estimate]:
        """Return a score's paired differences from a baseline in every metric, on the records that have both.

        ``values`` and ``drawn`` are of all records that have a score.
        """
        held = [np.isfinite(self.confidences[one]) for one in (name, baseline)]
        if (held[0] != held[1]).any():
            both = replace(
                self,
                confidences=_where(held[0] & held[1], self.confidences, (name, baseline)),
                probabilities=_where(held[0] & held[1], self.probabilities, (name, baseline)),
                losses={
                    name: _shared(self.losses[name], self.losses[baseline]),
                    baseline: _shared(self.losses[baseline], self.losses[name]),
                },
            )
            values, drawn = {one: both._values(one) for one in (name, baseline)}, both._drawn()
        found = {}
        for metric in METRICS:
            if metric in drawn.get(name, {}) and metric in drawn.get(baseline, {}):
                value, other = values[name][metric].value, values[baseline][metric].value
                differences = drawn[name][metric] - drawn[baseline][metric]
                if value is not None and other is not None and np.isfinite(differences).any():
                    found[metric] = Estimate.resampled(value - other, differences, is_difference=True)
        return found

    def _metrics(self, name: str) -> Iterator[Metric]:
        """Yield the metrics that a score can have."""
        for metric in METRICS.values():
            if isinstance(metric, RankingMetric):
                can_have = self.stratum is not None or metric.labels != "strata"
            elif isinstance(metric, ProbabilityMetric):
                can_have = metric.calibrates or name in self.are_probabilities
            else:
                can_have = metric.name in self.losses[name]
            if can_have:
                yield metric

    def _values(self, name: str) -> dict[str, Estimate]:
        """Return a score's figures, without intervals."""
        held = np.isfinite(self.confidences[name])
        label, stratum = self.label[held], None if self.stratum is None else self.stratum[held]
        if not len(label):
            return {metric.name: Estimate(None, reason="no record has this score") for metric in self._metrics(name)}
        undefined, sums = _undefined(label, stratum), ranked(self.confidences[name][held], label, stratum)
        return {metric.name: self._value(metric, name, sums, undefined) for metric in self._metrics(name)}

    def _value(self, metric: Metric, name: str, sums: Sums, undefined: Mapping[str, str]) -> Estimate:
        if isinstance(metric, RankingMetric):
            reason = undefined.get(metric.labels)
            return Estimate(None, reason=reason) if reason else Estimate(float(metric.of(sums)[0]))
        if metric.name in self.losses[name]:
            loss = self.losses[name][metric.name]
            if (known := np.isfinite(loss)).any():
                return Estimate(float(loss[known].mean()))
            return Estimate(None, reason="no response has an incorrect span beside another one")
        if name not in self.probabilities:
            return Estimate(None, reason=f"fewer than {2 * FOLDS} questions to calibrate on")
        assert isinstance(metric, ProbabilityMetric)
        held = np.isfinite(self.probabilities[name])
        return Estimate(float(np.mean(metric.of(self.probabilities[name][held], self.label[held]))))

    def _drawn(self) -> dict[str, dict[str, Floats]]:
        """Return resampled metrics of the scores that any record has."""
        present = {name: values for name, values in self.confidences.items() if np.isfinite(values).any()}
        if (
            not present or not self.plan.bootstrap or len(np.unique(self.cluster)) < 2
        ):  # all resamples of one are the same
            return {}
        is_binary = _is_binary(self.label)
        rankings = {
            metric.name: metric.of
            for metric in self._metrics(next(iter(present)))
            if isinstance(metric, RankingMetric) and (is_binary or metric.labels in ("any", "unequal"))
        }
        return resampled(
            present,
            self.losses,
            self.label,
            rankings,
            cluster=self.cluster,
            stratum=self.stratum,
            resamples=self.plan.bootstrap,
            seed=self.plan.seed,
        )


def _where(held: NDArray[np.bool_], columns: Mapping[str, Floats], names: Sequence[str]) -> dict[str, Floats]:
    """Return (N,) columns, NaN but where ``held``."""
    return {name: np.where(held, columns[name], np.nan) for name in names if name in columns}


def _shared(losses: Mapping[str, Floats], others: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the (N,) losses, NaN where another score's of the same metric are."""
    return {
        metric: np.where(np.isfinite(others[metric]), loss, np.nan)
        for metric, loss in losses.items()
        if metric in others
    }


def _undefined(label: Floats, stratum: Indices | None) -> dict[str, str]:
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
