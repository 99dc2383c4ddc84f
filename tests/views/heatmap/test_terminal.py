"""Heat maps on the terminal, against recorded output at fixed widths and colours.

The files in ``golden/`` hold the output as written, escape codes included (``less -R`` shows it). After a change that
is meant, record them again and read the difference:

    TOKUR_RECORD_GOLDEN=1 python -m pytest tests/views/heatmap/test_terminal.py && git diff tests/views
"""

import io
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from wcwidth import wcswidth

from tests.views.heatmap import view_samples
from tokur_cli.views.heatmap.response import Alternatives, HeatmapResponse
from tokur_cli.views.heatmap.scale import Scale
from tokur_cli.views.heatmap.style import TerminalStyle
from tokur_cli.views.heatmap.terminal import compare_view, legend, response_view

GOLDEN = Path(__file__).parent / "golden"
SGR = re.compile(r"\x1b\[[0-9;]*m")


def written(parts, style, *, styles=True):
    system = "truecolor" if style.painted else None
    console = Console(file=io.StringIO(), width=style.width, color_system=system, force_terminal=True, markup=False,
                      emoji=False, highlight=False)  # fmt: skip
    for part in parts:
        console.print(part, crop=False)
    text = console.file.getvalue()
    return text if styles else "\n".join(line.rstrip() for line in SGR.sub("", text).split("\n"))


CASES = {
    "incorrect-truecolor-80": ("incorrect", TerminalStyle(80)),
    "hard-none-60": ("hard", TerminalStyle(60, painted=False)),
    "compare-none-120": ("compare", TerminalStyle(120, painted=False)),
}


@pytest.mark.parametrize("name", CASES)
def test_terminal_output_is_as_recorded(name):
    sample, style = CASES[name]
    pair = [view_samples.right(), view_samples.wrong()]
    responses = [view_samples.hard()] if sample == "hard" else pair
    used = view_samples.scales_of(responses, "eu")
    view = compare_view(*pair, used, style) if sample == "compare" else response_view(responses[-1], used, style)
    output = written([legend(used, style), view], style)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TOKUR_RECORD_GOLDEN"):
        path.write_bytes(output.encode())
    assert output == path.read_bytes().decode()


@pytest.mark.parametrize("width", [40, 57, 80, 92, 130])
@pytest.mark.parametrize("names", [("eu",), ("eu", "entropy")])
def test_terminal_lines_keep_to_the_width_and_hold_no_control_code(names, width):
    pair = [view_samples.hard(), view_samples.wrong()]
    used = view_samples.scales_of(pair, *names)
    for detail in (False, True):
        style = TerminalStyle(width, detail=detail)
        views = [
            legend(used, style),
            *(response_view(one, used, style) for one in pair),
            compare_view(*pair, used, style),
        ]
        text = written(views, style, styles=False)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]", text)
        assert "[bold]" in text
        assert max(wcswidth(line) for line in text.split("\n")) <= width


def test_terminal_paints_the_response_whole():
    response, style = view_samples.wrong(), TerminalStyle(100)
    lines = written([response_view(response, view_samples.scales_of([response], "eu"), style)], style).split("\n")
    lines = [SGR.sub("", line) for line in lines]
    end = next(index for index, line in enumerate(lines) if line.startswith("answer 2 · reference 10"))
    assert "".join(lines[lines.index("") + 1 : end]) == response.response.replace("\n", "↵") + "∎"
    response = view_samples.long(10_000)
    text = written([response_view(response, view_samples.scales_of([response], "eu"), style)], style, styles=False)
    assert text.count("which we halve.↵") >= response.response.count("which we halve.\n")
    assert "more certain steps" in text


def test_terminal_bars_stand_under_their_tokens_and_off_the_scale_is_marked():
    spans = [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6)]
    response = HeatmapResponse("1", "日a b c", spans, {"eu": [0.0, 7.9, None, 9.0, -1.0]})
    style = TerminalStyle(40, painted=False)
    scale = [Scale(view_samples.EU, 0.0, 8.0, "")]
    lines = written([response_view(response, scale, style)], style, styles=False).split("\n")
    assert lines[lines.index("日a b c") + 1] == "▁▁█·▲▲▽"
    output = written([response_view(response, scale, TerminalStyle(40))], TerminalStyle(40))
    assert re.search(r"\x1b\[1;4;38;[\d;]+mb \x1b\[0m", output)


def test_terminal_shows_what_else_might_have_been_written_and_all_scores_in_detail():
    response = view_samples.wrong()
    token = response.values["eu"].index(max(response.values["eu"]))
    known = {token: Alternatives(token, (" 6", " 12", ",", "\n"), (0.404, 0.22, 0.1, 0.005), None, (" 6", " 2"))}
    response = replace(response, alternatives=known, scores={"eu": 1.75, "pe": 2.0, "ll": None})
    used = view_samples.scales_of([response], "eu")
    assert "40 % 6  22 % 12  10 % ,  draws: 6 2\n" in written(
        [response_view(response, used, TerminalStyle(100))], TerminalStyle(100), styles=False
    )
    detail = TerminalStyle(60, detail=True)
    text = written([response_view(response, used, detail)], detail, styles=False)
    assert "40 % 6  22 % 12 …\n" in text
    assert "pe 2" in text
    assert "1 score not known" in text
