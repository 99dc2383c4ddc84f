"""One scale for everything: where its ends come from, which step a value falls in, and colours that all can tell."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views.heatmap import view_samples
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.scale import Scale, ScaleBuilder
from tokur_cli.views.heatmap.style import BACKGROUNDS, INKS, STEPS

numbers = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=200)


def built(values, quantity=view_samples.EU, **ends):
    builder = ScaleBuilder([quantity])
    builder.add(HeatmapResponse("1", "", [(0, 0)] * len(values), {quantity.name: values}))
    return builder.scale(quantity.name, **ends)


@given(numbers, st.sampled_from([view_samples.EU, view_samples.LOGPROB]))
def test_scale_runs_from_the_most_certain_token_to_the_quantile_and_rises_with_doubt(values, quantity):
    uncertainties = np.sort([quantity.uncertainty(value) for value in values])
    true = [quantity.uncertainty(np.quantile(uncertainties, share, method="lower")) for share in (0, 0.99)]
    scale = built(values, quantity)
    assert [scale.certain, scale.uncertain] == true
    steps = [scale.step(value) for value in sorted(values, key=quantity.uncertainty)]
    assert steps == sorted(steps)


def test_scale_takes_given_ends_and_refuses_them_in_the_wrong_order():
    scale = built([0.1, 0.2, 0.3], low=0.0, high=2.0)
    assert (scale.certain, scale.uncertain, scale.origin) == (0.0, 2.0, "0 to 2 of 3 tokens")
    scale = built([-0.1, -0.2], view_samples.LOGPROB, low=-3.0)
    assert (scale.certain, scale.uncertain) == (-0.1, -3.0)
    for ends in ({"low": 9.0}, {"high": -1.0}):
        with pytest.raises(UsageError, match="--range: the scale of eu would run from"):
            built([0.1, 0.2], **ends)
    with pytest.raises(TokurError, match='no token has a value for "eu"'):
        built([None, None])


def test_scale_steps_are_eight_of_equal_width():
    scale = Scale(view_samples.EU, 0.0, 8.0, "")
    assert [scale.step(value) for value in (-1, 0, 0.99, 1, 3.5, 7, 7.99, 8, 9)] == [0, 0, 0, 1, 3, 7, 7, 7, 7]
    assert scale.edges == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    even = built([0.4, 0.4, None])
    assert [even.step(0.4), even.beyond(0.4), even.step(0.5), even.beyond(0.5)] == [0, 0, 7, 1]


@pytest.mark.parametrize(("uncertain", "shown"), [(8.0, "1.23"), (0.11, "1.235"), (0.01, "1.2346"), (0.0, "1.23")])
def test_scale_format_has_the_decimals_that_it_needs(uncertain, shown):
    assert Scale(view_samples.EU, 0.0, uncertain, "").format(1.23456) == shown
    assert Scale(view_samples.LOGPROB, 0.0, -1.0, "").format(-0.0001) == "0.00"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_differ_in_lightness_and_their_text_can_be_read(theme):
    """The contrast ratio of WCAG 2.2: 4.5 for text, and each step is told from the next by luminance alone."""

    def luminance(colour):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
                  for c in (value / 255 for value in bytes.fromhex(colour[1:]))]  # fmt: skip
        return float(np.dot((0.2126, 0.7152, 0.0722), linear)) + 0.05

    light = list(map(luminance, BACKGROUNDS[theme]))
    assert len(light) == STEPS == 8
    for back, ink in zip(light, map(luminance, INKS[theme]), strict=True):
        assert max(back, ink) / min(back, ink) >= 4.5
    assert all(max(pair) / min(pair) > 1.2 for pair in pairwise(light))
    assert light == sorted(light, reverse=theme == "light")
