"""Labelled questions, of which a certificate is made: one response each, all made and scored in one way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokur_cli.answers.grading import UNLABELLED, Labelled
from tokur_cli.commands.shared.certified import how_selected, made_with
from tokur_cli.metrics.ranking import Floats
from tokur_cli.records.errors import TokurError
from tokur_cli.records.question import Questions
from tokur_cli.records.record import Record
from tokur_cli.scores.calibration import differing
from tokur_cli.scores.catalogue import Score
from tokur_cli.scores.certificate import lot_of


@dataclass(slots=True)
class Response:
    """The first response to a question.

    Attributes:
        value: its score, NaN where it has none.
        label: 1 for right, 0 for wrong, NaN where that is not known.
        sample: its number.
        source: where its label is from; None where there is none.
        outcome: as ``Labelled`` has it.
        chosen: how ``select`` chose it, and among how many; None if it did not.
        asked: what its question asks: a digest of the prompt, else what tells the question from others.
    """

    value: float
    label: float
    sample: int
    source: str | None
    outcome: str
    chosen: dict[str, Any] | None
    asked: str


@dataclass(frozen=True, slots=True)
class Scored:
    """The Q labelled questions that have the score.

    Attributes:
        values: (Q,) the score.
        confidences: (Q,) the same, negated where it is an uncertainty.
        wrong: (Q,) whether each is answered wrong.
        lots: (Q,) their lots.
    """

    values: Floats
    confidences: Floats
    wrong: NDArray[np.bool_]
    lots: Floats


@dataclass
class LabelledQuestions:
    """The first response to each question, as far as it has a label.

    Attributes:
        settings: how the responses and their scores were made.
        others: how many further samples there are.
    """

    score: Score
    settings: dict[str, Any] | None = None
    others: int = 0
    _first: dict[str, Response] = field(default_factory=dict)
    _questions: Questions = field(default_factory=Questions)

    def add(self, labelled: Labelled, values: Mapping[str, float]) -> None:
        """Take a record, if it is the first of its question so far."""
        record = labelled.record
        if labelled.label not in (0.0, 1.0) and not math.isnan(labelled.label):
            raise record.error(
                f"has a quality of {labelled.label:g}: --certify counts right and wrong answers; say which this is in "
                'a field "correct"'
            )
        question = self._questions.of(record)
        key = question.key
        there = self._first.get(key)
        chosen = _selection(record)
        if there is not None and None not in (chosen, there.chosen):
            raise record.error(f"is a second response that tokur select chose to its question ({record.id})")
        self.others += there is not None
        value = values.get(self.score.name, math.nan)
        if math.isfinite(value):
            self._check(record)
        if there is None or record.sample < there.sample:
            label, source, outcome = labelled.label, labelled.source, labelled.outcome
            self._first[key] = Response(value, label, record.sample, source, outcome, chosen, question.prompt or key)

    def _check(self, record: Record) -> None:
        """Refuse a record that was made, or whose score was made, in another way than those before it."""
        settings = made_with(record, self.score.name)
        if self.settings is None:
            self.settings = settings
        for name, value, before in differing(settings, self.settings):
            raise record.error(
                f"was made with {name} {value}, records before it with {before}: a certificate is of responses that "
                "were made and scored in one way"
            )

    @property
    def responses(self) -> dict[str, Response]:
        """Those that have a label, by what tells their questions."""
        return {key: response for key, response in self._first.items() if not math.isnan(response.label)}

    @property
    def how_chosen(self) -> str:
        """Which response of a question counts, in words."""
        if self.selection is not None:
            return "what tokur select chose of the samples of each question"
        return "the first sample of each question" if self.others else "one to each question"

    @property
    def selection(self) -> dict[str, Any] | None:
        """How ``select`` chose the responses; None if it did not.

        Raises:
            TokurError: not all in one way.
        """
        found = [response.chosen for response in self.responses.values()]
        if not any(found):
            return None
        if not all(found):
            raise TokurError("some records were chosen by tokur select and others were not: certify them apart")
        samples = {one["samples"] for one in found if one}
        ways = [{name: value for name, value in one.items() if name != "samples"} for one in found if one]
        if any(way != ways[0] for way in ways):
            raise TokurError("the records were chosen by tokur select in different ways: certify them apart")
        return {**ways[0], "samples": samples.pop() if len(samples) == 1 else None}

    def told(self) -> list[str]:
        """Return what the user should know of the records, a line each."""
        unlabelled = Counter(response.outcome for response in self._first.values() if math.isnan(response.label))
        lines = [
            f"skipped {count:,} question{'s' * (count != 1)} {UNLABELLED.get(outcome, 'without a label')}"
            for outcome, count in unlabelled.items()
        ]
        if merged := self._questions.merged():
            lines.append(merged)
        if self.others:
            lines.append(
                f"skipped {self.others:,} further samples: the first of each question counts; for the answer of a "
                "vote certify what tokur select writes"
            )
        without = sum(not math.isfinite(response.value) for response in self.responses.values())
        if without:
            are = "1 question has" if without == 1 else f"{without:,} questions have"
            lines.append(f"{are} no {self.score.name}: not answered")
        return lines

    def scored(self) -> Scored:
        """Return the questions that have the score."""
        having = {key: one for key, one in self.responses.items() if math.isfinite(one.value)}
        values = np.array([one.value for one in having.values()], dtype=np.float64)
        return Scored(
            values,
            -values if self.score.orientation == "uncertainty" else values,
            np.array([one.label == 0.0 for one in having.values()], dtype=bool),
            np.array([lot_of(key) for key in having], dtype=np.float64),
        )


def _selection(record: Record) -> dict[str, Any] | None:
    """Return how ``select`` chose a response, and among how many; None if it did not."""
    settings = record.computed("selection")
    if not isinstance(settings, dict):
        return None
    return {**how_selected(settings), "samples": record.computed("n")}
