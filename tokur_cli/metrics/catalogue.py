"""All metrics: an entry here, and figures, intervals, comparisons, tables, plots, JSON, CSV and the help have it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Literal

from tokur_cli.metrics.calibration import ece, log_losses, square_errors
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranking import (
    Floats,
    Sums,
    acc_of,
    auprc_of,
    aurc_of,
    auroc_at_length_of,
    auroc_of,
    prr_of,
)
from tokur_cli.metrics.spans import hit, within


@dataclass(frozen=True, slots=True)
class Section:
    """Metrics that are shown in one table.

    Attributes:
        title: of the table, which is shown where any score has a figure for it.
        constant: the name of a row with what the metrics are where nothing tells the records apart, see
            ``Metric.constant``; None for no such row.
        is_of_classes: whether that row holds of right and wrong records alone, not of graded ones.
    """

    title: str
    constant: str | None = None
    is_of_classes: bool = False


RANKING = Section("How well each score ranks correct above incorrect", "no score")
AT_LENGTH = Section("The same among {noun}s of similar length")
WITHIN = Section("Incorrect spans within their responses")
REJECTION = Section("Rejection and calibration")
PROBABILITY = Section("Probabilities of being correct", "the accuracy", is_of_classes=True)
SECTIONS = (RANKING, AT_LENGTH, WITHIN, REJECTION, PROBABILITY)


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of how well a score tells right from wrong; one of the kinds below.

    Attributes:
        name: what JSON calls it, and CSV, with ``_low``, ``_high``, …
        title: what tables and messages call it.
        meaning: what it says, in a few words, for the help.
        sections: the tables that show it.
        better: which values are the better ones.
        unit: a part of 1 is shown in percent.
        has_interval: whether it is resampled, for intervals and comparisons.
        compared: the table of differences from a baseline that shows it.
        chance: what a score without information gets, if that is the same for any records. The first such metric that
            the labels allow leads: groups are compared by it, and tables of differences begin with it.
        constant: from the accuracy, what it is where nothing tells the records apart.
    """

    name: str
    title: str
    meaning: str
    sections: tuple[Section, ...]
    _: KW_ONLY
    better: Literal["higher", "lower"] = "higher"
    unit: Literal["%", "nats"] = "%"
    has_interval: bool = True
    compared: Literal["responses", "spans", "probabilities"] | None = None
    chance: float | None = None
    constant: Callable[[Estimate], Estimate] | None = None


@dataclass(frozen=True, slots=True)
class RankingMetric(Metric):
    """A metric of the order of the confidences.

    Attributes:
        of: from sums over records under R sets of weights to (R,) values, NaN where it is not defined.
        labels: which it is defined for: any, those that are not all the same, or of these right and wrong ones alone,
            of the whole or of a stratum.
    """

    _: KW_ONLY
    of: Callable[[Sums], Floats]
    labels: Literal["any", "unequal", "classes", "strata"] = "any"

    @property
    def needs_classes(self) -> bool:
        """Whether it is defined for right and wrong records alone, not for graded ones."""
        return self.labels in ("classes", "strata")


@dataclass(frozen=True, slots=True)
class ProbabilityMetric(Metric):
    """A metric of probabilities of being correct: those that the score is, else those that it is calibrated to.

    Attributes:
        of: from (N,) probabilities and labels to the (N,) losses whose mean it is, or without intervals to the figure.
        calibrates: whether it is computed of calibrated probabilities, too.
    """

    _: KW_ONLY
    of: Callable[[Floats, Floats], Floats | float]
    calibrates: bool = True


@dataclass(frozen=True, slots=True)
class SpanMetric(Metric):
    """A metric of the spans of single responses, and the mean over these.

    Attributes:
        of: from the (S,) labels and confidences of a response's spans to a value, NaN where it is not defined.
    """

    _: KW_ONLY
    of: Callable[[Floats, Floats], float]


def _constant(of: Callable[[float], float]) -> Callable[[Estimate], Estimate]:
    return lambda accuracy: Estimate(None if accuracy.value is None else of(accuracy.value))


