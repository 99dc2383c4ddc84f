"""The search for the largest strength, on functions whose answer is known."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokur_cli.engine.posterior.calibration import PRECISION, SWEEPS, largest_sigma
from tokur_cli.records.errors import TokurError


def counted(function):
    calls = []

    def call(sigma):
        calls.append(sigma)
        return function(sigma)

    return call, calls


@given(
    scale=st.floats(1e-3, 1e3),
    power=st.floats(1.5, 3.0),
    ceiling=st.floats(1.0, 10.0),
    tolerance=st.floats(0.005, 0.3),
)
def test_finds_the_answer_from_below_in_under_ten_sweeps(scale, power, ceiling, tolerance):
    """A divergence that grows as a power and levels off, as a language model's does."""
    divergence, calls = counted(lambda sigma: ceiling * -math.expm1(-((sigma / scale) ** power) / ceiling))
    exact = scale * (-ceiling * math.log1p(-tolerance / ceiling)) ** (1 / power)
    found = largest_sigma(divergence, tolerance)
    assert exact / (PRECISION * 1.05) <= found <= exact
    assert len(calls) <= SWEEPS < 10
    assert found in calls


def test_a_step_in_the_divergence_is_approached_from_below():
    divergence, calls = counted(lambda sigma: 0.01 * sigma**2 if sigma < 0.2 else 5.0)
    assert 0.1 < largest_sigma(divergence, 0.05) < 0.2
    assert len(calls) <= SWEEPS


def test_numbers_that_overflow_count_as_too_large():
    assert largest_sigma(lambda sigma: math.nan if sigma > 0.01 else sigma, 0.005, start=1.0) <= 0.005


def test_a_model_that_never_or_always_moves_too_far_is_said():
    with pytest.raises(TokurError, match="even σ = "):
        largest_sigma(lambda sigma: 1.0, 0.05)
    with pytest.raises(TokurError, match="hardly matter"):
        largest_sigma(lambda sigma: 0.0, 0.05)
