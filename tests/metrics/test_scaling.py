import math
import statistics
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokur_cli.metrics.estimate import Estimate
from tokur_cli.metrics.scaling import Scaling, scaling

responses = st.lists(
    st.tuples(st.integers(-1, 2), st.sampled_from([0.0, 1.0, 2.0, 3.5, math.nan])), min_size=1, max_size=9
)


def _choose(rows, keep, weighted, least=1):
    """The rule in words: rank, keep, vote, break ties by confidence and then by sample."""
    ranked = sorted((row for row in enumerate(rows) if math.isfinite(row[1][1])), key=lambda row: (-row[1][1], row[0]))
    kept = ranked[: max(least, math.ceil(Fraction(keep) * len(ranked)))]
    if not kept:
        return None
    votes = defaultdict(float)
    best = {}
    for place, (_, (answer, confidence)) in enumerate(kept):
        votes[answer] += math.exp(confidence - kept[0][1][1]) if weighted else 1.0
        best.setdefault(answer, place)
    answered = [answer for answer in votes if answer >= 0] or [-1]
    return min(answered, key=lambda answer: (-votes[answer], best[answer]))


@settings(max_examples=200)
@given(
    st.lists(responses, min_size=1, max_size=5),
    st.sampled_from([Fraction(1, 100), Fraction(1, 10), Fraction(17, 50), Fraction(1)]),
    st.sampled_from([1, 3, 16]),
)
def test_choices_from_the_whole_set_follow_the_rule(questions, keep, least):
    question = [number for number, rows in enumerate(questions) for _ in rows]
    answer = [row[0] for rows in questions for row in rows]
    right = [float(row[0] == 1) for rows in questions for row in rows]
    confidence = [row[1] for rows in questions for row in rows]
    found = scaling(question, answer, right, {"s": confidence}, [9], repeats=2, keep=keep, least=least)
    for method in ("maj", "wbon"):
        expected = [_choose(rows, keep, method == "wbon", least) == 1 for rows in questions]
        if ("s", method) in found.accuracies:
            assert found.point("s", method, 9).value == pytest.approx(np.mean(expected))
        else:
            assert found.point("s", method, 9) == Estimate(None)
            assert not any(expected)
    plain = [_choose([(row[0], 0.0) for row in rows], 1, False) == 1 for rows in questions]
    right_rows = [[row[0] == 1 for row in rows] for rows in questions]
    assert found.point(None, "majority", 9).value == pytest.approx(np.mean(plain))
    assert found.point(None, "pass@n", 9).value == pytest.approx(np.mean([any(rows) for rows in right_rows]))
    assert found.point(None, "pass@1", 9).value == pytest.approx(np.mean([np.mean(rows) for rows in right_rows]))


def _simulated(generator, questions=40, samples=32):
    question = np.repeat(np.arange(questions), samples)
    answer = generator.integers(0, 6, len(question))
    right = (answer == generator.integers(0, 6, questions)[question]).astype(float)
    return question, answer, right, generator.normal(size=len(question)) + 2 * right


def test_the_whole_set_has_no_spread_and_smaller_sets_have_some():
    question, answer, right, confidence = _simulated(np.random.default_rng(0))
    found = scaling(question, answer, right, {"s": confidence}, [4, 8, 32], repeats=10)
    for way in found.accuracies:
        for size in (4, 8, 32):
            point = found.point(*way, size)
            assert (point.std == 0) == (size == 32), way
            assert len(point.values) == 10


def test_the_spread_is_the_sample_standard_deviation_over_draws_that_the_seed_tells():
    question, answer, right, confidence = _simulated(np.random.default_rng(3))
    one, again, other = (
        scaling(question, answer, right, {"s": confidence}, [4], repeats=5, seed=seed).point("s", "maj", 4)
        for seed in (0, 0, 1)
    )
    assert one.std == pytest.approx(statistics.stdev(one.values))
    assert one == again
    assert one.values != other.values


