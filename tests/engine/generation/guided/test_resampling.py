import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokur_cli.engine.generation.guided.resampling import Resampling, draw, effective_size, softmax_weights

REWARDS = st.lists(st.floats(-50, 50), min_size=1, max_size=20)


@given(REWARDS, st.floats(0.01, 100))
def test_weights_are_a_softmax_and_the_effective_size_is_theirs(rewards, temperature):
    weights = softmax_weights(np.array(rewards), temperature)
    powers = [math.exp((reward - max(rewards)) / temperature) for reward in rewards]
    assert weights == pytest.approx([power / sum(powers) for power in powers])
    assert effective_size(weights) == pytest.approx(sum(powers) ** 2 / sum(power**2 for power in powers))


@given(st.integers(1, 64), st.integers(0, 10**6), st.floats(-5, 5))
def test_systematic_resampling_at_equal_weights_is_the_identity(count, seed, reward):
    for temperature in (1.0, None):
        ancestors, size, took_part = Resampling(temperature, "systematic").ancestors(
            [reward] * count, [True] * count, (seed,)
        )
        assert ancestors == list(range(count))
        assert (size, took_part) == (pytest.approx(count), count)


@given(REWARDS, st.integers(0, 10**6))
def test_systematic_resampling_copies_each_as_often_as_its_weight_says_up_to_one(rewards, seed):
    weights = softmax_weights(np.array(rewards), 3.0)
    copies = Counter(draw(weights, "systematic", (seed,)))
    for index, weight in enumerate(weights):
        assert abs(copies[index] - weight * len(weights)) < 1 + 1e-9


def test_multinomial_resampling_draws_each_as_often_as_its_weight_says_on_average():
    weights = np.array([0.5, 0.3, 0.15, 0.05])
    rounds = 4000
    copies = Counter(index for seed in range(rounds) for index in draw(weights, "multinomial", (seed,)))
    for index, weight in enumerate(weights):
        deviation = math.sqrt(weight * (1 - weight) / (4 * rounds))
        assert abs(copies[index] / (4 * rounds) - weight) < 4 * deviation


def test_equal_weights_leave_as_many_lineages_as_chance_does():
    """What the draws alone leave of 16 lineages after 4, 8 and 16 rounds is 5.3, 3.3 and 2.1 on average."""
    left = {4: [], 8: [], 16: []}
    for seed in range(300):
        roots = list(range(16))
        for round_ in range(16):
            ancestors, _, _ = Resampling().ancestors([0.0] * 16, [True] * 16, (seed, round_))
            roots = [roots[ancestor] for ancestor in ancestors]
            if round_ + 1 in left:
                left[round_ + 1].append(len(set(roots)))
    means = {rounds: np.mean(counts) for rounds, counts in left.items()}
    assert means == {4: pytest.approx(5.3, abs=0.25), 8: pytest.approx(3.3, abs=0.2), 16: pytest.approx(2.1, abs=0.2)}


def test_kept_particles_stay_where_they_are_and_are_copied_by_nobody():
    rewards = [9.0, 0.0, 0.0, 0.0]  # the ended one would take all
    growing = [False, True, True, True]
    competing, _, count = Resampling(0.1).ancestors(rewards, growing, (0,))
    assert (competing, count) == ([0, 0, 0, 0], 4)
    for seed in range(50):
        kept, size, count = Resampling(0.1, ended="keep").ancestors(rewards, growing, (seed,))
        assert kept[0] == 0
        assert 0 not in kept[1:]
        assert (size, count) == (pytest.approx(3), 3)


def test_nothing_is_resampled_while_the_effective_size_is_large_enough():
    rewards = [math.log(weight) for weight in (0.4, 0.3, 0.2, 0.1)]  # an effective size of 10/3
    growing = [True] * 4
    assert all(Resampling(below=0.8).ancestors(rewards, growing, (seed,))[0] == [0, 1, 2, 3] for seed in range(20))
    assert any(Resampling(below=0.9).ancestors(rewards, growing, (seed,))[0] != [0, 1, 2, 3] for seed in range(20))
