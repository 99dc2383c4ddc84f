"""The page as text: self-contained, safe, and with the numbers of the records."""

import base64
import hashlib
import io
import json
import re
from html.parser import HTMLParser

import pytest

from tests.views.heatmap import view_samples
from tokur_cli.views.heatmap.cells import cells_of
from tokur_cli.views.heatmap.html import write_html
from tokur_cli.views.heatmap.response import least_certain


def page(responses, *names, **options):
    file = io.StringIO()
    write_html(file, iter(responses), view_samples.scales_of(responses, *names), **options)
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


def test_page_keeps_model_text_in_its_script_element_and_never_makes_markup_of_it():
    text = page([view_samples.hard()], "eu", title="</title><script>alert(2)</script>")
    elements = Reader(text).elements
    assert [tag for tag, _, _ in elements].count("script") == 2
    script = [content for tag, _, content in elements if tag == "script"][-1]
    assert not re.search(r"alert\(|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|fetch\(", script)
    head, tokens = data_of(text)[1:]
    assert head["question"] == "Is </script> harmless?"
    assert "</script><script>alert" in "".join(tokens["cells"])


def test_page_asks_for_nothing_and_runs_nothing_else():
    elements = Reader(page([view_samples.hard()], "eu")).elements
    assert not [tag for tag, attributes, _ in elements if {"src", "href", "onclick", "style"} & attributes.keys()]
    policy = next(a["content"] for _, a, _ in elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for name in ("script", "style"):
        content = [content for tag, _, content in elements if tag == name][-1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy


@pytest.mark.parametrize("make", [view_samples.wrong, view_samples.hard, view_samples.long])
def test_page_has_the_values_steps_and_least_certain_tokens_of_the_record(make):
    response, names = make(), ("eu", "logprob")
    scales = view_samples.scales_of([response], *names)
    header, head, tokens = data_of(page([response], *names))
    assert [quantity["name"] for quantity in header["quantities"]] == list(names)
    cells = cells_of(response.response, response.spans)
    for place, (scale, quantity) in enumerate(zip(scales, header["quantities"], strict=True)):
        values, decimals = list(response.values[quantity["name"]]), quantity["decimals"]
        shown = [value / 10**decimals for value in tokens["values"][place]]
        assert shown == pytest.approx(values, rel=0, abs=0.51 * 10**-decimals)
        marks = ["01234567abcdefgh"[scale.step(v) + 8 * bool(scale.beyond(v))]
                 for v in (cell.value(values, scale.quantity) for cell in cells)]  # fmt: skip
        assert tokens["marks"][place] == "".join(marks)
        top = least_certain(response, cells, scale.quantity, 5)
        assert tokens["top"][place] == [[one.cell, one.token] for one in top]
        assert head["uncertainties"][place] == pytest.approx(scale.quantity.uncertainty(sum(values)))
        assert tokens["least"][place] == response.least_certain_step(scale.quantity)
        sums = [scale.format(step.sums[scale.quantity.name].total) for step in response.steps]
        assert tokens["sums"][place] == sums
    assert (tokens["steps"][0][0], tokens["steps"][-1][1]) == (0, len(response.spans))
