"""The page as text: self-contained, safe, and with the numbers of the records."""

import base64
import hashlib
import io
import re

import pytest

from tests.helpers import page_data
from tests.views.heatmap import view_samples
from tokur_cli.views.heatmap.cells import cells_of
from tokur_cli.views.heatmap.html import write_html
from tokur_cli.views.heatmap.response import least_certain


def page(responses, *names, **options):
    file = io.StringIO()
    write_html(file, iter(responses), view_samples.scales_of(responses, *names), **options)
    return file.getvalue()


def test_page_keeps_model_text_in_its_data_asks_for_nothing_and_runs_nothing_else():
    text = page([view_samples.hard()], "eu", title="</title><script>alert(2)</script>")
    head, tokens = page_data(text)[1:]
    assert head["question"] == "Is </script> harmless?"
    assert "</script><script>alert" in "".join(tokens["cells"])
    style, script = (re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL) for name in ("style", "script"))
    assert (len(style), len(script), text.count("<script")) == (1, 1, 2)
    assert not re.search(r"alert\(|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|fetch\(", script[0])
    assert not re.search(r"<[^>]* (src|href|onclick|style)=", text.replace(script[0], ""))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for name, content in (("script", script[0]), ("style", style[0])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy


@pytest.mark.parametrize("make", [view_samples.wrong, view_samples.hard, view_samples.long])
def test_page_has_the_values_steps_and_least_certain_tokens_of_the_record(make):
    response, names = make(), ("eu", "logprob")
    scales = view_samples.scales_of([response], *names)
    header, head, tokens = page_data(page([response], *names))
    assert [quantity["name"] for quantity in header["quantities"]] == list(names)
    cells = cells_of(response.response, response.spans)
    for place, (scale, quantity) in enumerate(zip(scales, header["quantities"], strict=True)):
        values, decimals = list(response.values[quantity["name"]]), quantity["decimals"]
        shown = [value / 10**decimals for value in tokens["values"][place]]
        assert shown == pytest.approx(values, rel=0, abs=0.51 * 10**-decimals)
        steps = [scale.step(cell.value(response.values, scale.quantity)) for cell in cells]
        assert tokens["marks"][place] == "".join("a01234567h"[1 + step] for step in steps)
        assert tokens["top"][place] == list(map(list, least_certain(response, cells, scale.quantity, 5)))
        assert head["uncertainties"][place] == pytest.approx(-scale.quantity.sign * sum(values))
        assert tokens["least"][place] == response.least_certain_step(scale.quantity)
        sums = [scale.format(step.sums[scale.quantity.name]["sum"]) for step in response.steps]
        assert tokens["sums"][place] == sums
    assert (tokens["steps"][0][0], tokens["steps"][-1][1]) == (0, len(response.spans))
