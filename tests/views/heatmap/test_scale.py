"""One scale for everything: where its ends come from and which step a value falls in."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views.heatmap import view_samples
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.scale import QuantileSketch, Scale, ScaleBuilder

numbers = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=200)


def sketch_of(values):
    sketch = QuantileSketch()
    for value in values:
        sketch.add(value)
    return sketch


def built(values, quantity=view_samples.EU, **ends):
    builder = ScaleBuilder([quantity])
    spans = [(0, 0)] * len(values)
    builder.add(HeatmapResponse(id="1", response="", spans=spans, values={quantity.name: values}))
    return builder.scale(quantity.name, **ends)


@given(numbers, st.floats(0, 1))
def test_the_sketch_is_within_half_a_percent_of_the_quantile(values, share):
    true = sorted(values)[math.floor(share * (len(values) - 1))]
    assert sketch_of(values).quantile(share) == pytest.approx(true, rel=0.0051, abs=1e-9)


@given(numbers, st.randoms())
def test_the_sketch_does_not_depend_on_the_order(values, random):
    shuffled = random.sample(values, len(values))
    assert sketch_of(shuffled).quantile(0.99) == sketch_of(values).quantile(0.99)


def test_the_sketch_stays_small():
    sketch = sketch_of(np.random.default_rng(0).lognormal(0, 20, 100_000) * np.tile([1.0, -1.0], 50_000))
    assert len(sketch._bins) < 8_400
    assert (sketch.quantile(0), sketch.quantile(1)) == (sketch.minimum, sketch.maximum)


def test_the_default_scale_runs_from_the_surest_token_to_the_99th_percentile():
    values = [index / 1000 for index in range(1001)]
    scale = built(values)
    assert scale.sure == 0
    assert scale.unsure == pytest.approx(0.99, rel=0.005)
    assert scale.origin == "quantiles 0 to 0.99 of 1,001 tokens"


def test_a_confidence_has_its_unsure_end_at_its_low_values():
    scale = built([-index / 1000 for index in range(1001)], view_samples.LOGPROB)
    assert scale.sure == 0
    assert scale.unsure == pytest.approx(-0.99, rel=0.005)
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
