"""Questions in the place of responses (``--level question``), and questions by their difficulty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tokur_cli.answers.classes import answer_classes
from tokur_cli.answers.equivalence import Equivalence, Outcome
from tokur_cli.commands.evaluate.reading import Columns
from tokur_cli.metrics.ranking import Floats, Indices
from tokur_cli.records.errors import TokurError
from tokur_cli.selection.voting import Rule, choose

SHARE = "share"
"""The leading answer's share of the vote, which needs no model: what a question's scores are judged against."""


def samples_of(run: Columns) -> list[Indices]:
    """Return the places of the samples of each question of a run, in order."""
    question = np.array(run.question)
    order = np.lexsort((np.array(run.sample), question))
    return np.split(order, np.flatnonzero(np.diff(question[order])) + 1)


def by_question(runs: Sequence[Columns]) -> list[Columns]:
    """Return the questions of each run.

    A question's label is that of the answer that most of its samples give (of equals, that of the lowest sample), its
    scores are the means of its samples', and beside them stands ``SHARE``. None is a probability: the mean of the
    responses' probabilities is not that of their vote.
    """
    with Equivalence() as equivalence:
        return [_of_run(run, equivalence) for run in runs]


def _of_run(run: Columns, equivalence: Equivalence) -> Columns:
    made = Columns(run.name, replace(run.wanted, scores={SHARE: "confidence", **run.wanted.scores}), probabilities=())
    made.settings, made.numbers = run.settings, run.numbers
    label, length = np.array(run.label), np.array(run.length)
    scores = {name: np.array(values) for name, values in run.scores.items()}
    for places in samples_of(run):
        classes = answer_classes([run.answer[place] for place in places], equivalence)
        choice = choose([None] * len(places), classes, Rule("maj"))
        assert choice is not None
        right = math.nan if np.isnan(label[places]).any() else float(label[places[choice.chosen]])
        made.label.append(right)
        outcome = Outcome.NO_REFERENCE if math.isnan(right) else Outcome.of(right)
        has_answer = choice.classes[0].label is not None
        made.outcomes[outcome if has_answer or outcome != Outcome.INCORRECT else Outcome.NO_ANSWER] += 1
        made.length.append(_mean(length[places]))
        made.scores[SHARE].append(choice.share)
        for name, values in scores.items():
            made.scores[name].append(_mean(values[places]))
        made.question.append(run.question[places[0]])
        made.sample.append(0)
        made.response.append(len(made.response))
        if run.group:
            groups = {run.group[place] for place in places}
            made.group.append(groups.pop() if len(groups) == 1 else None)
    return made


def _mean(values: Floats) -> float:
    """Return the mean of those that are known; NaN for none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def group_by_difficulty(runs: Sequence[Columns], count: int, telling: Sequence[Columns] | None) -> None:
    """Group records by how many of the first ``count`` samples of their question are incorrect.

    That is None, not known, with fewer samples, or with one without a label. The samples are those of the runs
    ``telling``, by the questions' ids, else their prompts; None for each run's own.
    """
    known = {name: failed for run in telling or () for name, failed in _failures(run, count).items()}
    for run in runs:
        failed = _failures(run, count) if telling is None else known
        names = {number: str(failed[name]) for name, number in run.numbers.items() if name in failed}
        run.group = [names.get(number) for number in run.question]
    if not any(name is not None for run in runs for name in run.group):
        raise TokurError(
            f"--difficulty {count}: no question has {count} samples with labels{' of its id there' if telling else ''}"
        )


def _failures(run: Columns, count: int) -> dict[str, int]:
    """Return how many of a question's first samples are incorrect, by what tells the question."""
    labels = {run.question[places[0]]: np.array(run.label)[places[:count]] for places in samples_of(run)}
    return {
        name: int((labels[number] < 1).sum())
        for name, number in run.numbers.items()
        if len(labels[number]) == count and not np.isnan(labels[number]).any()
    }
