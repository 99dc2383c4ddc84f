"""Weights of weighted Best-of-N by hand."""

import math

import pytest

from tokur_cli.selection.weights import weigh


def test_weigh_exp_is_the_likelihood_relative_to_the_best():
    assert weigh([-1.0, -2.5, -1000.0], "exp") == pytest.approx([1.0, math.exp(-1.5), 0.0])


def test_weigh_rank_counts_down_to_one_and_equals_share_the_mean():
    assert weigh([3.0, 2.0, 1.0], "rank") == [3, 2, 1]
    assert weigh([5.0, 4.0, 4.0, 4.0, 1.0], "rank") == [5, 3, 3, 3, 1]
