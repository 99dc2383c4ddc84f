"""All metrics of all scores of a set of records, with intervals, comparisons and what had to be left out.

A record without a label, and for each score a record without that score (null, NaN or infinite), is left out and
counted; nothing is imputed. A metric that is not defined is None with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.bootstrap import RESAMPLED, ScoredSet, interval, resampled, two_sided_p
from tokur_cli.metrics.calibration import FOLDS, brier, calibrated, ece, log_losses
from tokur_cli.metrics.delong import delong
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranked import Floats, Ranked
from tokur_cli.metrics.ranking import auprc_of, auroc_of, top_accuracy_of
from tokur_cli.metrics.rejection import aurc_of, prr_of

METRICS = (*RESAMPLED, "ece")

LOWER_IS_BETTER = frozenset({"aurc", "brier", "log_loss", "ece"})
"""The metrics whose smaller values are better; of all others the larger ones are."""


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """What one score achieves, in one run or over several.

    Attributes:
        records: how many labelled records have it, summed over runs.
        missing: how many labelled records do not.
        metrics: by name, all ``METRICS``; of probabilities the log loss, too, and of spans of responses those of
            ``within_responses``.
        differences: from the baseline, by the same names, on the records that have both; empty without a baseline.
        delong_p: p-value of no difference in AUROC from the baseline by DeLong's test, see ``delong``; None where it is
            not defined, and over several runs.
    """

    records: int
    missing: int
    metrics: dict[str, Estimate]
    differences: dict[str, Estimate] = field(default_factory=dict)
    delong_p: float | None = None

    @classmethod
    def over_runs(cls, runs: Sequence[ScoreResult]) -> ScoreResult:
        """Return what the score achieves over several runs."""
        metrics, differences = (
            {
                metric: Estimate.over_runs(found)
                for metric in dict.fromkeys(metric for one in of_runs for metric in one)
                if (found := [one[metric] for one in of_runs if metric in one])
            }
            for of_runs in ([run.metrics for run in runs], [run.differences for run in runs])
        )
        return cls(sum(run.records for run in runs), sum(run.missing for run in runs), metrics, differences)


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
    *,
    bootstrap: int = 1000,
    seed: int = 0,
    versus: str | None = None,
    cluster: ArrayLike | None = None,
    probabilities: Collection[str] = (),
) -> Evaluation:
    """Evaluate every score of one run.

    Args:
        confidences: for each score (N,) confidences (uncertainties negated), NaN where a record has none.
        label: (N,), 1 for right, 0 for wrong or a quality in [0, 1], NaN where a record has none.
        bootstrap: number of resamples for intervals and comparisons; 0 for none.
        seed: of the resamples and of the folds of the calibration.
        versus: the score that all others are compared with.
        cluster: (N,) number of the question of each record; by default each is its own. Resamples, p-values and the
            folds of the calibration go by question.
        probabilities: the scores that are probabilities of being right as they are, and are not calibrated.

    Raises:
        KeyError: ``versus`` is not one of the scores.
        ValueError: a label lies outside [0, 1].
    """
    label = np.asarray(label, dtype=np.float64)
    labelled = np.isfinite(label)
    known = label[labelled]
    if ((known < 0) | (known > 1)).any():
        raise ValueError("labels must lie in [0, 1]")
    clusters = (np.arange(len(label)) if cluster is None else np.asarray(cluster))[labelled]
    scores = {
        name: _scored(np.asarray(values, dtype=np.float64)[labelled], known, clusters, seed, name in probabilities)
        for name, values in confidences.items()
    }
    baseline = scores[versus] if versus is not None else None
    resampling = _Resampling(scores, known, clusters, bootstrap, seed)
    results = {}
    for name, score in scores.items():
        metrics = _metrics(score, known)
        for metric, values in resampling.all_scores.get(name, {}).items():
            if metrics[metric].value is not None and np.isfinite(values).any():
                metrics[metric] = Estimate(metrics[metric].value, *interval(values))
        differences: dict[str, Estimate] = {}
        delong_p = None
        if baseline is not None and name != versus:
            both = np.isfinite(score.confidence) & np.isfinite(baseline.confidence)
            own, other = _part(score, both), _part(baseline, both)
            differences = _differences(own, other, known[both], *resampling.pair(name, versus or "", both))
            delong_p = _delong_p(own.confidence, other.confidence, known[both], clusters[both])
        count = int(np.isfinite(score.confidence).sum())
        results[name] = ScoreResult(count, len(known) - count, metrics, differences, delong_p)
    accuracy = Estimate(float(known.mean()) if len(known) else None)
    questions = len(np.unique(clusters))
    return Evaluation(len(known), questions, int((~labelled).sum()), accuracy, _is_binary(known), results)


def _scored(
    confidence: Floats, label: Floats, cluster: NDArray[np.generic], seed: int, is_probability: bool
) -> ScoredSet:
    """Return a score with its calibrated probabilities, where there are questions enough to calibrate on."""
    confidence = np.where(np.isfinite(confidence), confidence, np.nan)
    held = np.isfinite(confidence)
    if is_probability:
        return ScoredSet(confidence, confidence, is_probability=True)
    if len(np.unique(cluster[held])) < 2 * FOLDS:
        return ScoredSet(confidence)
    probability = np.full(len(label), np.nan)
    probability[held] = calibrated(confidence[held], label[held], cluster=cluster[held], seed=seed)
    return ScoredSet(confidence, probability)


def _part(score: ScoredSet, records: NDArray[np.bool_]) -> ScoredSet:
    probability = None if score.probability is None else score.probability[records]
    return ScoredSet(score.confidence[records], probability, score.is_probability)


def _is_binary(label: Floats) -> bool:
    return bool(np.isin(label, (0.0, 1.0)).all())


def _metrics(score: ScoredSet, label: Floats) -> dict[str, Estimate]:
    """Return the metrics of a score on the records that have it."""
    held = np.isfinite(score.confidence)
    confidence, label = score.confidence[held], label[held]
    if not len(label):
        return {metric: Estimate(None, reason="no record has this score") for metric in METRICS if metric != "log_loss"}
    sums, oracle = Ranked(confidence, label).sums(), Ranked(label, label).sums()
    area = aurc_of(sums)
    one_class = None
    if (label == label[0]).all():
        one_class = f"all {len(label)} records have the label {label[0]:g}"
    graded = None if _is_binary(label) else "labels are graded, not right or wrong"
    values = {
        "auroc": _estimate(auroc_of(sums)[0], one_class or graded),
        "auprc": _estimate(auprc_of(sums)[0], one_class or graded),
        "acc": _estimate(top_accuracy_of(sums)[0], None),
        "aurc": _estimate(area[0], None),
        "prr": _estimate(prr_of(area, aurc_of(oracle), 1.0 - sums.all_right / sums.all)[0], one_class),
    }
    if score.probability is None:
        few = f"fewer than {2 * FOLDS} questions to calibrate on"
        return values | {"brier": Estimate(None, reason=few), "ece": Estimate(None, reason=few)}
    probability = score.probability[held]
    values |= {"brier": Estimate(brier(probability, label)), "ece": Estimate(ece(probability, label))}
    if score.is_probability:
        values["log_loss"] = Estimate(float(log_losses(probability, label).mean()))
    return values


def _estimate(value: float, reason: str | None) -> Estimate:
    return Estimate(None, reason=reason) if reason else Estimate(float(value))


class _Resampling:
    """Resampled metrics of all scores, and of pairs of scores on the records that have both."""

    def __init__(
        self,
        scores: Mapping[str, ScoredSet],
        label: Floats,
        cluster: NDArray[np.generic],
        resamples: int,
        seed: int,
    ) -> None:
        self._scores, self._label, self._cluster = scores, label, cluster
        self._resamples, self._seed = resamples, seed
        present = {name: score for name, score in scores.items() if np.isfinite(score.confidence).any()}
        self.all_scores = self._draw(present, np.ones(len(label), dtype=bool)) if present else {}

    def pair(self, name: str, versus: str, both: NDArray[np.bool_]) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Return the metrics of two scores under the same resamples of the records ``both`` (N,) have."""
        scores = {key: self._scores[key] for key in (name, versus)}
        if all((np.isfinite(score.confidence) == both).all() for score in scores.values()):
            drawn = self.all_scores
        else:
            drawn = self._draw({key: _part(score, both) for key, score in scores.items()}, both)
        return drawn.get(name, {}), drawn.get(versus, {})

    def _draw(self, scores: Mapping[str, ScoredSet], records: NDArray[np.bool_]) -> dict[str, dict[str, Floats]]:
        questions, cluster = np.unique(self._cluster[records], return_inverse=True)
        if not self._resamples or len(questions) < 2:  # all resamples of one would be the same
            return {}
        label = self._label[records]
        return resampled(scores, label, resamples=self._resamples, seed=self._seed, cluster=cluster)


def _differences(
    score: ScoredSet, baseline: ScoredSet, label: Floats, drawn: dict[str, Floats], drawn_baseline: dict[str, Floats]
) -> dict[str, Estimate]:
    """Return the paired differences in every metric that both have, on records that have both scores."""
    own, other = _metrics(score, label), _metrics(baseline, label)
    found = {}
    for metric in drawn.keys() & drawn_baseline.keys():
        value, baseline_value = own[metric].value, other[metric].value
        differences = drawn[metric] - drawn_baseline[metric]
        if value is not None and baseline_value is not None and np.isfinite(differences).any():
            found[metric] = Estimate(value - baseline_value, *interval(differences), two_sided_p(differences))
    return {metric: found[metric] for metric in METRICS if metric in found}


def _delong_p(confidence: Floats, baseline: Floats, label: Floats, cluster: NDArray[np.generic]) -> float | None:
    if not _is_binary(label) or min(len(np.unique(cluster[label == value])) for value in (0, 1)) < 2:
        return None
    p = delong(confidence, baseline, label, cluster).p
    return p if math.isfinite(p) else None
