"""The figure: well-formed, its text the response's, its cells on a grid."""

import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from wcwidth import wcswidth

from tests.views.heatmap import view_samples
from tests.views.heatmap.test_colours import contrast, rgb_of
from tokur_cli.views.heatmap.colours import HEX_STEPS
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.scale import Scale, ScaleBuilder
from tokur_cli.views.heatmap.svg import svg_figure
from tokur_cli.views.visible import picture

SVG = "{http://www.w3.org/2000/svg}"
COLUMN = 7.8


def scales(responses, *names):
    builder = ScaleBuilder(view_samples.QUANTITIES)
    for response in responses:
        builder.add(response)
    return [builder.scale(name) for name in names]


def painted(root):
    """(text, x, y) of every piece of painted text, in the order of the file."""
    return [
        (span.text, float(span.get("x")), float(text.get("y")), span.get("text-anchor"))
        for text in root.iter(f"{SVG}text")
        if text.get("class") == "mono"
        for span in text
    ]


@pytest.mark.parametrize("make", [view_samples.right, view_samples.hard, view_samples.long])
def test_the_text_of_the_figure_is_the_response(make):
    response = make()
    root = ElementTree.fromstring(svg_figure([response], scales([response], "eu")))
    end = "∎" * sum(start == end for start, end in response.spans)
    assert "".join(text for text, *_ in painted(root)) == picture(response.response) + end


def test_every_piece_starts_in_its_column():
    response = view_samples.hard()
    root = ElementTree.fromstring(svg_figure([response], scales([response], "eu"), columns=40))
    at = {}
    for text, x, y, anchor in painted(root):
        columns = max(1, wcswidth(text))
        left = x - columns * COLUMN / 2 if anchor == "middle" else x
        assert left == pytest.approx(at.get(y, 16.0), abs=0.11)
        at[y] = left + columns * COLUMN
        assert at[y] <= 16 + 40 * COLUMN + 0.2


def test_text_on_every_background_can_be_read():
    response = view_samples.wrong()
    root = ElementTree.fromstring(svg_figure([response], scales([response], "eu")))
    elements = list(root)
    steps = [
        element
        for element in elements
        if element.tag == f"{SVG}rect" and element.get("fill") in HEX_STEPS["cividis"]["light"]
    ]
    assert len({element.get("fill") for element in steps}) == 8
    for back, text in pairwise(elements):
        if text.get("class") == "mono" and back.get("fill") in HEX_STEPS["cividis"]["light"]:
            assert contrast(rgb_of(back.get("fill")), rgb_of(text.get("fill"))) >= 4.5


def test_the_legend_names_quantity_unit_ends_and_origin():
    used = [Scale(view_samples.EU, 0.0, 0.8, "quantiles 0 to 0.99 of 9 tokens")]
    svg = svg_figure([HeatmapResponse(id="1", response="a", spans=[(0, 1)], values={"eu": [2.0]})], used)
    for words in (
        "eu, epistemic uncertainty (nats)",
        "sure",
        "unsure",
        "0.00",
        "0.80",
        "quantiles 0 to 0.99 of 9 tokens",
    ):
        assert f">{words}<" in svg
    assert "underlined: beyond an end" in svg
    assert "dotted" not in svg


def test_compared_responses_stand_side_by_side_on_one_scale():
    pair = [view_samples.right(), view_samples.wrong()]
    svg = svg_figure(pair, scales(pair, "eu"), compare=True, columns=60)
    root = ElementTree.fromstring(svg)
    assert float(root.get("width")) == pytest.approx(2 * 60 * COLUMN + 28 + 32, abs=1)
    assert svg.count("(nats)") == 1
    assert ">✓ right<" in svg
    assert ">✗ wrong<" in svg


def test_the_figure_loads_nothing():
    svg = svg_figure([view_samples.hard()], scales([view_samples.hard()], "eu"))
    root = ElementTree.fromstring(svg)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == {
        "svg",
        "title",
        "style",
        "rect",
        "text",
        "tspan",
    }
    assert "url(" not in svg
    assert svg.count("http") == 1
