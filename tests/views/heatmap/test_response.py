"""Where a response is least certain: its tokens, the text around them, and its steps."""

from tests.views.heatmap import view_samples
from tokur_cli.views.heatmap.cells import cells_of
from tokur_cli.views.heatmap.response import HeatmapResponse, Step, Sums, context, least_certain


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
        (view_samples.EU, ((0.4, 0.1), (0.3, 0.15), (None, None)), 0),
        (view_samples.LOGPROB, ((-4.0, -1.0), (-3.0, -1.5)), 0),
        (view_samples.DEEPCONF, ((4.0, 1.5), (5.0, 1.0)), 1),
        (view_samples.EU, ((None, None),), None),
    ):
        steps = [Step(0, 1, range(1), {quantity.name: Sums(*pair)}) for pair in pairs]
        assert HeatmapResponse("1", "a", [(0, 1)], {}, steps=steps).least_certain_step(quantity) == least
