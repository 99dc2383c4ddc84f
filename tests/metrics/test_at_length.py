"""AUROC at fixed length: against counting all pairs one by one, and what it does where only the length tells."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokur_cli.metrics.evaluation import Plan, evaluate_scores
from tokur_cli.metrics.ranking import length_strata

records = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1.0, 2.0, 3.0, math.nan]),  # confidence
        st.sampled_from([0.0, 1.0, math.nan]),  # label
        st.one_of(st.integers(1, 12).map(float), st.just(math.nan)),  # length
    ),
    min_size=1,
    max_size=40,
)


def fifth(length, lengths):
    """The fifth that a length is in: how many of the four bounds lie below it.

    A bound is the lowest length that at least one, two, three or four fifths of all do not exceed.
    """
    bounds = [
        min(bound for bound in lengths if 5 * sum(other <= bound for other in lengths) >= part * len(lengths))
        for part in range(1, 5)
    ]
    return sum(length > bound for bound in bounds)


def counted(confidence, label, stratum):
    """The share of the pairs of a right and a wrong record of one stratum in which the right one is more confident."""
    won = pairs = 0.0
    for c, y, s in zip(confidence, label, stratum, strict=True):
        for other_c, other_y, other_s in zip(confidence, label, stratum, strict=True):
            if y == 1 and other_y == 0 and s == other_s and s is not None:
                pairs += 1
                won += 1.0 if c > other_c else 0.5 if c == other_c else 0.0
    return won / pairs if pairs else None


@given(records)
def test_it_is_the_share_of_the_pairs_within_fifths_of_the_length(rows):
    confidence, label, length = zip(*rows, strict=True)
    found = evaluate_scores({"s": confidence}, label, Plan(bootstrap=0), length=length).scores["s"]
    lengths = [t for _, y, t in rows if not math.isnan(y) and not math.isnan(t)]
    held = [row for row in rows if not math.isnan(row[0]) and not math.isnan(row[1])]
    strata = [None if math.isnan(t) else fifth(t, lengths) for _, _, t in held]
    expected = counted([c for c, _, _ in held], [y for _, y, _ in held], strata)
    estimate = found.metrics["auroc_at_length"]
    assert estimate.value == (None if expected is None else pytest.approx(expected))
    assert (estimate.reason is None) == (expected is not None)


def test_records_of_one_length_are_in_one_stratum_and_the_strata_are_of_about_equal_size():
    generator = np.random.default_rng(0)
    length = generator.integers(1, 400, 1000).astype(float)
    stratum = length_strata(length)
    assert all(len(set(stratum[length == value])) == 1 for value in set(length))
    assert np.bincount(stratum) == pytest.approx(np.full(5, 200), abs=10)
    assert length_strata(np.array([math.nan, 3.0, math.inf])).tolist() == [-1, 0, -1]
    assert length_strata(np.full(9, 7.0)).tolist() == [0] * 9


@pytest.mark.parametrize(
    ("label", "length", "reason"),
    [
        ([1, 0, 1], [math.nan] * 3, "no record tells its length (neg_length)"),
        ([1, 1, 1], [3, 4, 5], "all 3 records have the label 1"),
        ([0.5, 0, 1], [3, 4, 5], "labels are graded, not correct or incorrect"),
        ([1, 0, 0], [3, 40, 50], "no two records of similar length are correct and incorrect"),
    ],
)
def test_where_it_is_not_defined_it_says_why(label, length, reason):
    found = evaluate_scores({"s": [1.0, 2.0, 3.0]}, label, Plan(bootstrap=20), length=length).scores["s"]
    assert (found.metrics["auroc_at_length"].value, found.metrics["auroc_at_length"].reason) == (None, reason)
    assert "auroc_at_length" not in evaluate_scores({"s": [1.0, 2.0, 3.0]}, label, Plan()).scores["s"].metrics