_CALIBRATED = "the confidence as a probability, calibrated on other questions"
_HIT = "the first incorrect span among the K least certain of its response"

_ALL: tuple[Metric, ...] = (
    RankingMetric(
        "auroc", "AUROC", "right ranked above wrong", (RANKING,), of=auroc_of, labels="classes", chance=0.5
    ),
    RankingMetric(
        "auprc", "AUPRC", "right ranked above wrong", (RANKING,), of=auprc_of, labels="classes", compared="responses"
    ),
    RankingMetric(
        "acc", "ACC*", "accuracy of the more confident half", (RANKING,), of=acc_of, compared="responses",
        constant=lambda accuracy: accuracy,
    ),
    RankingMetric(
        "auroc_at_length", "AUROC@length", "AUROC of the pairs within a fifth of the lengths", (AT_LENGTH,),
        of=auroc_at_length_of, labels="strata", compared="responses",
    ),
    RankingMetric(
        "aurc", "AURC", "answering only when confident", (REJECTION,), of=aurc_of, better="lower"
    ),
    RankingMetric("prr", "PRR", "answering only when confident", (REJECTION,), of=prr_of, labels="unequal", chance=0.0),
    ProbabilityMetric(
        "brier", "Brier", _CALIBRATED, (REJECTION, PROBABILITY), of=square_errors, better="lower",
        compared="probabilities", constant=_constant(lambda p: p * (1 - p)),
    ),
    ProbabilityMetric(
        "ece", "ECE", _CALIBRATED, (REJECTION, PROBABILITY), of=ece, better="lower",
        has_interval=False,  # resampling adds to its bias, so that its interval would mislead
    ),
    ProbabilityMetric(
        "log_loss", "log loss", "of scores that are probabilities, in nats", (PROBABILITY,), of=log_losses,
        better="lower", unit="nats",
        calibrates=False,  # what isotonic regression calls impossible may happen
        compared="probabilities", constant=_constant(lambda p: float(log_losses([p], [p])[0])),
    ),
    SpanMetric(
        "within", "AUROC within", "an incorrect span less certain than a correct one of its response", (WITHIN,),
        of=within, compared="spans",
    ),
    SpanMetric("hit1", "hit@1", _HIT, (WITHIN,), of=partial(hit, most=1)),
    SpanMetric("hit3", "hit@3", _HIT, (WITHIN,), of=partial(hit, most=3)),
)  # fmt: skip

METRICS = {metric.name: metric for metric in _ALL}
RANKING_METRICS = [metric for metric in _ALL if isinstance(metric, RankingMetric)]
PROBABILITY_METRICS = [metric for metric in _ALL if isinstance(metric, ProbabilityMetric)]
SPAN_METRICS = [metric for metric in _ALL if isinstance(metric, SpanMetric)]


def metrics_of(section: Section) -> list[Metric]:
    """Return the metrics that a table shows, in order."""
    return [metric for metric in _ALL if section in metric.sections]


def leading(*, is_binary: bool) -> Metric:
    """Return the metric that leads, see ``Metric.chance``.

    Args:
        is_binary: whether all labels are right or wrong, not graded in between.
    """
    return next(
        metric for metric in RANKING_METRICS if metric.chance is not None and (is_binary or not metric.needs_classes)
    )


def compared(names: Iterable[Collection[str]], *, is_binary: bool) -> list[Metric]:
    """Return the metrics that a table of differences shows: the leading one, and those of its kind of records.

    Args:
        names: of the metrics in which each score differs from the baseline.
        is_binary: whether all labels are right or wrong, not graded in between.
    """
    kinds = [[metric for metric in _ALL if metric.compared == kind] for kind in ("spans", "probabilities", "responses")]
    held = [set(of) for of in names]
    of_kind = next((kind for kind in kinds[:-1] if any({m.name for m in kind} <= of for of in held)), kinds[-1])
    found = {name for of in held for name in of}
    return [leading(is_binary=is_binary), *(metric for metric in of_kind if metric.name in found)]
