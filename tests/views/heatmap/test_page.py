"""The page as text: self-contained, safe, and with the numbers of the records."""

import base64
import hashlib
import io
import json
import re
from html.parser import HTMLParser

import pytest

from tests.views.heatmap import view_samples
from tokur_cli.views.heatmap.html import write_html
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.scale import ScaleBuilder


def page(responses, *names, **options):
    builder = ScaleBuilder(view_samples.QUANTITIES)
    for response in responses:
        builder.add(response)
    file = io.StringIO()
    write_html(file, iter(responses), [builder.scale(name) for name in names], **options)
    return file.getvalue()


class Reader(HTMLParser):
    """Collects elements as a browser would see them: (tag, attributes, text)."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), ""])
        self.is_inside = True

    def handle_endtag(self, tag):
        self.is_inside = False

    def handle_data(self, data):
        if self.elements and self.is_inside:
            self.elements[-1][2] += data


def data_of(text):
    (data,) = (text for tag, attributes, text in Reader(text).elements if attributes.get("id") == "data")
    return [json.loads(line) for line in data.split("\n")]


def test_model_text_cannot_leave_its_script_element():
    text = page([view_samples.hard()], "eu", title="</title><script>alert(2)</script>")
    elements = Reader(text).elements
    assert [tag for tag, _, _ in elements].count("script") == 2
    assert "alert(" not in [content for tag, _, content in elements if tag == "script"][-1]
    head, tokens = data_of(text)[1:]
    assert head["question"] == "Is </script> harmless?"
    assert "</script><script>alert" in "".join(tokens["cells"])


def test_the_page_asks_for_nothing_and_runs_nothing_else():
    text = page([view_samples.hard()], "eu")
    elements = Reader(text).elements
    assert not [tag for tag, attributes, _ in elements if {"src", "href", "onclick", "style"} & attributes.keys()]
    policy = next(a["content"] for _, a, _ in elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for name in ("script", "style"):
        content = [content for tag, _, content in elements if tag == name][-1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy


def test_the_page_never_makes_markup_of_text():
    script = [content for tag, _, content in Reader(page([view_samples.right()], "eu")).elements if tag == "script"][-1]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|fetch\(|XMLHttp|import\(", script
    )


@pytest.mark.parametrize("make", [view_samples.wrong, view_samples.hard, view_samples.long])
def test_cells_and_values_are_those_of_the_record(make):
    response = make()
    names = ("eu", "logprob")
    header, head, tokens = data_of(page([response], *names))
    assert [quantity["name"] for quantity in header["quantities"]] == list(names)
    assert head["id"].startswith(response.id[:4])
    for quantity, values in zip(header["quantities"], tokens["values"], strict=True):
        shown = [value / 10 ** quantity["quantum"] for value in values]
        assert quantity["quantum"] >= 4
        assert shown == pytest.approx(
            list(response.values[quantity["name"]]), rel=0, abs=0.51 * 10 ** -quantity["quantum"]
        )
    if tokens["tokens"] is None:
        assert len(tokens["cells"]) == len(response.spans)
    else:
        assert {t for first, count in tokens["tokens"] for t in range(first, first + count)} == set(
            range(len(response.spans))
        )
    assert tokens["steps"][0][0] == 0
    assert tokens["steps"][-1][1] == len(response.spans)


def test_newlines_break_lines_and_tabs_are_wide():
    response = HeatmapResponse(
        id="1", response="a\n\tb", spans=[(0, 2), (2, 4)], values={n.name: [0.1, None] for n in view_samples.QUANTITIES}
    )
    tokens = data_of(page([response], "eu"))[2]
    assert tokens["cells"] == ["a↵\n", "⇥   b"]
    assert tokens["values"][0][1] is None


def test_a_value_at_the_end_of_the_scale_is_not_beyond_it_after_rounding():
    values = {quantity.name: [0.123456, 0.123456] for quantity in view_samples.QUANTITIES}
    response = HeatmapResponse(id="1", response="ab", spans=[(0, 1), (1, 2)], values=values)
    header, _, tokens = data_of(page([response], "eu"))
    assert header["quantities"][0]["ends"][1] == tokens["values"][0][0]
