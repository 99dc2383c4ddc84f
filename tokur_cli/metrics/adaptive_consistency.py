"""Fewer samples where the vote is settled, from offline records: adaptive consistency (Aggarwal et al. 2023).

The responses to a question come in a random order. With v₁ votes for the leading answer so far and v_j for each other
one, and all shares alike likely before, answer j is more frequent with probability P(Beta(v₁ + 1, v_j + 1) < ½). So the
leading answer is the most frequent one with probability at least

    1 − Σ_j P(Beta(v₁ + 1, v_j + 1) < ½),

a union bound over all other answers and one that was not given yet (v = 0). From ``FEWEST`` responses on, sampling ends
when that is τ or more, else after N. A missing answer has no vote. Ties, of a vote that was not settled, count at their
expectation.

The same orders serve all levels and the vote of all N, so that the differences are paired. Intervals are of resampled
questions, each with its mean over the orders.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import lru_cache
from statistics import mode

import numpy as np

from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.ranking import Floats, Indices
from tokur_cli.selection.voting import majority_accuracy

FEWEST = 4
"""Responses that are always drawn, where a question has so many."""


@lru_cache(maxsize=1 << 16)
def posterior_of_leader(*votes: int) -> float:
    """Return how probably the answer with the most votes is the most frequent one, at the least; see above.

    Args:
        votes: of each answer that was given, at least one.
    """
    from scipy.special import betainc

    leading, *others = sorted(votes, reverse=True)
    return 1 - math.fsum(betainc(leading + 1.0, np.add((*others, 0), 1.0), 0.5))


def fewest_settled(labels: Sequence[Hashable], level: float, most: int) -> int:
    """Return the fewest responses that may settle the vote, if these are the first and all others agree with it.

    It is at most n where the n given settle it themselves, and more than ``most`` where not even so many may.

    Args:
        labels: (n,) the responses' classes of answers, in the order in which they come; None for no answer.
        level: τ, below 1.
        most: N.
    """
    leading = mode([label for label in labels if label is not None] or [0])
    drawn = [*labels, *[leading] * (most - len(labels))]
    votes: Counter[Hashable] = Counter()
    for count, label in enumerate(drawn, start=1):
        if label is not None:
            votes[label] += 1
        if count >= FEWEST and votes and posterior_of_leader(*sorted(votes.values())) >= level:
            return count
    return len(drawn) + 1


def stopping(
    samples: Sequence[Indices],
    classes: Sequence[Hashable],
    correct: Floats,
    length: Floats,
    size: int,
    level: float,
    *,
    repeats: int = 10,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Return what ending early does to votes of at most N responses.

    Args:
        samples: of each question the places of its responses among all R.
        classes: (R,) the answer's class among those of its question; None for no answer.
        correct: (R,) 1 or 0, NaN where that is not known: such a question is left out.
        length: (R,) tokens of each response, NaN where that is not known.
        size: N.
        level: τ.
        repeats: how often the responses of a question are put in a random order.
        resamples: for intervals; 0 for none.
        seed: of orders and resamples.

    Returns:
        The ``accuracy`` (the fraction of the questions whose chosen answer is correct); the ``difference`` from that of
        the vote of all N; the ``tokens`` and the ``samples`` drawn, as fractions of those of all N; and the fraction of
        the questions whose vote is ``settled``, with N responses or fewer.
    """
    rows = [row for row in samples if not np.isnan(correct[row]).any()]
    sums = np.zeros((len(rows), 6))
    for repeat, (place, row) in itertools.product(range(repeats), enumerate(rows)):
        order = row[np.random.default_rng((seed, repeat, place)).permutation(len(row))[:size]]
        labels, right, spent = [classes[each] for each in order], correct[order].tolist(), np.cumsum(length[order])
        of_all, count = majority_accuracy(labels, right), len(order)
        drawn = min(settled := fewest_settled(labels, level, count), count)
        accuracy = majority_accuracy(labels[:drawn], right[:drawn])
        sums[place] += accuracy, accuracy - of_all, drawn / count, settled <= count, spent[drawn - 1], spent[-1]
    again = np.random.default_rng(seed).integers(0, len(rows), (resamples, len(rows)))
    chosen = np.concatenate((np.arange(len(rows))[None], again))  # (1 + R, Q)
    means = (column[chosen].mean(axis=1) for column in (sums / repeats).T)  # one by one, to save memory
    accuracies, differences, samples_drawn, votes_settled, spent, every = means
    return {
        "accuracy": Estimate.resampled(accuracies),
        "difference": Estimate.resampled(differences, is_difference=True),
        "tokens": Estimate.resampled(spent / every, reason="a response whose length is not known"),
        "samples": Estimate.resampled(samples_drawn),
        "settled": Estimate.resampled(votes_settled),
    }
