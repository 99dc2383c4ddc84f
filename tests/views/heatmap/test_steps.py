"""Reasoning steps: where they begin, what they sum to, and which is the least sure."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views.heatmap import view_samples
from tokur_cli.views.heatmap.cells import cells_of
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.steps import doubtful_step, step_spans, steps_of
from tokur_cli.views.heatmap.unsure import context, most_unsure


def pieces(text):
    return [text[start:end] for start, end in step_spans(text)]


def response_of(text, spans, values, name="eu"):
    return HeatmapResponse(id="1", response=text, spans=spans, values={name: values})


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("## Step 1: a\nb\n\n## Step 2: c", ["## Step 1: a\nb\n\n", "## Step 2: c"]),
        ("We go.\n## Step 1\nx. y.\n## Step 2\nz", ["We go.\n", "## Step 1\nx. y.\n", "## Step 2\nz"]),
        ("**Step 1:** a\n**Step 2:** b", ["**Step 1:** a\n", "**Step 2:** b"]),
        ("Step 1: a\nstep 2: b", ["Step 1: a\n", "step 2: b"]),
        ("First:\n1. a. b\n2. c", ["First:\n", "1. a. b\n", "2. c"]),
        ("(1) a\n(2) b", ["(1) a\n", "(2) b"]),
        ("It is 3.14 tons. So 2 * 3.14 = 6.28. Done!", ["It is 3.14 tons. ", "So 2 * 3.14 = 6.28. ", "Done!"]),
        ("a line\nanother line", ["a line\n", "another line"]),
        ('He said "yes." Then, e.g. this. It\'s 5!', ['He said "yes." ', "Then, e.g. this. ", "It's 5!"]),
        ("二倍。だから六。", ["二倍。", "だから六。"]),
        ("## Only one heading. Two sentences.", ["## Only one heading. ", "Two sentences."]),
        ("# comment\nx = 1\n# more\ny = 2", ["# comment\n", "x = 1\n", "# more\n", "y = 2"]),
        ("one", ["one"]),
        ("", [""]),
        ("\n\n## Step 1\na\n## Step 2\nb", ["\n\n## Step 1\na\n", "## Step 2\nb"]),
    ],
)
def test_where_steps_begin(text, steps):
    assert pieces(text) == steps


@given(st.text(alphabet="ab1.)#\n *Step 。!") | st.text())
def test_steps_join_to_the_response(text):
    assert "".join(pieces(text)) == text


@given(st.text(alphabet="ab1.# \n", max_size=60), st.data())
def test_every_token_counts_once(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    spans = list(pairwise(cuts))
    steps = steps_of(response_of(text, spans, [1.0] * len(spans)), view_samples.EU)
    assert sum(step.total or 0.0 for step in steps) == len(spans)
    assert [token for step in steps for token in step.tokens] == list(range(len(spans)))


def test_sums_and_means_by_hand():
    text = "So a. Then b."
    spans = [(0, 2), (2, 4), (4, 5), (5, 10), (10, 12), (12, 13), (13, 13)]
    values = [0.1, 0.2, 0.3, 1.0, None, 2.0, 4.0]
    first, second = steps_of(response_of(text, spans, values), view_samples.EU)
    assert (list(first.tokens), list(second.tokens)) == ([0, 1, 2], [3, 4, 5, 6])  # " Then" begins the second step
    assert (first.total, first.mean) == (pytest.approx(0.6), pytest.approx(0.2))
    assert (second.total, second.mean) == (pytest.approx(7.0), pytest.approx(7 / 3))
    assert doubtful_step([first, second], view_samples.EU) == 1


def test_a_step_without_values_has_no_sum():
    (step,) = steps_of(response_of("a", [(0, 1)], [None]), view_samples.EU)
    assert (step.total, step.mean) == (None, None)
    assert doubtful_step([step], view_samples.EU) is None


def test_the_least_sure_step_of_a_confidence_has_the_lowest_mean_not_the_lowest_sum():
    text = "a b c d. e f."
    spans = [(0, 1), (1, 3), (3, 5), (5, 8), (8, 10), (10, 13)]
    steps = steps_of(response_of(text, spans, [-1.0, -1.0, -1.0, -1.0, -1.5, -1.5], "logprob"), view_samples.LOGPROB)
    assert [step.total for step in steps] == [-4.0, -3.0]
    assert doubtful_step(steps, view_samples.LOGPROB) == 1


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
    steps = steps_of(response, view_samples.EU)
    worst = steps[doubtful_step(steps, view_samples.EU)]
    assert "7,200 - 9,600" in response.response[worst.start : worst.end]
