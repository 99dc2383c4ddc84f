"""What a few log-probabilities tell of a distribution, compared with whole distributions."""

import math

import numpy as np
import pytest

from tokur_cli.scores import bounds
from tokur_cli.scores.bounds import confidence, entropy_bounds


def entropy(probabilities):
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log(positive)).sum())


def distributions(count, size=300):
    rng = np.random.default_rng(0)
    for number in range(count):
        logits = rng.normal(scale=rng.choice([0.01, 1, 4, 12]), size=size)
        probabilities = np.exp(logits - logits.max())
        yield np.sort(probabilities / probabilities.sum())[::-1], number


@pytest.mark.parametrize("known", [0, 1, 2, 5, 20])
@pytest.mark.parametrize("with_other", [False, True])
def test_the_entropy_of_a_whole_distribution_is_within_the_bounds(known, with_other):
    rng = np.random.default_rng(known)
    for probabilities, _ in distributions(200):
        other = math.log(probabilities[rng.integers(known, len(probabilities))]) if with_other else None
        low, high = entropy_bounds(np.log(probabilities[:known]).tolist(), other)
        assert low <= entropy(probabilities) + 1e-9
        assert high >= entropy(probabilities) - 1e-9


@pytest.mark.parametrize("known", [1, 3, 8])
def test_no_completion_is_outside_the_bounds_and_two_reach_them(monkeypatch, known):
    """The rest as flat and as peaked as the largest unknown probability allows, in a vocabulary of 30."""
    monkeypatch.setattr(bounds, "VOCABULARY", 30)
    for probabilities, _ in distributions(100, size=30):
        head, rest, most = probabilities[:known], probabilities[known:].sum(), probabilities[known - 1]
        low, high = entropy_bounds(np.log(head).tolist())
        flat = np.concatenate([head, np.full(30 - known, rest / (30 - known))])
        peaked, left = list(head), rest
        while left > 0:
            peaked.append(min(left, most))
            left -= peaked[-1]
        assert high == pytest.approx(entropy(flat), abs=1e-9)
        assert low == pytest.approx(entropy(np.array(peaked)), abs=1e-9)
        for mixing in np.linspace(0, 1, 7):
            padded = np.pad(np.array(peaked[:30]), (0, max(0, 30 - len(peaked))))
            assert low - 1e-9 <= entropy(mixing * flat + (1 - mixing) * padded) <= high + 1e-9


def test_what_is_known_whole_has_its_entropy():
    low, high = entropy_bounds([math.log(0.75), math.log(0.25)])
    assert low == pytest.approx(entropy(np.array([0.75, 0.25])))
    assert high - low < 1e-9
    assert entropy_bounds([1e-6 - 1e-6]) == (0.0, 0.0)


@pytest.mark.parametrize("tokens", [1, 2, 4])
def test_the_lowest_entropy_is_that_of_equal_tokens_where_they_fill_the_whole(tokens):
    """One of them known, or none of a single one."""
    low, _ = entropy_bounds([-math.log(tokens)] if tokens > 1 else [])
    assert low == pytest.approx(math.log(tokens), abs=1e-12)


def test_rounded_probabilities_of_more_than_one_leave_no_rest():
    low, high = entropy_bounds([math.log(0.6), math.log(0.400001)])
    assert low == high == pytest.approx(entropy(np.array([0.6, 0.4])), abs=1e-5)


def test_the_confidence_is_of_the_twenty_largest_or_unknown():
    values = np.log(next(distributions(1))[0])
    assert confidence(values[:25].tolist()) == pytest.approx(-values[:20].mean())
    assert confidence(values[:20].tolist()) == pytest.approx(-values[:20].mean())
    assert math.isnan(confidence(values[:19].tolist()))
