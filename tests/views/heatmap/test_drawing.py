"""What a heat map draws: cells and their lines, one colour scale, and where a response is least certain."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views.heatmap import view_samples
from tokur_cli.records.errors import TokurError, UsageError
from tokur_cli.views.heatmap.cells import cells_of, wrap
from tokur_cli.views.heatmap.response import HeatmapResponse, Step, context, least_certain
from tokur_cli.views.heatmap.scale import Scale, ScaleBuilder
from tokur_cli.views.heatmap.style import BACKGROUNDS, INKS, STEPS

EXOTIC = [
    "\n", "\r\n", "\t", "\x1b[31m", "\x00", "\x9b", "é", "e\u0301", "\u0301", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪", "日本",
    "\u202e", "\u200b", "\u200d", "\ud800", "\ufeff", " ", "क्षि", "\u2028",
]  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(EXOTIC), st.text(max_size=4)), max_size=12).map("".join)


@st.composite
def responses(draw):
    """A text with spans as hostile as the contract allows: gaps, shared, overlapping and empty ones."""
    text = draw(texts)
    starts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    spans, last = [], 0
    for start in starts:
        last = draw(st.integers(max(start, last), min(len(text), max(start, last) + 6)))
        spans.append((start, last))
    return text, spans


@given(responses())
def test_cells_have_every_token_and_their_text_lies_in_its_tokens(response):
    text, spans = response
    cells = cells_of(text, spans)
    assert {token for cell in cells for token in cell.tokens} == set(range(len(spans)))
    at = 0
    for cell in cells:
        over = {t for t, (start, end) in enumerate(spans) if start < end and start < at + len(cell.text) and end > at}
        if cell.text:
            assert {t for t in cell.tokens if spans[t][0] < spans[t][1]} == over
        else:
            assert len(cell.tokens) == 1
            assert spans[cell.tokens[0]][0] == spans[cell.tokens[0]][1]
        at += len(cell.text)


@given(texts, st.integers(16, 60))
def test_wrap_gives_lines_that_join_to_what_is_shown_and_keep_to_the_width(text, width):
    cells = cells_of(text, [(index, index + 1) for index in range(len(text))])
    lines = wrap(cells, width)
    placed = [(index, glyph) for index, cell in enumerate(cells) for glyph in cell.glyphs]
    assert [one for line in lines for one in line] == placed
    assert all(sum(glyph.width for _, glyph in line) <= width for line in lines)


def test_cells_of_one_character_have_the_value_of_its_least_certain_token():
    cells = cells_of("x👍y", [(0, 1), (1, 2), (1, 2), (1, 2), (2, 3)])
    assert [(cell.text, list(cell.tokens)) for cell in cells] == [("x", [0]), ("👍", [1, 2, 3]), ("y", [4])]
    assert cells[1].value({"eu": [0.1, 0.2, None, 0.7, 0.1]}, view_samples.EU) == 0.7
    assert cells[1].value({"logprob": [-0.1, -0.2, None, -0.7, -0.1]}, view_samples.LOGPROB) == -0.7
    assert cells[1].value({"eu": [0.1, None, None, None, 0.1]}, view_samples.EU) is None


def test_cells_of_tokens_without_text_stand_where_these_are():
    cells = cells_of("ab", [(0, 0), (0, 1), (1, 1), (1, 1), (1, 2), (2, 2)])
    assert "".join(cell.shown for cell in cells) == "∎a∎∎b∎"
    assert [list(cell.tokens) for cell in cells] == [[0], [1], [2], [3], [4], [5]]


def test_wrap_breaks_behind_spaces_beside_wide_characters_and_at_newlines():
    text = "one two three four\nup aaaaaaaaaaaa\x9b\nfive日本語日本語日本語日本"
    lines = ["".join(glyph.shown for _, glyph in line) for line in wrap(cells_of(text, [(0, len(text))]), 16)]
    assert lines[:5] == ["one two three ", "four↵", "up ", "aaaaaaaaaaaa", "⟨U+009B⟩↵"]
    assert lines[5:] == ["five日本語日本語", "日本語日本"]


def test_least_certain_takes_the_earlier_of_equals_and_a_token_in_two_cells_once():
    response = HeatmapResponse("1", "abcde", [(i, i + 1) for i in range(5)], {"eu": [0.2, 0.9, None, 0.9, 0.1]})
    cells = cells_of(response.response, response.spans)
    assert [token for _, token in least_certain(response, cells, view_samples.EU, 3)] == [1, 3, 0]
    response = HeatmapResponse("1", "the\u0301 x", [(0, 3), (3, 6)], {"eu": [0.1, 0.9]})
    cells = cells_of(response.response, response.spans)
    found = least_certain(response, cells, view_samples.EU)
    assert [(token, cells[cell].text) for cell, token in found] == [(1, "e\u0301"), (0, "th")]


def test_context_fits_and_shows_newlines():
    cells = cells_of("one\ntwo three four", [(0, 4), (4, 7), (7, 13), (13, 18)])
    assert context(cells, 1, 40) == ("one↵", "two", " three four")
    before, middle, behind = context(cells, 2, 16)
    assert len(before + middle + behind) <= 16
    assert middle == " three"


def test_least_certain_step_goes_by_sums_where_tokens_add_up_and_else_by_means():
    """A confidence that grows with each token is compared by its mean; a step that lacks a value is not compared."""
    for quantity, pairs, least in (
        (view_samples.EU, ((0.4, 0.1), (0.3, 0.15), (math.nan, math.nan)), 0),
        (view_samples.LOGPROB, ((-4.0, -1.0), (-3.0, -1.5)), 0),
        (view_samples.DEEPCONF, ((4.0, 1.5), (5.0, 1.0)), 1),
        (view_samples.EU, ((math.nan, math.nan),), None),
    ):
        steps = [Step(0, 1, range(1), {quantity.name: dict(zip(("sum", "mean"), pair, strict=True))}) for pair in pairs]
        assert HeatmapResponse("1", "a", [(0, 1)], {}, steps=steps).least_certain_step(quantity) == least


numbers = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=200)


def built(values, quantity=view_samples.EU, **ends):
    builder = ScaleBuilder([quantity])
    builder.add(HeatmapResponse("1", "", [(0, 0)] * len(values), {quantity.name: values}))
    return builder.scale(quantity.name, **ends)


@given(numbers, st.sampled_from([view_samples.EU, view_samples.LOGPROB]))
def test_scale_runs_from_the_most_certain_token_to_the_quantile_and_rises_with_doubt(values, quantity):
    uncertainties = np.sort([-quantity.sign * value for value in values])
    true = [-quantity.sign * np.quantile(uncertainties, share, method="lower") for share in (0, 0.99)]
    scale = built(values, quantity)
    assert [scale.certain, scale.uncertain] == true
    steps = [scale.step(value) for value in sorted(values, key=lambda value: -quantity.sign * value)]
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
    assert [scale.step(value) for value in (-1, 0, 0.99, 1, 3.5, 7, 7.99, 8, 9)] == [-1, 0, 0, 1, 3, 7, 7, 7, 8]
    assert scale.edges == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    even = built([0.4, 0.4, None])
    assert [even.step(value) for value in (0.3, 0.4, 0.5)] == [-1, 0, 8]


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
