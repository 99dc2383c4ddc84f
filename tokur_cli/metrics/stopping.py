"""Fewer samples where the vote is settled, or fewer tokens of them, from offline records.

Adaptive consistency (Aggarwal et al. 2023):

The responses to a question come in a random order. With v₁ votes for the leading answer so far and v₂ for the next, and
all shares alike likely before, the leading one is more frequent than the next with probability
P(Beta(v₁ + 1, v₂ + 1) > ½). From ``FEWEST`` responses on, sampling ends when that is τ or more, else after N. A missing
answer has no vote. Ties, of a vote that was not settled, go to the answer that came first.

With probabilities that responses are right, sampling may end once that of the leading answer is τ or more, see
``posterior``; the most probable answer is chosen then.

DeepConf's online rule (Fu et al. 2025) ends single responses, see ``EndingEarly``.

The same orders serve all rules and the vote of all N, so that the differences are paired. Intervals are of resampled
questions, each with its mean over the orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranked import Floats

FEWEST = 4
"""Responses that are always drawn, where a question has so many."""

_LEAST = 1e-6
"""No response is held to be right or wrong more surely than this."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """What ending early does.

    Attributes:
        accuracy: part of the questions whose chosen answer is right.
        difference: that minus the accuracy of the vote of all N.
        tokens: tokens drawn, as a part of those of all N; not defined where lengths are not known.
        samples: the same of the responses.
        settled: part of the questions whose vote is settled, with N responses or fewer; not defined for responses.
    """

    accuracy: Estimate
    difference: Estimate
    tokens: Estimate
    samples: Estimate
    settled: Estimate

    @classmethod
    def over_runs(cls, runs: Sequence[Stopped]) -> Stopped:
        """Return what it does over several runs."""
        return cls(*(Estimate.over_runs([getattr(run, each.name) for run in runs]) for each in fields(cls)))


def probability_that_it_leads(votes: ArrayLike, others: ArrayLike) -> Floats:
    """Return the probability that an answer is more frequent than another one, P(Beta(v₁ + 1, v₂ + 1) > ½).

    Args:
        votes: (…,) its votes, v₁.
        others: (…,) those of the other one, v₂.
    """
    from scipy.special import betainc

    return np.asarray(betainc(np.asarray(others) + 1.0, np.asarray(votes) + 1.0, 0.5), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Rule:
    """When sampling ends.

    Attributes:
        is_weighted: whether votes count by the probabilities that their responses are right.
        level: τ.
    """

    is_weighted: bool
    level: float


@dataclass(frozen=True, slots=True)
class EndingEarly:
    """When a response ends that is less confident than the first ones of its question (Fu et al. 2025).

    The first ones are drawn whole. A further response ends with the first window of tokens whose mean confidence is
    below the threshold. Those without such a window vote, by their lowest one.

    Attributes:
        part: the part of the first ones whose lowest window is above the threshold, or at it.
        first: how many these are.
        window: tokens.
    """

    part: float
    first: int
    window: int


def fewest_settled(classes: ArrayLike, level: float, most: int, probability: ArrayLike | None = None) -> int:
    """Return the fewest responses that may settle the vote, if these are the first and all others agree with it.

    It is at most ``n`` where they settle it themselves, and more than ``most`` where not even so many may. Of plain
    votes none of so many is drawn in vain. Where votes are weighted, the others are taken to be as probably right as
    the surest of these: one that is surer still may settle it before.

    Args:
        classes: (n,) the responses' classes of answers, from 0, in the order in which they come; -1 for no answer.
        level: τ, below 1.
        most: N.
        probability: (n,) for a vote that is weighted by it, see ``posterior``; None for a plain one.
    """
    classes = np.asarray(classes, dtype=np.intp)
    weights = None if probability is None else np.asarray(probability, dtype=np.float64)
    leading = int(_tally(classes, weights)[-1].argmax()) if len(classes) else 0
    more = max(0, most - len(classes))
    classes = np.append(classes, np.full(more, leading))
    if weights is not None:
        weights = np.append(weights, np.full(more, np.nan_to_num(weights).max(initial=0.0)))
    settled = np.flatnonzero(_surety(_tally(classes, weights), is_weighted=weights is not None) >= level)
    return int(settled[0]) + 1 if len(settled) else len(classes) + 1


def posterior(classes: ArrayLike, probability: ArrayLike) -> Floats:
    """Return (n, C) how probably each answer is the right one after each response; what is missing to 1 is another's.

    Candidates are the k answers that were given so far and one that was not, all alike likely before. A response
    that is right with probability p speaks with p for its answer and with (1 − p)/k for each other candidate. After
    CGES (Aghazadeh et al. 2025); the candidate that was not given keeps a first answer from being certain.

    Args:
        classes: (n,) as for ``fewest_settled``.
        probability: (n,) that each response is right; NaN where that is not known: it counts for nothing.
    """
    classes, probability = np.asarray(classes, dtype=np.intp), np.asarray(probability, dtype=np.float64)
    classes = np.where(np.isnan(probability), -1, classes)
    p = np.clip(np.nan_to_num(probability), _LEAST, 1 - _LEAST)[:, None]
    is_for = classes[:, None] == np.arange(max(2, classes.max(initial=0) + 1))  # (n, C)
    votes = np.cumsum(is_for, axis=0)
    given = np.maximum((votes > 0).sum(axis=1, keepdims=True), 1)  # (n, 1) k
    odds = np.where(votes > 0, np.cumsum(is_for * np.log(p / (1 - p)), axis=0) + votes * np.log(given), -np.inf)
    highest = np.maximum(odds.max(axis=1, keepdims=True), 0.0)  # the answer that was not given has 0
    weights: Floats = np.exp(odds - highest)
    weights /= weights.sum(axis=1, keepdims=True) + np.exp(-highest)
    return weights


def _tally(classes: NDArray[np.intp], probability: Floats | None) -> Floats:
    """Return (n, C) what each class has after each response, at least two classes: votes, or its ``posterior``."""
    if probability is not None:
        return posterior(classes, probability)
    is_for = classes[:, None] == np.arange(max(2, classes.max(initial=0) + 1))
    return np.cumsum(is_for, axis=0).astype(np.float64)


def _surety(tally: Floats, *, is_weighted: bool) -> Floats:
    """Return (n,) how surely the leading answer leads after each response; 0 where sampling goes on in any case."""
    next_one, leading = np.sort(tally, axis=1)[:, -2:].T
    surely = leading if is_weighted else probability_that_it_leads(leading, next_one)
    surely[: FEWEST - 1] = 0.0
    surely[leading == 0] = 0.0
    return surely


class _Responses(NamedTuple):
    """The responses to a question, (n,) each."""

    classes: NDArray[np.intp]
    right: Floats | NDArray[np.bool_]
    length: Floats
    probability: Floats
    lowest: NDArray[np.object_]

    def at(self, order: NDArray[np.intp]) -> _Responses:
        """Return some of them, in an order."""
        return _Responses._make(column[order] for column in self)


def stopping(
    question: ArrayLike,
    answer_class: ArrayLike,
    correct: ArrayLike,
    length: ArrayLike,
    size: int,
    rules: Sequence[Rule | EndingEarly],
    *,
    probability: ArrayLike | None = None,
    lowest: Sequence[Floats] | None = None,
    repeats: int = 10,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[Rule | EndingEarly, Stopped]:
    """Return for each rule what ending early does to votes of at most N responses.

    Args:
        question: (R,) which question each response belongs to.
        answer_class: (R,) number of the answer's class among those of its question, from 0; -1 for no answer.
        correct: (R,) 1 or 0, NaN where that is not known: such a question is left out.
        length: (R,) tokens of each response, NaN where that is not known.
        size: N.
        rules: when sampling ends, or a response.
        probability: (R,) that each response is right, for votes that are weighted by it; NaN where it is not known.
        lowest: of each response (W,) the lowest mean confidence of a window up to each one, for responses that end.
        repeats: how often the responses of a question are put in a random order.
        resamples: for intervals; 0 for none.
        seed: of orders and resamples.
    """
    if probability is None:
        probability = np.full(np.shape(length), np.nan)
    ends = np.empty(np.shape(length), dtype=object)
    ends[:] = lowest
    right, tokens, probably = (np.asarray(column, dtype=np.float64) for column in (correct, length, probability))
    rows = _rows(np.asarray(question), _Responses(np.asarray(answer_class), right, tokens, probably, ends))
    sums = {rule: np.zeros((len(rows), 6)) for rule in rules}
    for repeat in range(repeats):
        for place, row in enumerate(rows):
            order = np.random.default_rng((seed, repeat, place)).permutation(len(row.classes))[:size]
            for rule, found in _of_one_order(row.at(order), rules).items():
                sums[rule][place] += found
    chosen = np.random.default_rng(seed).integers(0, len(rows), (resamples, len(rows)))
    return {rule: _estimated(sums[rule] / repeats, chosen) for rule in rules}


def _rows(question: NDArray[np.int_], responses: _Responses) -> list[_Responses]:
    """Return the responses to each question all of which have labels."""
    order = np.argsort(question, kind="stable")
    starts = np.flatnonzero(np.diff(question[order], prepend=question[order][:1] - 1))
    rows = map(responses.at, np.split(order, starts[1:]))
    return [row._replace(right=row.right == 1) for row in rows if not np.isnan(row.right).any()]


def _of_one_order(of: _Responses, rules: Sequence[Rule | EndingEarly]) -> dict[Rule | EndingEarly, Floats]:
    """Return for each rule: whether its choice is right, that of all, the tokens of both, the part of samples, settled.

    Args:
        of: the responses in the order in which they come.
        rules: when sampling ends.
    """
    classes, right, count = of.classes, of.right, len(of.classes)
    tokens = np.cumsum(of.length)
    tallies = {by: _tally(classes, of.probability if by else None) for by in {False, *_ways(rules)}}
    surely = {by: _surety(tally, is_weighted=by) for by, tally in tallies.items()}

    def is_right(tally: Floats) -> bool:
        best = tally == tally.max()
        if not tally.any():
            return bool(right[0])
        return bool(right[next(n for n in range(count) if classes[n] >= 0 and best[classes[n]])])

    all_right = is_right(tallies[False][-1])
    found: dict[Rule | EndingEarly, Floats] = {}
    for rule in rules:
        if isinstance(rule, EndingEarly):
            tally, drawn_tokens = _ended(of, rule)
            found[rule] = np.array([is_right(tally), all_right, drawn_tokens, tokens[-1], 1.0, np.nan])
            continue
        settled = np.flatnonzero(surely[rule.is_weighted] >= rule.level)
        drawn = int(settled[0]) + 1 if len(settled) else count
        is_it = is_right(tallies[rule.is_weighted][drawn - 1])
        found[rule] = np.array(
            [is_it, all_right, tokens[drawn - 1], tokens[-1], drawn / count, len(settled) > 0], dtype=np.float64
        )
    return found


def _ways(rules: Sequence[Rule | EndingEarly]) -> set[bool]:
    return {rule.is_weighted for rule in rules if isinstance(rule, Rule)}


def _ended(of: _Responses, rule: EndingEarly) -> tuple[Floats, float]:
    """Return (C,) what each class has of the responses that vote, and the tokens of all, where unsure ones end."""
    lowest = np.array([windows[-1] for windows in of.lowest])
    threshold = np.quantile(lowest[: rule.first], 1 - rule.part)
    votes = (of.classes >= 0) & (lowest >= threshold)
    tally: Floats = np.bincount(of.classes[votes], lowest[votes], minlength=1 + of.classes.max()).astype(np.float64)
    length = of.length.copy()
    for place in np.flatnonzero(lowest < threshold):
        if place >= rule.first:
            length[place] = min(length[place], np.argmax(of.lowest[place] < threshold) + rule.window)
    return tally, float(length.sum())


def _estimated(means: Floats, chosen: NDArray[np.intp]) -> Stopped:
    """Return the figures of questions with their intervals.

    Args:
        means: (Q, 6) what ``_of_one_order`` returns, as means over the orders.
        chosen: (R, Q) the questions of each resample.
    """

    def of(figures: Floats, *, is_difference: bool = False) -> Estimate:
        return Estimate.resampled(float(figures.mean()), figures[chosen].mean(axis=1), is_difference=is_difference)

    drawn, every = means[:, 2], means[:, 3]
    tokens = Estimate(None, reason="a response whose length is not known")
    if np.isfinite(every).all():
        part = float(drawn.sum() / every.sum())
        tokens = Estimate.resampled(part, drawn[chosen].sum(axis=1) / every[chosen].sum(axis=1))
    return Stopped(
        accuracy=of(means[:, 0]),
        difference=of(means[:, 0] - means[:, 1], is_difference=True),
        tokens=tokens,
        samples=of(means[:, 4]),
        settled=Estimate(None) if np.isnan(means[:, 5]).any() else of(means[:, 5]),
    )