def test_subsets_are_drawn_without_replacement_and_fairly():
    # One right response of four: drawing two without replacement finds it in half of the draws.
    question = np.repeat(np.arange(500), 4)
    right = np.tile([1.0, 0, 0, 0], 500)
    found = scaling(question, 1 - right.astype(int), right, {}, [2], repeats=20)
    error = 3 * math.sqrt(0.25 / (500 * 20))
    assert found.point(None, "pass@n", 2).value == pytest.approx(0.5, abs=error)
    assert found.point(None, "pass@1", 2).value == pytest.approx(0.25, abs=error)


def test_runs_are_repeats_of_each_other():
    runs = []
    for seed in (4, 5):
        question, answer, right, confidence = _simulated(np.random.default_rng(seed), questions=10 * seed, samples=seed)
        runs.append(scaling(question, answer, right, {"s": confidence}, [2, 3], repeats=3))
    both = Scaling.over_runs(runs)
    assert (both.questions, both.unlabelled, both.fewest) == (90, 0, 4)
    assert both.accuracies.keys() == runs[0].accuracies.keys()
    for way, curve in both.accuracies.items():
        assert curve == {size: runs[0].accuracies[way][size] + runs[1].accuracies[way][size] for size in (2, 3)}


def test_all_scores_see_the_same_draws():
    question, answer, right, confidence = _simulated(np.random.default_rng(1))
    together = scaling(question, answer, right, {"a": confidence, "b": -confidence}, [8], repeats=3)
    alone = scaling(question, answer, right, {"b": -confidence}, [8], repeats=3)
    assert {way: curve for way, curve in together.accuracies.items() if way[0] != "a"} == alone.accuracies


def test_the_order_of_the_questions_does_not_matter_for_the_whole_set():
    generator = np.random.default_rng(2)
    question, answer, right, confidence = _simulated(generator)
    shuffled = generator.permutation(len(question))
    one = scaling(question, answer, right, {"s": confidence}, [32], repeats=1)
    other = scaling(question[shuffled], answer[shuffled], right[shuffled], {"s": confidence[shuffled]}, [32], repeats=1)
    for method in ("maj", "wbon"):
        assert one.accuracies["s", method] == other.accuracies["s", method]


def test_a_tenth_of_thirty_is_three():
    # The right answer is only among the fourth-best: it must not be kept.
    answer = [0, 1, 2] + [3] * 27
    right = [0.0, 0, 0] + [1.0] * 27
    for keep in (0.1, Fraction(1, 10)):
        found = scaling([0] * 30, answer, right, {"s": -np.arange(30.0)}, [30], repeats=1, keep=keep)
        assert (found.point("s", "maj", 30).value, found.point("s", "wbon", 30).value) == (0.0, 0.0)


def test_a_tenth_votes_unless_another_part_is_asked_for_and_it_is_rounded_up():
    # The second class wins with three votes, not with two or one (ties go to the first), nor with four or more.
    answer = [0, 1, 1, 0, *range(2, 19)]
    right = [float(one == 1) for one in answer]
    found = scaling([0] * 21, answer, right, {"s": -np.arange(21.0)}, [21])
    assert found.point("s", "maj", 21).values == (1.0,) * 10


def test_a_right_response_without_an_answer_is_chosen_where_there_is_no_other():
    # What a question lacks of N responses is no response: it neither votes nor is it chosen.
    found = scaling([0, 1, 1, 1], [-1, 0, 0, 0], [1.0, 0, 0, 1], {"s": [-1.0, -2, -3, -4]}, [3], repeats=1, keep=1)
    for way in ((None, "majority"), ("s", "maj"), ("s", "wbon")):
        assert found.point(*way, 3).value == 0.5, way


def test_questions_with_unknown_labels_and_short_questions_are_said():
    found = scaling([0, 0, 1, 1, 1], [0, 1, 0, 0, 1], [1, math.nan, 1, 1, 0], {}, [8], repeats=1)
    assert (found.questions, found.unlabelled, found.fewest) == (1, 1, 3)


def test_a_score_that_few_responses_have_chooses_nothing_where_none_of_them_is_drawn():
    confidence = [1.0, *[math.nan] * 63]
    found = scaling([0] * 64, [0] * 64, [1.0] * 64, {"s": confidence}, [1, 64], repeats=1)
    assert found.point("s", "maj", 1) == Estimate(None)
    assert found.point("s", "maj", 64).value == 1.0
