"""Steps in the views: what they sum to, and which is the least sure; the least sure tokens."""

import pytest

from tests.views.heatmap import view_samples
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.views.heatmap.cells import cells_of
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.steps import doubtful_step, steps_of
from tokur_cli.views.heatmap.unsure import context, most_unsure


def response_of(text, spans, values, name="eu"):
    steps = view_samples.steps(text, spans)
    return HeatmapResponse(id="1", response=text, spans=spans, values={name: values}, steps=steps)


def steps_by(response, quantity):
    return steps_of(response.steps, response.values[quantity.name], quantity)


def test_sums_and_means_by_hand():
    text = "So a. Then b."
    spans = [(0, 2), (2, 4), (4, 5), (5, 10), (10, 12), (12, 13), (13, 13)]
    values = [0.1, 0.2, 0.3, 1.0, None, 2.0, 4.0]
    first, second = steps_by(response_of(text, spans, values), view_samples.EU)
    assert (list(first.tokens), list(second.tokens)) == ([0, 1, 2], [3, 4, 5, 6])  # " Then" begins the second step
    assert (first.total, first.mean) == (pytest.approx(0.6), pytest.approx(0.2))
    assert (second.total, second.mean) == (pytest.approx(7.0), pytest.approx(7 / 3))
    assert doubtful_step([first, second]) == 1


def test_a_step_without_values_has_no_sum():
    (step,) = steps_by(response_of("a", [(0, 1)], [None]), view_samples.EU)
    assert (step.total, step.mean) == (None, None)
    assert doubtful_step([step]) is None


LONG_AND_SHORT = "a b c d. e f.", [(0, 1), (1, 3), (3, 5), (5, 8), (8, 10), (10, 13)]


def test_the_least_sure_step_of_log_probabilities_has_the_lowest_sum_as_their_sum_falls_with_each_token():
    steps = steps_by(response_of(*LONG_AND_SHORT, [-1.0] * 4 + [-1.5] * 2, "logprob"), view_samples.LOGPROB)
    assert [(step.total, step.mean, step.doubt) for step in steps] == [(-4.0, -1.0, 4.0), (-3.0, -1.5, 3.0)]
    assert doubtful_step(steps) == 0


def test_the_least_sure_step_of_a_confidence_has_the_lowest_mean_as_its_sum_grows_with_each_token():
    steps = steps_by(response_of(*LONG_AND_SHORT, [1.0] * 4 + [1.5] * 2, "deepconf"), view_samples.DEEPCONF)
    assert [(step.total, step.mean, step.doubt) for step in steps] == [(4.0, 1.0, -1.0), (3.0, 1.5, -1.5)]
    assert doubtful_step(steps) == 0


def test_only_what_grows_with_confidence_is_compared_by_its_mean():
    by_mean = [name for name, quantity in QUANTITIES.items() if quantity.aggregate == "mean"]
    assert by_mean == ["self_certainty", "deepconf"]


def test_the_least_sure_tokens_come_first_and_earlier_ones_before_even_ones():
    response = response_of("abcde", [(i, i + 1) for i in range(5)], [0.2, 0.9, None, 0.9, 0.1])
    cells = cells_of(response.response, response.spans)
    assert [found.token for found in most_unsure(response, cells, view_samples.EU, 3)] == [1, 3, 0]


def test_a_token_in_two_cells_is_listed_once():
    response = response_of("the\u0301 x", [(0, 3), (3, 6)], [0.1, 0.9])
    cells = cells_of(response.response, response.spans)
    found = most_unsure(response, cells, view_samples.EU, 5)
    assert [(item.token, cells[item.cell].text) for item in found] == [(1, "e\u0301"), (0, "th")]


def test_the_context_fits_and_shows_newlines():
    cells = cells_of("one\ntwo three four", [(0, 4), (4, 7), (7, 13), (13, 18)])
    assert context(cells, 1, 40) == ("one↵", "two", " three four")
    before, middle, behind = context(cells, 2, 16)
    assert len(before + middle + behind) <= 16
    assert middle == " three"


def test_the_wrong_sample_is_least_sure_where_it_goes_wrong():
    response = view_samples.wrong()
    steps = steps_by(response, view_samples.EU)
    worst = steps[doubtful_step(steps)]
    assert "7,200 - 9,600" in response.response[worst.start : worst.end]
