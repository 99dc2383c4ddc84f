"""Test-time scaling beside select's vote, by brute force and by hand."""

import itertools
import math
import statistics
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from tests.selection.oracle import oracle_choice
from tokur_cli.metrics import adaptive_consistency
from tokur_cli.metrics.adaptive_consistency import FEWEST, fewest_settled, posterior_of_leader
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.scaling import Scaling
from tokur_cli.selection.voting import Keep, Rule

ALL = Keep()
responses = st.lists(
    st.tuples(st.integers(-1, 2), st.sampled_from([0.0, 1.0, 2.0, 3.5, math.nan])), min_size=1, max_size=9
)


def samples_of(question):
    return [np.flatnonzero(np.array(question) == number) for number in dict.fromkeys(question)]


def scaling(question, classes, correct, confidences, sizes, **how):
    """Of one run."""
    curves = Scaling(sizes, **how)
    scores = {name: np.array(values) for name, values in confidences.items()}
    curves.add(samples_of(question), classes, np.array(correct), scores)
    return curves


def stopping(question, classes, correct, length, size, levels, **how):
    given = samples_of(question), classes, np.array(correct), np.array(length), size
    return {level: adaptive_consistency.stopping(*given, level, **how) for level in levels}


def majority(rows):
    """k of m tied classes are correct; class 1 is."""
    votes = Counter(row[0] for row in rows if row[0] >= 0)
    tied = [one for one, count in votes.items() if count == max(votes.values())]
    return tied.count(1) / len(tied) if tied else 0.0


@settings(max_examples=100)
@given(
    st.lists(responses, min_size=1, max_size=5),
    st.sampled_from([Fraction(1, 100), Fraction(1, 10), Fraction(17, 50), Fraction(1)]),
    st.sampled_from([1, 3, 16]),
)
def test_scaling_of_the_whole_set_follows_the_rule(questions, share, minimum):
    question = [number for number, rows in enumerate(questions) for _ in rows]
    answer = [row[0] if row[0] >= 0 else None for rows in questions for row in rows]
    right = [float(row[0] == 1) for rows in questions for row in rows]
    confidence = [row[1] for rows in questions for row in rows]
    keep = Keep(share, minimum)
    found = scaling(question, answer, right, {"s": confidence}, [9], repeats=2, keep=keep)
    for method in ("maj", "wbon"):
        expected = []
        for rows in questions:
            given = [
                (place, None if math.isnan(value) else value, None if label < 0 else label)
                for place, (label, value) in enumerate(rows)
            ]
            chosen = oracle_choice(given, Rule(method, keep))
            expected.append(None if chosen is None else rows[chosen][0] == 1)
        if all(one is None for one in expected):
            assert found.point("s", method, 9) == Estimate(None)
        else:
            assert found.point("s", method, 9).value == pytest.approx(np.mean([bool(one) for one in expected]))
    right_rows = [[row[0] == 1 for row in rows] for rows in questions]
    assert found.point(None, "majority", 9).value == pytest.approx(np.mean([majority(rows) for rows in questions]))
    assert found.point(None, "pass@n", 9).value == pytest.approx(np.mean([any(rows) for rows in right_rows]))
    assert found.point(None, "pass@1", 9).value == pytest.approx(np.mean([np.mean(rows) for rows in right_rows]))


def simulated(generator, questions=20, samples=16):
    question = np.repeat(np.arange(questions), samples)
    answer = generator.integers(0, 6, len(question))
    right = (answer == generator.integers(0, 6, questions)[question]).astype(float)
    return question, answer, right, generator.normal(size=len(question)) + 2 * right


def test_scaling_spreads_over_draws_that_the_seed_fixes_and_all_scores_see():
    question, answer, right, confidence = simulated(np.random.default_rng(3))

    def points(seed, **scores):
        found = scaling(question, answer, right, scores, [4, 16], repeats=5, seed=seed, keep=Keep(Fraction(1, 10)))
        return [found.point("s", "maj", size) for size in (4, 16)]

    four, every = points(0, s=confidence)
    assert points(0, a=-confidence, s=confidence) == [four, every]
    assert four.std == pytest.approx(statistics.stdev(four.values))
    assert every.std == 0
    assert four.values != points(1, s=confidence)[0].values


