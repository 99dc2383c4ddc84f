"""One scale for everything: where its ends come from and which step a value falls in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views.heatmap import view_samples
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.scale import Scale, ScaleBuilder

numbers = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=200)


def built(values, quantity=view_samples.EU, **ends):
    builder = ScaleBuilder([quantity])
    spans = [(0, 0)] * len(values)
    builder.add(HeatmapResponse(id="1", response="", spans=spans, values={quantity.name: values}))
    return builder.scale(quantity.name, **ends)


@given(numbers, st.sampled_from([view_samples.EU, view_samples.LOGPROB]))
def test_the_ends_are_the_surest_token_and_the_quantile_in_doubt(values, quantity):
    doubts = np.sort([quantity.doubt(value) for value in values])
    true = [quantity.doubt(np.quantile(doubts, share, method="lower")) for share in (0, 0.99)]
    scale = built(values, quantity)
    assert [scale.sure, scale.unsure] == true


def test_a_scale_of_a_million_tokens_is_exact_and_takes_eight_bytes_each():
    values = np.random.default_rng(0).lognormal(0, 5, 1_000_000)
    builder = ScaleBuilder([view_samples.EU])
    for part in np.split(values, 100):
        builder.add(HeatmapResponse(id="1", response="", spans=[], values={"eu": part.tolist()}))
    scale = builder.scale("eu")
    assert (scale.sure, scale.unsure) == (values.min(), np.quantile(values, 0.99, method="lower"))
    assert sum(held.itemsize * len(held) for held in builder._values.values()) == 8_000_000


def test_the_default_scale_runs_from_the_surest_token_to_the_99th_percentile():
    values = [index / 1000 for index in range(1001)]
    scale = built(values)
    assert scale.sure == 0
    assert scale.unsure == 0.99
    assert scale.origin == "quantiles 0 to 0.99 of 1,001 tokens"


def test_a_confidence_has_its_unsure_end_at_its_low_values():
    scale = built([-index / 1000 for index in range(1001)], view_samples.LOGPROB)
    assert scale.sure == 0
    assert scale.unsure == -0.99
    assert [scale.step(value) for value in (0.0, -0.5, -0.98, -5.0)] == [0, 4, 7, 7]
    assert [scale.clipped(value) for value in (0.1, 0.0, -0.5, -5.0)] == [-1, 0, 0, 1]


def test_given_ends_are_used_and_named():
    scale = built([0.1, 0.2, 0.3], vmin=0.0, vmax=2.0)
    assert (scale.sure, scale.unsure, scale.origin) == (0.0, 2.0, "3 tokens · --vmin 0 · --vmax 2")
    scale = built([-0.1, -0.2], view_samples.LOGPROB, vmin=-3.0)
    assert (scale.sure, scale.unsure) == (-0.1, -3.0)
    assert scale.origin == "quantiles 0 to 0.99 of 2 tokens · --vmin -3"


@pytest.mark.parametrize(
    "ends", [{"vmin": 1.0, "vmax": 1.0}, {"vmin": 2.0, "vmax": 1.0}, {"vmin": 9.0}, {"vmax": -1.0}]
)
def test_ends_in_the_wrong_order_are_refused(ends):
    with pytest.raises(UsageError, match="--vmin must lie below --vmax"):
        built([0.1, 0.2], **ends)


def test_a_scale_of_nothing_is_refused():
    with pytest.raises(TokurError, match='no token has a value for "eu"'):
        built([None, None])


def test_equal_values_are_sure_and_on_the_scale():
    scale = built([0.4, 0.4, None])
    assert [scale.step(0.4), scale.clipped(0.4), scale.step(0.5), scale.clipped(0.5)] == [0, 0, 7, 1]


def test_the_steps_are_eight_of_equal_width():
    scale = Scale(view_samples.EU, 0.0, 8.0, "")
    assert [scale.step(value) for value in (-1, 0, 0.99, 1, 3.5, 7, 7.99, 8, 9)] == [0, 0, 0, 1, 3, 7, 7, 7, 7]
    assert scale.edges == [0, 1, 2, 3, 4, 5, 6, 7, 8]


@given(numbers, st.sampled_from([view_samples.EU, view_samples.LOGPROB]))
def test_less_sure_is_never_a_lower_step(values, quantity):
    scale = built(values, quantity)
    ordered = sorted(values, key=quantity.doubt)
    steps = [scale.step(value) for value in ordered]
    assert steps == sorted(steps)


@pytest.mark.parametrize(
    ("unsure", "shown"),
    [(8.0, "1.23"), (0.8, "1.23"), (0.11, "1.235"), (0.01, "1.2346"), (0.0, "1.23"), (900.0, "1.23")],
)
def test_numbers_have_the_decimals_that_the_scale_needs(unsure, shown):
    assert Scale(view_samples.EU, 0.0, unsure, "").format(1.23456) == shown


def test_zero_has_no_sign():
    assert Scale(view_samples.LOGPROB, 0.0, -1.0, "").format(-0.0001) == "0.00"


def test_the_scale_covers_all_responses_in_whatever_order():
    forward, backward = ScaleBuilder(view_samples.QUANTITIES), ScaleBuilder(view_samples.QUANTITIES)
    pair = [view_samples.right(), view_samples.wrong()]
    for response in pair:
        forward.add(response)
    for response in reversed(pair):
        backward.add(response)
    for quantity in view_samples.QUANTITIES:
        assert forward.scale(quantity.name) == backward.scale(quantity.name)
