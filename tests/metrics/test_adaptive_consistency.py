"""Votes that end when they are settled: beta distributions, simulation and all orders as the oracle."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from tokur_cli.metrics.adaptive_consistency import FEWEST, fewest_settled, posterior_of_leader, stopping


def bound(votes):
    """1 − the sum over all other answers, one unseen among them, of their being more frequent."""
    first, *others = sorted(votes, reverse=True)
    return 1 - sum(beta.cdf(0.5, first + 1, other + 1) for other in [*others, 0])


@pytest.mark.parametrize("votes", [[4], [3, 1], [10, 9], [40, 2, 2, 1], [5, 5, 5]])
def test_posterior_of_leader_is_a_union_bound_over_the_others_and_one_unseen(votes):
    assert posterior_of_leader(votes) == pytest.approx(bound(votes))


def test_stopping_of_equal_answers_is_as_soon_as_may_be():
    """1 − 0.5^(n + 1) is 0.969 for n = 4, 0.984 for 5 and 0.992 for 6."""
    found = stopping([0] * 8, [0] * 8, [1.0] * 8, [10.0] * 8, 8, [0.6, 0.95, 0.98, 0.99])
    assert {level: round(8 * of["samples"].value) for level, of in found.items()} == {0.6: 4, 0.95: 4, 0.98: 5, 0.99: 6}
    assert all(of["samples"].value == of["tokens"].value and of["settled"].value == 1 for of in found.values())


def by_hand(order, classes, right, lengths, level):
    """The rule in words, for one order."""

    def accuracy(drawn):
        votes = Counter(classes[place] for place in drawn if classes[place] >= 0)
        best = max(votes.values(), default=0)
        tied = {one for one, count in votes.items() if count == best} or {-1}
        of_classes = [next(right[place] for place in drawn if classes[place] == one) for one in tied]
        return sum(of_classes) / len(of_classes)

    for count in range(FEWEST, len(order) + 1):
        votes = Counter(classes[place] for place in order[:count] if classes[place] >= 0)
        if votes and bound(votes.values()) >= level:
            drawn, settled = order[:count], True
            break
    else:
        drawn, settled = order, False
    spent = sum(lengths[place] for place in drawn)
    return [accuracy(drawn), accuracy(drawn) - accuracy(order), spent, len(drawn) / len(order), settled]


@pytest.mark.parametrize(
    "classes", [[0, 0, 1, 0, -1, 0], [0, 1, 1, 2, 2, 2], [-1, -1, -1, -1, -1, -1], [0, 0, 0, 1, 1, 1]]
)
def test_stopping_gives_the_means_over_all_orders(classes):
    right, lengths = [float(one == 0) for one in classes], [10.0, 20, 30, 40, 50, 60]
    expected = np.mean(
        [by_hand(order, classes, right, lengths, 0.7) for order in itertools.permutations(range(6))], axis=0
    )
    of = stopping([0] * 6, [one if one >= 0 else None for one in classes], right, lengths, 6, [0.7], repeats=4000)[0.7]
    found = [
        of["accuracy"].value,
        of["difference"].value,
        210 * of["tokens"].value,
        of["samples"].value,
        of["settled"].value,
    ]
    assert found == pytest.approx(expected, abs=0.02, rel=0.02)


def test_stopping_leaves_out_questions_without_labels_and_unknown_lengths_give_no_tokens():
    found = stopping([0] * 5 + [1] * 5, [0] * 10, [1.0] * 5 + [math.nan] * 5, [math.nan] * 10, 5, [0.9])[0.9]
    assert (found["accuracy"].value, found["tokens"].value) == (1.0, None)
    assert found["tokens"].reason == "a response whose length is not known"


@given(st.lists(st.one_of(st.none(), st.integers(0, 2)), max_size=12), st.sampled_from([0.6, 0.9, 0.95]))
def test_fewest_settled_asks_for_no_sample_in_vain(labels, level):
    """No continuation settles the vote before, and one of the leading answer alone settles it then."""
    most = 14
    found = fewest_settled(labels, level, most)
    leading = Counter(label for label in labels if label is not None).most_common(1)
    rest = [leading[0][0] if leading else 0] * (most - len(labels))
    assert fewest_settled([*labels, *rest], level, most) == found
    for other in (0, 1, 2, None):
        assert fewest_settled([*labels, *[other] * len(rest)], level, most) >= found
