"""The figure: well-formed, its text the terminal's, and nothing in it is loaded."""

import re
import xml.etree.ElementTree as ElementTree

from tests.views.heatmap import view_samples
from tokur_cli.views.heatmap.style import HEX_STEPS, TerminalStyle
from tokur_cli.views.heatmap.svg import svg_figure
from tokur_cli.views.heatmap.terminal import legend, response_view
from tokur_cli.views.visible import picture


def test_svg_figure_has_all_text_in_colours_and_loads_nothing():
    response = view_samples.hard()
    scales, style = view_samples.scales_of([response], "eu"), TerminalStyle(84, theme="light")
    svg = svg_figure([legend(scales, style), response_view(response, scales, style)], width=84)
    root = ElementTree.fromstring(svg)
    text = "".join("".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text"))
    words = re.split(r"[\s↵\u3000-\u30ff\uac00-\ud7a3⇥]+", picture(response.response))
    assert all(word in text for word in words if word.isascii() and len(word) < 20)
    assert {element.get("fill") for element in root.iter("{http://www.w3.org/2000/svg}rect")} >= set(
        HEX_STEPS["light"][1:4]
    )
    assert svg.count("http") == 1
    assert "url(http" not in svg
    assert "@" not in svg.split("</style>")[0]
