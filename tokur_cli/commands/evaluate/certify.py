"""``--certify``: the labelled questions, one response to each, and the certificate that they give."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokur_cli.answers.grading import UNLABELLED, Labelled
from tokur_cli.commands.shared.certified import made_with
from tokur_cli.commands.shared.digests import content_digest
from tokur_cli.metrics.certification import certify, fewest, upper_bound
from tokur_cli.records.errors import TokurError, UsageError, count_of
from tokur_cli.records.question import Questions
from tokur_cli.records.record import Record, differences
from tokur_cli.scores.catalogue import choose_scores
from tokur_cli.scores.certificate import MOST_SCORES, Certificate, tie_break_of

DEFAULT_SCORE = "eu"
_INTERVAL = 0.025  # what either end of an interval of 95 % leaves out


@dataclass(slots=True)
class Response:
    """The first response to a question."""

    value: float  # its score, NaN where it has none
    label: float  # 1 for correct, 0 for incorrect, NaN where that is not known; ``source`` and ``outcome`` are of it
    sample: int
    source: str | None
    outcome: str
    chosen: dict[str, Any] | None  # how ``select`` chose it, and among how many; None if it did not
    asked: str  # what its question asks: a digest of the prompt, else what tells the question from others


class LabelledQuestions:
    """The first response to each question, as far as it has a label; ``orientations``: which way the score points."""

    def __init__(self, by: str | None) -> None:
        scores = choose_scores(by or DEFAULT_SCORE)
        if len(scores) > 1:
            raise UsageError(f"--certify goes by one score, --by {by} names {len(scores)}; p_correct is one of several")
        self.orientations = {score.name: score.orientation for score in scores}
        self._score = scores[0]
        self._settings: dict[str, Any] = {}  # how the responses and their scores were made
        self._others = 0  # further samples
        self._first: dict[str, Response] = {}
        self._questions = Questions()

    def add(self, labelled: Labelled, values: Mapping[str, float]) -> None:
        """Take a record, if it is the first of its question so far."""
        record = labelled.record
        if labelled.label not in (0.0, 1.0) and not math.isnan(labelled.label):
            raise record.error(
                f"has a quality of {labelled.label:g}: --certify counts correct and incorrect answers; say which this "
                'is in a field "correct"'
            )
        question = self._questions.of(record)
        key = question.key
        there = self._first.get(key)
        chosen = _selection(record)
        if there is not None and None not in (chosen, there.chosen):
            raise record.error(f"is a second response that tokur select chose to its question ({record.id})")
        self._others += there is not None
        value = values.get(self._score.name, math.nan)
        if math.isfinite(value):
            settings = made_with(record, self._score.name)
            self._settings = self._settings or settings
            for name, theirs, before in differences(settings, self._settings):
                raise record.error(
                    f"was made with {name} {theirs}, records before it with {before}: a certificate is of responses "
                    "that were made and scored in one way"
                )
        if there is None or record.sample < there.sample:
            label, source, outcome = labelled.label, labelled.source, labelled.outcome
            self._first[key] = Response(value, label, record.sample, source, outcome, chosen, question.prompt or key)

    @property
    def _responses(self) -> dict[str, Response]:
        """Those that have a label, by what tells their questions."""
        return {key: response for key, response in self._first.items() if not math.isnan(response.label)}

    def _selections(self) -> dict[str, Any] | None:
        """Return how ``select`` chose the responses; None if it did not.

        Raises:
            TokurError: not all in one way.
        """
        found = [response.chosen for response in self._responses.values()]
        if not any(found):
            return None
        ways = [None if one is None else {**one, "samples": None} for one in found]
        if any(way != ways[0] for way in ways):
            raise TokurError("tokur select did not choose all records in one way: certify them apart")
        samples = {one["samples"] for one in found if one}
        return {**(ways[0] or {}), "samples": samples.pop() if len(samples) == 1 else None}

    def notes(self) -> Iterator[str]:
        """Yield what the user should know of the records, a line each."""
        unlabelled = Counter(response.outcome for response in self._first.values() if math.isnan(response.label))
        for outcome, count in unlabelled.items():
            yield f"skipped {count_of(count, 'question')} {UNLABELLED.get(outcome, 'without a label')}"
        if merged := self._questions.merged():
            yield merged
        if self._others:
            yield (
                f"skipped {self._others:,} further samples: the first of each question counts; for the answer of a "
                "vote certify what tokur select writes"
            )
        if without := sum(not math.isfinite(response.value) for response in self._responses.values()):
            yield f"without {self._score.name}, so not answered: {count_of(without, 'question')}"

    def certificate(self, alpha: float, confidence: float) -> Certificate:
        """Return what is certified: at most ``alpha`` of the answers given are incorrect, with this confidence.

        Raises:
            TokurError: nothing can be; it says what could.
        """
        score, responses, delta = self._score, self._responses, round(1 - confidence, 12)
        having = {key: one for key, one in responses.items() if math.isfinite(one.value)}
        if not having:
            raise TokurError(
                f"no record has both a label and the score {score.name}: score with it, or name another with --by"
            )
        values = np.array([one.value for one in having.values()], dtype=np.float64)
        wrong = np.array([one.label == 0.0 for one in having.values()], dtype=bool)
        tie_breaks = np.array([tie_break_of(key) for key in having], dtype=np.float64)
        found = certify(score.sign * values, tie_breaks, wrong, alpha, delta)
        if found is None:
            raise TokurError(
                f"{100 * alpha:.4g} % cannot be certified by {score.name} on {len(values):,} labelled questions, of "
                f"which {int(wrong.sum()):,} are answered incorrectly: without any error it takes "
                f"{fewest(alpha, delta):,}, with errors more"
            )
        count, ascending = len(responses), np.sort(values)
        kept = np.linspace(0, len(ascending) - 1, min(len(ascending), MOST_SCORES)).round().astype(np.intp)
        return Certificate(
            risk=alpha,
            confidence=confidence,
            score=score.name,
            threshold=None if found.next is None else float(values[found.next]),
            tie_break=0.0 if found.next is None else float(tie_breaks[found.next]),
            coverage={
                "value": found.size / count,
                "low": 1 - upper_bound(count - found.size, count, _INTERVAL),
                "high": upper_bound(found.size, count, _INTERVAL),
            },
            bound=found.bound,
            answered=found.size,
            errors=found.errors,
            questions=count,
            selection=self._selections(),
            settings=self._settings,
            labels=dict(Counter(one.source for one in responses.values() if one.source is not None)),
            scores=tuple(ascending[kept].tolist()),
            asked=tuple(sorted(tie_break_of(one.asked) for one in responses.values())[:MOST_SCORES]),
            data=content_digest(
                sorted([key, None if math.isnan(one.value) else one.value, one.label] for key, one in responses.items())
            ),
        )


def _selection(record: Record) -> dict[str, Any] | None:
    """Return how ``select`` chose a response, and among how many; None if it did not."""
    settings = record.tokur.get("selection")
    if not isinstance(settings, dict):
        return None
    kept = {name: value for name, value in settings.items() if name not in ("abstain", "certificate", "version")}
    return {**kept, "samples": record.tokur.get("n")}


def summary(certificate: Certificate) -> str:
    """Return what is promised, by which rule, and what it gives on the labelled questions."""
    risk, confidence = 100 * certificate.risk, 100 * certificate.confidence
    return (
        f"at most {risk:.4g} % of the answers given are incorrect, with {confidence:.4g} % confidence: "
        f"{certificate.rule}, {certificate.answered:,} of {certificate.questions:,} questions "
        f"({certificate.answered / certificate.questions:.2%}), {certificate.errors:,} of these incorrect"
    )
