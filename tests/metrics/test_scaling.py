"""Test-time scaling beside select's vote, by brute force and by hand."""

import math
import statistics
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.selection.oracle import oracle_choice
from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.scaling import Scaling
from tokur_cli.selection.voting import Keep, Rule

ALL = Keep()
responses = st.lists(
    st.tuples(st.integers(-1, 2), st.sampled_from([0.0, 1.0, 2.0, 3.5, math.nan])), min_size=1, max_size=9
)


def scaling(question, classes, correct, confidences, sizes, **how):
    """Of one run."""
    curves = Scaling(sizes, **how)
    curves.add(question, classes, correct, confidences)
    return curves


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

    (four, every), again, (other, _) = (
        points(0, s=confidence),
        points(0, a=-confidence, s=confidence),
        points(1, s=confidence),
    )
    assert again == [four, every]
    assert four.std == pytest.approx(statistics.stdev(four.values))
    assert every.std == 0
    assert four.values != other.values


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
        both.add(question, answer, right, {"s": confidence})
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
