"""The wrong span among the spans of its response: against counting by hand, one response at a time."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tokur_cli.metrics.evaluation import Plan, evaluate_scores

SPAN = st.tuples(st.sampled_from([0.0, 1.0, 2.0, 3.0, math.nan]), st.sampled_from([0.0, 1.0, math.nan]))


def hit(spans, most):
    """The share of all orders of the spans, least confident first, that have the first wrong one among the K first."""
    wrong = next(place for place, (_, label) in enumerate(spans) if label == 0)
    if math.isnan(spans[wrong][0]):
        return 0.0
    held = [place for place, (confidence, _) in enumerate(spans) if not math.isnan(confidence)]
    orders = [
        order
        for order in itertools.permutations(held)
        if all(spans[a][0] <= spans[b][0] for a, b in itertools.pairwise(order))
    ]
    return sum(wrong in order[:most] for order in orders) / len(orders)


@given(st.lists(st.lists(SPAN, min_size=1, max_size=5), min_size=1, max_size=4))
def test_hits_are_those_of_all_orders_and_within_is_the_auroc_of_each_response(responses):
    confidence, label, response = zip(
        *[(*span, place) for place, spans in enumerate(responses) for span in spans], strict=True
    )
    plan = Plan(bootstrap=0)
    found = evaluate_scores({"eu": confidence}, label, plan, cluster=response, response=response)
    metrics = found.scores["eu"].metrics
    ranked = [spans for spans in responses if len(spans) > 1 and any(known == 0 for _, known in spans)]
    for metric, most in (("hit1", 1), ("hit3", 3)):
        expected = pytest.approx(np.mean([hit(spans, most) for spans in ranked])) if ranked else None
        assert metrics[metric].value == expected
    areas = []
    for spans in responses:
        held = [(value, known) for value, known in spans if not math.isnan(value) and not math.isnan(known)]
        if len({known for _, known in held}) == 2:
            areas.append(roc_auc_score([known for _, known in held], [value for value, _ in held]))
    assert metrics["within"].value == (pytest.approx(np.mean(areas)) if areas else None)
