"""Fewer samples where the vote is settled, from offline records: adaptive consistency (Aggarwal et al. 2023).

The responses to a question come in a random order. With v₁ votes for the leading answer so far and v₂ for the next, and
all shares alike likely before, the leading one is more frequent than the next with probability
P(Beta(v₁ + 1, v₂ + 1) > ½). From ``FEWEST`` responses on, sampling ends when that is τ or more, else after N. A missing
answer has no vote. Ties, of a vote that was not settled, go to the answer that came first.

The same orders serve all τ and the vote of all N, so that the differences are paired. Intervals are of resampled
questions, each with its mean over the orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranked import Floats

FEWEST = 4
"""Responses that are always drawn, where a question has so many."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """What ending early does.

    Attributes:
        accuracy: part of the questions whose chosen answer is right.
        difference: that minus the accuracy of the vote of all N.
        tokens: tokens drawn, as a part of those of all N; not defined where lengths are not known.
        samples: the same of the responses.
        settled: part of the questions whose vote is settled, with N responses or fewer.
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


def surety(classes: ArrayLike) -> Floats:
    """Return (n,) how surely the leading answer leads after each response; 0 where sampling goes on in any case.

    Args:
        classes: (n,) the responses' classes of answers, from 0, in the order in which they come; -1 for no answer.
    """
    leading, next_one = _leading(np.asarray(classes, dtype=np.intp))
    surely = probability_that_it_leads(leading, next_one)
    surely[: FEWEST - 1] = 0.0
    surely[leading == 0] = 0.0
    return surely


def fewest_settled(classes: ArrayLike, level: float) -> int:
    """Return the fewest responses that may settle the vote, if these are the first and all others agree with it.

    It is at most ``n`` where they settle it themselves. None of so many is drawn in vain.

    Args:
        classes: (n,) as for ``surety``.
        level: τ, below 1.
    """
    classes = np.asarray(classes, dtype=np.intp)
    settled = np.flatnonzero(surety(classes) >= level)
    if len(settled):
        return int(settled[0]) + 1
    leading, next_one = (int(votes[-1]) if len(classes) else 0 for votes in _leading(classes))
    more = 1
    while probability_that_it_leads(leading + more, next_one) < level:
        more += 1
    return max(FEWEST, len(classes) + more)


def _leading(classes: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return (n,) the votes of the leading answer, and those of the next, after each response."""
    votes = np.cumsum(classes[:, None] == np.arange(max(2, classes.max(initial=0) + 1)), axis=0)  # (n, C)
    next_one, leading = np.sort(votes, axis=1)[:, -2:].T
    return leading, next_one


def stopping(
    question: ArrayLike,
    answer_class: ArrayLike,
    correct: ArrayLike,
    length: ArrayLike,
    size: int,
    levels: Sequence[float],
    *,
    repeats: int = 10,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[float, Stopped]:
    """Return for each τ what ending early does to votes of at most N responses.

    Args:
        question: (R,) which question each response belongs to.
        answer_class: (R,) number of the answer's class among those of its question, from 0; -1 for no answer.
        correct: (R,) 1 or 0, NaN where that is not known: such a question is left out.
        length: (R,) tokens of each response, NaN where that is not known.
        size: N.
        levels: the values of τ.
        repeats: how often the responses of a question are put in a random order.
        resamples: for intervals; 0 for none.
        seed: of orders and resamples.
    """
    rows = _rows(*map(np.asarray, (question, answer_class, correct, length)))
    sums = {level: np.zeros((len(rows), 6)) for level in levels}
    for repeat in range(repeats):
        for place, (classes, right, tokens) in enumerate(rows):
            order = np.random.default_rng((seed, repeat, place)).permutation(len(classes))[:size]
            of_one = _votes(classes[order], right[order], np.cumsum(tokens[order]), levels)
            for level, found in of_one.items():
                sums[level][place] += found
    chosen = np.random.default_rng(seed).integers(0, len(rows), (resamples, len(rows)))
    return {level: _estimated(sums[level] / repeats, chosen) for level in levels}


def _rows(
    question: NDArray[np.int_], answer_class: NDArray[np.int_], correct: Floats, length: Floats
) -> list[tuple[NDArray[np.int_], NDArray[np.bool_], Floats]]:
    """Return the classes, labels and lengths of each question whose responses all have labels."""
    order = np.argsort(question, kind="stable")
    starts = np.flatnonzero(np.diff(question[order], prepend=question[order][:1] - 1))
    places = np.split(order, starts[1:])
    return [
        (answer_class[of], correct[of] == 1, length[of].astype(np.float64))
        for of in places
        if not np.isnan(correct[of]).any()
    ]


def _votes(
    classes: NDArray[np.int_], right: NDArray[np.bool_], tokens: Floats, levels: Sequence[float]
) -> Mapping[float, Floats]:
    """Return for each τ: whether its choice is right, that of all, the tokens of both, the part of samples, settled.

    Args:
        classes: (n,) in the order in which they come.
        right: (n,)
        tokens: (n,) of the responses up to each.
        levels: the values of τ.
    """
    count, surely = len(classes), surety(classes)

    def is_right(drawn: int) -> bool:
        votes = np.bincount(classes[:drawn][classes[:drawn] >= 0], minlength=1)
        if not votes.any():
            return bool(right[0])
        return bool(
            right[next(place for place in range(drawn) if classes[place] >= 0 and votes[classes[place]] == votes.max())]
        )

    all_right, found = is_right(count), {}
    for level in levels:
        settled = np.flatnonzero(surely >= level)
        drawn = int(settled[0]) + 1 if len(settled) else count
        found[level] = np.array(
            [is_right(drawn), all_right, tokens[drawn - 1], tokens[-1], drawn / count, len(settled) > 0],
            dtype=np.float64,
        )
    return found


def _estimated(means: Floats, chosen: NDArray[np.intp]) -> Stopped:
    """Return the figures of questions with their intervals.

    Args:
        means: (Q, 6) what ``_votes`` returns, as means over the orders.
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
        settled=of(means[:, 5]),
    )
