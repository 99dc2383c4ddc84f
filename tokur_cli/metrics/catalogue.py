"""All metrics: an entry here, and figures, intervals, comparisons, tables, plots, JSON and the help have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import groupby
from typing import Any, Literal

from tokur_cli.metrics.calibration import ece_terms, log_losses
from tokur_cli.metrics.ranking import acc_of, auprc_of, aurc_of, auroc_at_length_of, auroc_of, hit, prr_of, within

RANKING = "How well each score ranks correct above incorrect"
AT_LENGTH = "The same among {noun}s of similar length"
WITHIN = "Incorrect spans within their responses"
REJECTION = "Rejection and calibration"


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of how well a score tells correct from incorrect."""

    name: str  # what JSON calls it
    title: str  # what tables and messages call it
    meaning: str  # what it says, in a few words, for the help
    table: str  # the title of the table that shows it
    # ``ranking``: of the order of the confidences, ``at_length``: where lengths are known, too; ``probability``: of
    # probabilities of being correct, those that the score is, else those that it is calibrated to; ``spans``: of a
    # response's spans, and the mean over responses
    kind: Literal["ranking", "at_length", "probability", "spans"]
    # ``ranking``: from ``Sums`` under R sets of weights to (R,) values; ``probability``: from (N,) probabilities and
    # labels to the (N,) losses whose mean it is; ``spans``: from the (S,) labels and confidences of a response's spans
    # to a value. NaN where it is not defined
    of: Callable[..., Any]
    _: KW_ONLY
    better: Literal["higher", "lower"] = "higher"  # which values are the better ones
    unit: Literal["%", "nats"] = "%"  # a fraction is shown in percent
    has_interval: bool = True  # whether it is resampled, for intervals and comparisons
    compared: bool = False  # whether the table of differences from a baseline shows it
    # What a score without information gets, if that is the same for any records. The first such metric that the labels
    # allow leads: groups are compared by it, and tables of differences begin with it
    chance: float | None = None
    graded: bool = True  # whether it is defined for labels between correct and incorrect, too
    calibrates: bool = True  # whether it is computed of calibrated probabilities, too


_RANKED = "correct ranked above incorrect"
_REJECTED = "answering only when confident"
_CALIBRATED = "the confidence as a probability, calibrated on other questions"
_HIT = "the first incorrect span among the K least certain of its response"

_ALL = (
    Metric("auroc", "AUROC", _RANKED, RANKING, "ranking", auroc_of, graded=False, chance=0.5),
    Metric("auprc", "AUPRC", _RANKED, RANKING, "ranking", auprc_of, graded=False, compared=True),
    Metric("acc", "ACC*", "accuracy of the more confident half", RANKING, "ranking", acc_of, compared=True),
    Metric(
        "auroc_at_length", "AUROC@length", "AUROC of the pairs within a fifth of the lengths", AT_LENGTH, "at_length",
        auroc_at_length_of, graded=False, compared=True,
    ),
    Metric(
        "within", "AUROC within", "an incorrect span less certain than a correct one of its response", WITHIN, "spans",
        within, compared=True,
    ),
    Metric("hit1", "hit@1", _HIT, WITHIN, "spans", partial(hit, most=1)),
    Metric("hit3", "hit@3", _HIT, WITHIN, "spans", partial(hit, most=3)),
    Metric("aurc", "AURC", _REJECTED, REJECTION, "ranking", aurc_of, better="lower"),
    Metric("prr", "PRR", _REJECTED, REJECTION, "ranking", prr_of, chance=0.0),
    Metric("brier", "Brier", _CALIBRATED, REJECTION, "probability", lambda p, y: (p - y) ** 2, better="lower"),
    Metric(
        "ece", "ECE", _CALIBRATED, REJECTION, "probability", ece_terms, better="lower",
        has_interval=False,  # resampling adds to its bias, so that its interval would mislead
    ),
    Metric(
        "log_loss", "log loss", "of scores that are probabilities, in nats", REJECTION, "probability", log_losses,
        better="lower", unit="nats", compared=True,
        calibrates=False,  # what isotonic regression calls impossible may happen
    ),
)  # fmt: skip

METRICS = {metric.name: metric for metric in _ALL}


def leading(*, is_binary: bool) -> Metric:
    """Return the metric that leads, see ``Metric.chance``, where all labels are correct or incorrect, or graded."""
    return next(metric for metric in METRICS.values() if metric.chance is not None and (is_binary or metric.graded))


def explained(*, of_spans: bool) -> str:
    """Return what the metrics say, those of spans within their responses or the others, in sentences."""
    chosen = [metric for metric in METRICS.values() if (metric.kind == "spans") == of_spans]
    groups = groupby(chosen, key=lambda metric: metric.meaning)
    sentences = [f"{', '.join(metric.title for metric in alike)}: {meaning}." for meaning, alike in groups]
    if without := [metric.title for metric in chosen if not metric.has_interval]:
        sentences.append(f"All but {', '.join(without)} with bootstrap intervals.")
    return " ".join(sentences)
