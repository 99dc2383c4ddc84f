"""Certified thresholds: exact binomial tails as the oracle of the tests, and simulation as that of the guarantee."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom

from tokur_cli.metrics.certification import certify, fewest, sequences, upper_bound

REPETITIONS = 1000


def noise(doubt):
    """What chance may add to the violations of a guarantee that is kept exactly, in 1,000 repetitions."""
    return binom.ppf(0.9999, REPETITIONS, doubt) / REPETITIONS


def test_without_an_error_59_questions_certify_5_percent():
    target = (0.05, 0.05)
    assert fewest(0.05, 0.05) == 59
    assert 0.95**59 <= 0.05 < 0.95**58
    right = np.zeros(59, dtype=bool)
    scores, tie_breaks = np.arange(59.0), np.linspace(0, 0.99, 59)
    assert certify(scores, tie_breaks, right, *target).size == 59
    assert certify(scores[:58], tie_breaks[:58], right[:58], *target) is None
    wrong = right.copy()
    wrong[3] = True
    assert certify(scores, tie_breaks, wrong, *target) is None


@settings(max_examples=40)
@given(st.integers(1, 2000), st.sampled_from([0.01, 0.05, 0.2, 0.6, 0.97]), st.sampled_from([0.01, 0.05, 0.3]))
def test_every_test_allows_as_many_errors_as_its_level_does(count, risk, doubt):
    found = sequences(count, risk, doubt)
    assert bool(found) == (count >= fewest(risk, doubt))
    for sizes, errors in found:
        level = doubt / len(found)
        assert (np.diff(sizes) > 0).all()
        assert sizes[-1] == count
        assert (binom.cdf(errors, sizes, risk) <= level * (1 + 1e-9)).all()
        assert (binom.cdf(errors + 1, sizes, risk) > level).all()
        assert (binom.cdf(errors[:-1], sizes[:-1] - 1, risk) > level).all()  # each size is the first


@pytest.mark.parametrize(("errors", "size"), [(0, 1), (1, 1), (3, 7), (7, 7), (42, 100)])
def test_upper_bound_is_clopper_and_pearsons(errors, size):
    bound = upper_bound(errors, size, 0.025)
    assert binom.cdf(errors, size, bound) == pytest.approx(0.025 if errors < size else 1)


def test_a_sequence_is_walked_as_by_hand():
    """With 5 % and 95 % one error is allowed from 93 responses on, two from 124: the third error ends it at 124."""
    wrong = np.zeros(150, dtype=bool)
    wrong[[70, 100, 130, 131]] = True
    found = certify(-np.arange(150.0), np.zeros(150), wrong, 0.05, 0.05)
    assert (found.size, found.errors, found.next) == (124, 2, 124)
    assert found.bound == pytest.approx(beta.ppf(0.95, 3, 122))


def test_an_early_error_ends_only_the_sequence_that_begins_early():
    wrong = np.zeros(1000, dtype=bool)
    wrong[5] = True
    assert [int(sizes[0]) for sizes, _ in sequences(1000, 0.05, 0.05)] == [72, 312]
    wrong[999] = True
    found = certify(-np.arange(1000.0), np.zeros(1000), wrong, 0.05, 0.05)
    assert (found.size, found.errors, found.next) == (1000, 2, None)
    assert found.bound == pytest.approx(beta.ppf(1 - 0.05 / 2, 3, 998))  # the two sequences share the doubt


def logistic(values):
    return 1 / (1 + np.exp(-values))


def an_atom_of_errors(u):
    """A third of the questions share one score, and nearly all errors are there."""
    inside = (u > 0.2) & (u < 0.53)
    return np.where(inside, 0.2, u), np.where(inside, 0.28, np.where(u <= 0.2, 0.03, 0.01))


HOSTILE = {  # from a uniform number to an uncertainty and the probability of being incorrect
    "well behaved": lambda u: (u, logistic(-5 + 6 * u)),
    "reversed": lambda u: (u, logistic(-1 - 4 * u)),
    "ties": lambda u: (np.floor(5 * u), 0.02 + 0.16 * (np.floor(5 * u) / 5)),
    "constant": lambda u: (np.zeros_like(u), np.full_like(u, 0.102)),
    "rare": lambda u: (u, np.full_like(u, 0.01)),
    "just above": lambda u: (u, np.full_like(u, 0.1000001)),
    "to and fro": lambda u: (u, 0.1 + 0.09 * np.sin(2 * np.pi * (14 * u + 0.25))),  # crosses 10 % many times
    "a bad beginning": lambda u: (u, np.where(u < 0.05, 0.6, 0.001)),
    "an atom of errors": an_atom_of_errors,
}


@pytest.mark.parametrize("count", [60, 300, 1500])
@pytest.mark.parametrize("name", HOSTILE)
def test_more_than_the_promised_part_is_wrong_in_at_most_the_promised_part_of_repetitions(name, count):
    """The true risk is computed of the whole population, on a fine grid of doubts and tie_breaks."""
    world, generator = HOSTILE[name], np.random.default_rng(count)
    alpha = delta = 0.1
    places = (np.arange(20_000) + 0.5) / 20_000
    scores, risk = world(places)
    tie_breaks = np.random.default_rng(1).permutation(places)
    order = np.lexsort((-tie_breaks, scores))
    scores, tie_breaks, total = scores[order], tie_breaks[order], np.cumsum(risk[order])
    violations = certified = 0
    for _ in range(REPETITIONS):
        u, tie_break = generator.random(count), generator.random(count)
        doubt, p = world(u)
        found = certify(-doubt, tie_break, generator.random(count) < p, alpha, delta)
        if found is None:
            continue
        certified += 1
        if found.next is None:
            above = len(places)
        else:
            begin, end = np.searchsorted(scores, doubt[found.next]), np.searchsorted(scores, doubt[found.next], "right")
            above = begin + np.searchsorted(-tie_breaks[begin:end], -tie_break[found.next])
        violations += above > 0 and total[above - 1] / above > alpha + 1e-3 * (name != "just above")
    assert violations / REPETITIONS <= noise(delta)
    if name == "rare":
        assert certified > 0.8 * REPETITIONS
    if name == "well behaved" and count == 1500:
        assert certified == REPETITIONS
