import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokur_cli.engine.generation.resampling import Resampling, draw, softmax_weights

REWARDS = st.lists(st.floats(-50, 50), min_size=1, max_size=20)


@given(REWARDS, st.floats(0.01, 100))
def test_softmax_weights_are_a_softmax_and_the_effective_size_is_theirs(rewards, temperature):
    weights = softmax_weights(np.array(rewards), temperature)
    powers = [math.exp((reward - max(rewards)) / temperature) for reward in rewards]
    assert weights == pytest.approx([power / sum(powers) for power in powers])
    _, size, _ = Resampling(temperature).resample(rewards, (0,))
    assert size == pytest.approx(sum(powers) ** 2 / sum(power**2 for power in powers))


@given(REWARDS, st.integers(0, 10**6))
def test_draw_systematic_copies_each_as_often_as_its_weight_says_up_to_one(rewards, seed):
    weights = softmax_weights(np.array(rewards), 3.0)
    copies = Counter(draw(weights, "systematic", (seed,)))
    for index, weight in enumerate(weights):
        assert abs(copies[index] - weight * len(weights)) < 1 + 1e-9


def test_draw_multinomial_copies_each_as_often_as_its_weight_says_on_average():
    weights = np.array([0.5, 0.3, 0.15, 0.05])
    rounds = 4000
    copies = Counter(index for seed in range(rounds) for index in draw(weights, "multinomial", (seed,)))
    for index, weight in enumerate(weights):
        deviation = math.sqrt(weight * (1 - weight) / (4 * rounds))
        assert abs(copies[index] / (4 * rounds) - weight) < 4 * deviation


@pytest.mark.parametrize(("weights", "kept"), [((0.49, 0.49, 0.01, 0.01), True), ((0.6, 0.398, 0.001, 0.001), False)])
def test_resampling_systematic_waits_until_the_effective_size_is_below_half(weights, kept):
    """Of four, 1 / Σ w² is 2.08 and 1.93."""
    rewards = [math.log(weight) for weight in weights]
    ancestors, size, _ = Resampling(scheme="systematic").resample(rewards, (0,))
    assert (size >= 2) == kept
    assert (ancestors == [0, 1, 2, 3]) == kept
    assert Resampling().resample(rewards, (0,))[0] != [0, 1, 2, 3], "multinomial in every round"


def test_resampling_systematic_carries_the_weights_of_a_round_that_it_leaves_as_it_is():
    """Two rounds of (0.5, 0.3, 0.15, 0.05) are one of (100, 36, 9, 1) / 146, whose effective size is below two."""
    rewards = [math.log(weight) for weight in (0.5, 0.3, 0.15, 0.05)]
    resampling = Resampling(scheme="systematic")
    _, _, first = resampling.resample(rewards, (0,))
    assert first == pytest.approx([0.5, 0.3, 0.15, 0.05])
    _, size, second = resampling.resample(rewards, (1,), first)
    assert size == pytest.approx(146**2 / (100**2 + 36**2 + 9**2 + 1))
    assert second is None, "resampled, and equal from now on"
