"""``--level question``: from the responses of a run to its questions, which their vote answers right or wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Equivalence, Outcome
from tokur_cli.commands.evaluate.reading.columns import Columns
from tokur_cli.metrics.ranking import Floats
from tokur_cli.selection.voting import Rule, choose

SHARE = "share"
"""The leading answer's share of the vote, which needs no model: what a question's scores are judged against."""


class Questions(Columns):
    """The questions of a run in the place of its responses."""

    def is_probability(self, name: str) -> bool:
        """Return False: the mean of the responses' probabilities is not that of their vote."""
        return False


def by_question(runs: Sequence[Columns]) -> list[Columns]:
    """Return the questions of each run.

    A question's label is that of the answer that most of its samples give (of equals, that of the lowest sample), its
    scores are the means of its samples', and beside them stands ``SHARE``.
    """
    with Equivalence() as equivalence:
        return [_of_run(run, equivalence) for run in runs]


def _of_run(run: Columns, equivalence: Equivalence) -> Columns:
    made = Questions(run.path, replace(run.wanted, scores={SHARE: "confidence", **run.wanted.scores}))
    made.name, made.settings, made.numbers, made.lines = run.name, run.settings, run.numbers, run.lines
    made.hold(run.scores)
    order, number = run.in_order(), np.array(run.question)
    label, length = np.array(run.label), np.array(run.length)
    scores = {name: np.array(values) for name, values in run.scores.items()}
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    for places in np.split(order, starts[1:]):
        classes = answer_classes([run.answer[place] for place in places], equivalence).labels
        choice = choose([None] * len(places), classes, Rule("maj"))
        assert choice is not None
        right = math.nan if np.isnan(label[places]).any() else float(label[places[choice.chosen]])
        made.label.append(right)
        made.outcomes[_outcome(right, has_answer=choice.classes[0].label is not None)] += 1
        made.length.append(_mean(length[places]))
        made.scores[SHARE].append(choice.share)
        for name, values in scores.items():
            made.scores[name].append(_mean(values[places]))
        made.question.append(int(number[places[0]]))
        made.sample.append(0)
        made.response.append(len(made.response))
        if run.group:
            made.group.append(run.group[places[0]])
    return made


def _mean(values: Floats) -> float:
    """Return the mean of those that are known; NaN for none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def _outcome(right: float, *, has_answer: bool) -> str:
    if math.isnan(right):
        return Outcome.NO_REFERENCE
    if not has_answer and right == 0.0:
        return Outcome.NO_ANSWER
    return Outcome.CORRECT.value if right == 1.0 else Outcome.INCORRECT.value
