"""Test-time scaling from offline records: the accuracy of the answer chosen from N sampled responses per question.

For each N, N responses of every question are drawn without replacement, those with the ⌈keep · N⌉ highest confidences
are kept, but never fewer than a least number, and they vote: ``maj`` counts answers, ``wbon`` adds weights
exp(c − c_max). Beside them stand ``pass@1`` (a response at random), ``pass@n`` (any right response among the N) and
``majority`` (all N vote alike). All scores see one draw.

Ties go to the class whose most confident response is more confident, then to the lower sample. No answer is a class
of its own, which never wins while another is there. Source: the paper's test-time scaling experiments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranked import Floats

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Scaling:
    """The accuracy of each way to choose from N responses per question, and what it is computed on.

    Attributes:
        accuracies: one per repeat; by score (None for the methods that need none) and method (``maj``, ``wbon``,
            ``majority``, ``pass@1`` or ``pass@n``), then by N. A score that no drawn response has chooses nothing.
        questions: how many questions count, summed over runs.
        unlabelled: questions left out because a response has no label.
        fewest: the smallest number of responses that a question has; a question with fewer than N gives all it has.
    """

    accuracies: dict[tuple[str | None, str], dict[int, list[float]]]
    questions: int
    unlabelled: int
    fewest: int

    @classmethod
    def over_runs(cls, runs: Sequence[Scaling]) -> Scaling:
        """Return the scaling with the repeats of all runs together."""
        accuracies: dict[tuple[str | None, str], dict[int, list[float]]] = {}
        for run in runs:
            for way, curve in run.accuracies.items():
                for size, values in curve.items():
                    accuracies.setdefault(way, {}).setdefault(size, []).extend(values)
        fewest = min((run.fewest for run in runs if run.questions), default=0)
        return cls(accuracies, sum(run.questions for run in runs), sum(run.unlabelled for run in runs), fewest)

    def point(self, score: str | None, method: str, size: int) -> Estimate:
        """Return the mean accuracy among N = ``size`` responses, undefined where nothing was chosen."""
        return Estimate.mean(self.accuracies.get((score, method), {}).get(size, ()))


def scaling(
    question: ArrayLike,
    answer_class: ArrayLike,
    correct: ArrayLike,
    confidences: Mapping[str, ArrayLike],
    sizes: Sequence[int],
    *,
    repeats: int = 10,
    keep: float | Fraction = Fraction(1, 10),
    least: int = 1,
    seed: int = 0,
) -> Scaling:
    """Return the accuracy of the chosen answers for each N.

    Args:
        question: (R,) which question each response belongs to, from 0; a question's responses in order of their sample.
        answer_class: (R,) number of the answer's class among those of its question, from 0; -1 for no answer.
        correct: (R,) 1 or 0, NaN where that is not known.
        confidences: for each score (R,), NaN where a response has none.
        sizes: the values of N.
        repeats: how often N responses are drawn.
        keep: the part of the N that is kept by its confidence, in (0, 1].
        least: how many are kept at least, where there are so many.
        seed: of the draws; they do not depend on the scores.
    """
    table = _Table(np.asarray(question), np.asarray(answer_class), np.asarray(correct, dtype=np.float64))
    ranks = {name: table.ranks(np.asarray(values, dtype=np.float64)) for name, values in confidences.items()}
    fraction = Fraction(keep).limit_denominator(10**6)
    found: dict[tuple[str | None, str], dict[int, list[float]]] = {}
    for size in sizes:
        for repeat in range(repeats):
            generator = np.random.default_rng((seed, size, repeat))
            drawn = table.draw(size, generator)  # (Q, N) columns, in order; -1 beyond a question's responses
            for method, accuracy in table.without_score(drawn):
                found.setdefault((None, method), {}).setdefault(size, []).append(accuracy)
            for name, ranked in ranks.items():
                for method, accuracy in table.by_score(drawn, ranked, fraction, least):
                    found.setdefault((name, method), {}).setdefault(size, []).append(accuracy)
    return Scaling(found, table.questions, table.unlabelled, table.fewest)


class _Table:
    """The responses of Q questions as (Q, S) tables, shorter rows padded at the end."""

    def __init__(self, question: NDArray[np.int_], answer_class: NDArray[np.int_], correct: Floats) -> None:
        self._order = np.argsort(question, kind="stable")
        _, row, count = np.unique(question[self._order], return_inverse=True, return_counts=True)
        column = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        self._where = (row, column)
        self._shape = (len(count), int(count.max()))
        label = self._fill(correct, np.nan)
        present = np.zeros(self._shape, dtype=bool)
        present[self._where] = True
        self._used = ~(np.isnan(label) & present).any(axis=1)  # (Q₀,) questions whose responses all have labels
        self._present = present[self._used]
        self._right = label[self._used] == 1
        self._class = self._fill(answer_class, -1)[self._used].astype(np.intp)
        self.questions, self.unlabelled = int(self._used.sum()), int((~self._used).sum())
        self.fewest = int(count[self._used].min()) if self.questions else 0

    def _fill(self, values: NDArray[np.generic], padding: float) -> NDArray[np.generic]:
        table = np.full(self._shape, padding, dtype=values.dtype)
        table[self._where] = values[self._order]
        return table

    def ranks(self, confidence: Floats) -> Floats:
        """Return (Q, S) confidences, -inf where there is none."""
        table = self._fill(confidence, np.nan)[self._used].astype(np.float64)
        return np.where(np.isfinite(table), table, -np.inf)

    def draw(self, size: int, generator: np.random.Generator) -> Indices:
        """Draw (Q, N') columns of N responses per question without replacement, ascending; -1 where it has fewer."""
        chance = np.where(self._present, generator.random(self._present.shape), np.inf)
        size = min(size, chance.shape[1])
        columns = np.argpartition(chance, size - 1, axis=1)[:, :size] if size < chance.shape[1] else _all(chance.shape)
        columns = np.sort(columns, axis=1)
        return np.where(np.take_along_axis(self._present, columns, axis=1), columns, -1)

    def without_score(self, drawn: Indices) -> Iterator[tuple[str, float]]:
        """Yield the accuracy of the methods that need no score."""
        held = drawn >= 0
        right = np.take_along_axis(self._right, drawn, axis=1) & held
        yield "pass@1", float((right.sum(axis=1) / held.sum(axis=1)).mean())
        yield "pass@n", float(right.any(axis=1).mean())
        yield "majority", self._vote(drawn, held, np.ones(drawn.shape))

    def by_score(self, drawn: Indices, rank: Floats, keep: Fraction, least: int) -> Iterator[tuple[str, float]]:
        """Yield the accuracy of Maj@N and WBoN among the most confident responses."""
        confidence = np.where(drawn >= 0, np.take_along_axis(rank, drawn, axis=1), -np.inf)
        order = np.argsort(-confidence, axis=1, kind="stable")  # ties: the lower sample first
        available = np.isfinite(confidence).sum(axis=1)
        kept = -(-available * keep.numerator // keep.denominator)  # (Q,) ⌈keep · available⌉
        kept = np.minimum(available, np.maximum(kept, least))
        order = order[:, : int(kept.max(initial=0))]
        if not order.shape[1]:
            return
        held = np.arange(order.shape[1]) < kept[:, None]
        chosen = np.take_along_axis(drawn, order, axis=1)
        confidence = np.take_along_axis(confidence, order, axis=1)
        yield "maj", self._vote(chosen, held, np.ones(chosen.shape))
        safe = np.where(held, confidence, np.where(held[:, :1], confidence[:, :1], 0.0))
        yield "wbon", self._vote(chosen, held, np.exp(safe - safe[:, :1]))

    def _vote(self, columns: Indices, held: NDArray[np.bool_], weight: Floats) -> float:
        """Return the part of the questions whose class with the most weight is right.

        Args:
            columns: (Q, K) responses, in the order that breaks ties.
            held: (Q, K) whether there is a response.
            weight: (Q, K).
        """
        answer = np.where(held, np.take_along_axis(self._class, columns, axis=1), -1)
        width = int(self._class.max(initial=-1)) + 2
        cell = np.arange(len(answer))[:, None] * width + answer + 1
        votes = np.bincount(cell.ravel(), weights=np.where(held, weight, 0.0).ravel(), minlength=len(answer) * width)
        total = np.where(answer >= 0, votes[cell], -1.0)
        first = np.take_along_axis(columns, total.argmax(axis=1)[:, None], axis=1)
        right = np.take_along_axis(self._right, first, axis=1)[:, 0] & held.any(axis=1)
        return float(right.mean())


def _all(shape: tuple[int, ...]) -> Indices:
    return np.broadcast_to(np.arange(shape[1]), shape)