def test_scaling_draws_without_replacement_and_fairly():
    # One right response of four: drawing two without replacement finds it in half of the draws.
    question = np.repeat(np.arange(500), 4)
    right = np.tile([1.0, 0, 0, 0], 500)
    found = scaling(question, 1 - right.astype(int), right, {}, [2], repeats=20, keep=ALL)
    error = 3 * math.sqrt(0.25 / (500 * 20))
    assert found.point(None, "pass@n", 2).value == pytest.approx(0.5, abs=error)
    assert found.point(None, "pass@1", 2).value == pytest.approx(0.25, abs=error)


def test_scaling_over_runs_has_the_repeats_of_all():
    runs, both = [], Scaling([2, 3], repeats=3, keep=ALL)
    for seed in (4, 5):
        question, answer, right, confidence = simulated(np.random.default_rng(seed), questions=10 * seed, samples=seed)
        runs.append(scaling(question, answer, right, {"s": confidence}, [2, 3], repeats=3, keep=ALL))
        both.add(samples_of(question), answer, right, {"s": confidence})
    assert (both.questions, both.unlabelled, both.fewest) == (90, 0, 4)
    for way, curve in both.accuracies.items():
        assert curve == {size: runs[0].accuracies[way][size] + runs[1].accuracies[way][size] for size in (2, 3)}


def test_scaling_leaves_out_questions_with_unknown_labels_and_scores_that_no_drawn_response_has():
    found = scaling([0, 0, 1, 1, 1], [0, 1, 0, 0, 1], [1, math.nan, 1, 1, 0], {}, [8], repeats=1, keep=ALL)
    assert (found.questions, found.unlabelled, found.fewest) == (1, 1, 3)
    confidence, keep = [1.0, *[math.nan] * 63], Keep(Fraction(1, 10))
    found = scaling([0] * 64, [0] * 64, [1.0] * 64, {"s": confidence}, [1, 64], repeats=1, keep=keep)
    assert found.point("s", "maj", 1) == Estimate(None)
    assert found.point("s", "maj", 64).value == 1.0
    found = scaling([0, 1], [0, 0], [1.0, 1.0], {"s": [1.0, math.nan]}, [1], repeats=1, keep=ALL)
    assert found.point("s", "wbon", 1).value == 0.5, "nothing is chosen for the other question"


def bound(votes):
    """1 − the sum over all other answers, one unseen among them, of their being more frequent."""
    first, *others = sorted(votes, reverse=True)
    return 1 - sum(beta.cdf(0.5, first + 1, other + 1) for other in [*others, 0])


@pytest.mark.parametrize("votes", [[4], [3, 1], [10, 9], [40, 2, 2, 1], [5, 5, 5]])
def test_posterior_of_leader_is_a_union_bound_over_the_others_and_one_unseen(votes):
    assert posterior_of_leader(*votes) == pytest.approx(bound(votes))


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
    tokens = sum(lengths[place] for place in drawn) / sum(lengths)
    return [accuracy(drawn), accuracy(drawn) - accuracy(order), tokens, len(drawn) / len(order), settled]


@pytest.mark.parametrize(
    "classes", [[0, 0, 1, 0, -1, 0], [0, 1, 1, 2, 2, 2], [-1, -1, -1, -1, -1, -1], [0, 0, 0, 1, 1, 1]]
)
def test_stopping_gives_the_means_over_all_orders(classes):
    right, lengths = [float(one == 0) for one in classes], [10.0, 20, 30, 40, 50, 60]
    expected = np.mean(
        [by_hand(order, classes, right, lengths, 0.7) for order in itertools.permutations(range(6))], axis=0
    )
    of = stopping([0] * 6, [one if one >= 0 else None for one in classes], right, lengths, 6, [0.7], repeats=4000)[0.7]
    assert [estimate.value for estimate in of.values()] == pytest.approx(expected, abs=0.02, rel=0.02)


def test_stopping_leaves_out_questions_without_labels_and_unknown_lengths_give_no_tokens():
    correct = [1.0] * 5 + [math.nan] * 5 + [0.0] * 5
    found = stopping(np.arange(15) // 5, [0] * 15, correct, [math.nan] * 15, 5, [0.9])[0.9]
    accuracy = found["accuracy"]
    assert (accuracy.value, accuracy.low, accuracy.high, found["tokens"].value) == (0.5, 0, 1, None)
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
