"""Heat maps on the terminal, against recorded output at fixed widths and colours.

The files in ``golden/`` hold the output as written, escape codes included (``less -R`` shows it). After a change that
is meant, record them anew and read the difference:

    TOKUR_RECORD_GOLDEN=1 python -m pytest tests/views/heatmap/test_terminal.py && git diff tests/views/golden
"""

import io
import os
import re
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest
from wcwidth import iter_graphemes, wcswidth

from tests.views.heatmap import view_samples
from tokur_cli.views.heatmap.alternatives import Alternatives
from tokur_cli.views.heatmap.look import Look, has_steps, heatmap_console
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.scale import Scale, ScaleBuilder
from tokur_cli.views.heatmap.terminal import compare_view, legend, response_view

GOLDEN = Path(__file__).parent / "golden"
SGR = re.compile(r"\x1b\[[0-9;]*m")


def scales(responses, *names):
    builder = ScaleBuilder(view_samples.QUANTITIES)
    for response in responses:
        builder.add(response)
    return [builder.scale(name) for name in names]


TERMINALS = {
    "truecolor": {"TERM": "xterm-256color", "COLORTERM": "truecolor"},
    "256": {"TERM": "xterm-256color"},
    "16": {"TERM": "xterm"},
    "none": {"TERM": "dumb"},
}


def console_of(environ, is_terminal=True, color="auto"):
    with patch.dict(os.environ, environ):
        for name in {"TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR"} - environ.keys():
            os.environ.pop(name, None)
        return heatmap_console(io.StringIO(), is_terminal=is_terminal, color=color)


def looking(colours, **options):
    return Look(painted=has_steps(console_of(TERMINALS[colours])), **options)


def written(blocks, colours="truecolor"):
    console = console_of(TERMINALS[colours])
    for block in blocks:
        console.print(block)
    return console.file.getvalue()


def plain(blocks, colours="truecolor"):
    return SGR.sub("", written(blocks, colours))


CASES = {
    f"wrong-{colours}-{theme}-80": ("wrong", ("eu",), colours, {"theme": theme})
    for colours in ("truecolor", "256")
    for theme in ("dark", "light")
}
CASES |= {
    "wrong-16-80": ("wrong", ("eu",), "16", {}),
    "wrong-none-80": ("wrong", ("eu",), "none", {}),
    "wrong-none-40": ("wrong", ("logprob",), "none", {"width": 40}),
    "wrong-values-80": ("wrong", ("eu",), "none", {"marks": "values"}),
    "wrong-two-below-80": ("wrong", ("eu", "au"), "none", {}),
    "wrong-two-beside-120": ("wrong", ("eu", "au"), "truecolor", {"width": 120}),
    "hard-truecolor-60": ("hard", ("eu",), "truecolor", {"width": 60}),
    "hard-none-60": ("hard", ("eu",), "none", {"width": 60}),
    "compare-truecolor-120": ("compare", ("eu", "au"), "truecolor", {"width": 120}),
    "compare-none-120": ("compare", ("eu",), "none", {"width": 120}),
    "compare-narrow-60": ("compare", ("eu",), "none", {"width": 60}),
}


@pytest.mark.parametrize("name", CASES)
def test_output_is_as_recorded(name):
    sample, quantities, colours, options = CASES[name]
    look = looking(colours, **options)
    pair = [view_samples.right(), view_samples.wrong()]
    responses = [view_samples.hard()] if sample == "hard" else pair
    used = scales(responses, *quantities)
    view = compare_view(*pair, used, look) if sample == "compare" else response_view(responses[-1], used, look)
    output = written([legend(used, look), view], colours)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TOKUR_RECORD_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(output.encode())
    assert output == path.read_bytes().decode()


@pytest.mark.parametrize("marks", ["auto", "bars", "values"])
@pytest.mark.parametrize("colours", ["truecolor", "256", "16", "none"])
def test_hard_text_leaves_no_control_code_but_colours_and_no_line_too_long(colours, marks):
    look = looking(colours, width=50, marks=marks)
    used = scales([view_samples.hard()], "eu", "logprob")
    output = written([legend(used, look), response_view(view_samples.hard(), used, look)], colours)
    rest = SGR.sub("", output)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]", rest)
    assert "[bold]" in rest
    assert (":smile:" in rest) or look.drawn_marks == "values"  # values stand between its tokens
    assert all(wcswidth(line) <= 50 for line in rest.split("\n"))
    if colours == "none":
        assert "\x1b" not in output


@pytest.mark.parametrize("width", [1, 40, 41, 57, 80, 91, 92, 99, 130, 250])
@pytest.mark.parametrize("names", [("eu",), ("logprob",), ("eu", "entropy")])
def test_no_line_is_wider_than_the_terminal(names, width):
    look = Look(width=width)
    pair = [view_samples.hard(), view_samples.wrong()]
    used = scales(pair, *names)
    for block in (legend(used, look), *(response_view(r, used, look) for r in pair), compare_view(*pair, used, look)):
        assert block.width <= max(width, 40)
        for line in block.lines:
            assert line.width == sum(
                max(0, wcswidth(cluster)) for segment in line.segments for cluster in iter_graphemes(segment.text)
            )


@pytest.mark.parametrize("colours", ["truecolor", "none"])
def test_the_painted_text_is_the_response(colours):
    response = view_samples.wrong()
    look = looking(colours, width=100)
    lines = plain([response_view(response, scales([response], "eu"), look)], colours).split("\n")
    end = next(index for index, line in enumerate(lines) if line.startswith("answer -2400 · reference 2400"))
    painted = "".join(lines[lines.index("") + 1 : end])
    assert re.sub("[▁▂▃▄▅▆▇█▲▽]", "", painted) == response.response.replace("\n", "↵") + "∎"


def test_ten_thousand_tokens_are_drawn_whole():
    response = view_samples.long(10_000)
    look = Look(width=100)
    output = plain([response_view(response, scales([response], "eu"), look)])
    assert output.split("\ntoken ")[0].count("which we halve.↵") == response.response.count("which we halve.\n")
    assert "surer steps" in output


def test_bars_stand_under_their_tokens():
    spans = [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6)]
    response = HeatmapResponse(id="1", response="日a b c", spans=spans, values={"eu": [0.0, 7.9, None, 9.0, -1.0]})
    look = Look(width=40, painted=False)
    lines = plain([response_view(response, [Scale(view_samples.EU, 0.0, 8.0, "")], look)]).split("\n")
    at = lines.index("日a b c")
    assert lines[at + 1] == "▁▁█·▲▲▽ "[:7]


def test_values_stand_behind_their_tokens():
    response = HeatmapResponse(id="1", response="a b\n", spans=[(0, 1), (1, 4)], values={"eu": [0.25, None]})
    look = Look(width=40, painted=False, marks="values")
    lines = plain([response_view(response, [Scale(view_samples.EU, 0.0, 1.0, "")], look)]).split("\n")
    assert "a[0.25] b↵[·]" in lines


def test_beyond_the_scale_is_underlined_and_no_value_is_plain():
    response = HeatmapResponse(id="1", response="abc", spans=[(0, 1), (1, 2), (2, 3)], values={"eu": [0.5, 2.0, None]})
    look = Look(width=40)
    output = written([response_view(response, [Scale(view_samples.EU, 0.0, 1.0, "")], look)])
    assert re.search(r"\x1b\[38;[\d;]+ma\x1b\[0m\x1b\[1;4;38;[\d;]+mb\x1b\[0mc\n", output)


def test_one_value_has_one_colour_in_every_response():
    used = [Scale(view_samples.EU, 0.0, 1.0, "")]
    look = Look(width=40)
    alone = HeatmapResponse(id="1", response="a", spans=[(0, 1)], values={"eu": [0.5]})
    among = HeatmapResponse(id="2", response="ab", spans=[(0, 1), (1, 2)], values={"eu": [0.5, 99.0]})
    found = [re.search(r"\x1b\[([\d;]+)ma\x1b", written([response_view(r, used, look)])) for r in (alone, among)]
    assert found[0].group(1) == found[1].group(1)


@pytest.mark.parametrize(("correct", "words"), [(True, "✓ right"), (False, "✗ wrong"), (None, "")])
def test_right_and_wrong_are_words(correct, words):
    response = HeatmapResponse(id="1", response="a", spans=[(0, 1)], values={"eu": [0.5]}, correct=correct)
    look = Look(width=40, painted=False)
    heading = plain([response_view(response, [Scale(view_samples.EU, 0.0, 1.0, "")], look)]).split("\n")[0]
    assert heading.strip("─ ").removeprefix("1").strip("─ ") == words


@pytest.mark.parametrize(
    ("quantity", "words"),
    [(view_samples.LOGPROB, "by the sum of logprob"), (view_samples.DEEPCONF, "by the mean of deepconf")],
)
@pytest.mark.parametrize("width", [50, 100])
def test_the_heading_says_what_the_least_sure_step_has_most_of(quantity, words, width):
    text, spans = "So a b. Then b.", [(0, 5), (5, 7), (7, 15)]
    steps = view_samples.steps(text, spans)
    values = {quantity.name: [quantity.doubt(value) for value in (3.0, 3.0, 5.0)]}
    response = HeatmapResponse(id="1", response=text, spans=spans, values=values, steps=steps)
    look = Look(width=width, painted=False)
    used = [Scale(quantity, quantity.doubt(0.0), quantity.doubt(6.0), "")]
    lines = plain([response_view(response, used, look)]).split("\n")
    assert any(line.endswith(f"▶ the least sure {words}") for line in lines)
    worst = next(line for line in lines if re.match(r"▶ +\d", line))
    assert worst.endswith("Then b." if quantity.aggregate == "mean" else "So a b.")


@pytest.mark.parametrize(
    ("scores", "line"),
    [
        ({"eu": None, "ll": -0.5, "pe": None}, "2 scores not known"),
        ({"ll": -0.5, "pe": None}, "1 score not known"),
        ({"ll": -0.5}, None),
    ],
)
def test_scores_that_are_not_known_are_counted_and_not_listed(scores, line):
    response = HeatmapResponse(id="1", response="a", spans=[(0, 1)], values={"eu": [0.5]}, scores=scores)
    look = Look(width=40, painted=False, scores=True)
    lines = plain([response_view(response, [Scale(view_samples.EU, 0.0, 1.0, "")], look)]).split("\n")
    assert "ll -0.5" in lines
    assert "–" not in "".join(lines)
    assert [found for found in lines if "not known" in found] == ([line] if line else [])


def test_an_empty_response_is_drawn():
    response = HeatmapResponse(id="1", response="", spans=[], values={"eu": []})
    look = Look(width=40, painted=False)
    assert "0 tokens" in plain([response_view(response, [Scale(view_samples.EU, 0.0, 1.0, "")], look)])


SCALE = [Scale(view_samples.EU, 0.0, 0.2, "quantiles 0 to 0.99 of 23 tokens")]


def three_lines(**more):
    """A response of three lines with a question of two, in the colours of a terminal of 80 columns."""
    text = "Lena has 8 books and buys 2 more, so she has 8 + 2 = 10 books.\nThen 12.\nThe answer is 12."
    spans = [found.span() for found in re.finditer(r"\s?\S+", text)]
    question = (
        "Lena has 8 books and buys 2 more. How many books does Lena have in total, if she gives none of them away?"
    )
    scores = {"eu": 1.0, "eu_mean": 0.1, "au": 1.0, "tu": 2.0, "ll": -0.1, "ll_sum": -3.0, "p_correct": 0.25}
    ends = [0, *(place + 1 for place, sign in enumerate(text) if sign == "\n"), len(text)]
    steps = [((a, b), range(sum(s < a for s, _ in spans), sum(s < b for s, _ in spans))) for a, b in pairwise(ends)]
    values = {"eu": [0.01 * place for place in range(len(spans))]}
    return HeatmapResponse("q", text, spans, values, question=question, scores=scores, steps=steps, **more)


def test_a_short_response_fits_a_terminal_of_24_lines_with_one_legend_and_one_line_of_scores():
    response = three_lines()
    look = Look(width=80)
    output = plain([legend(SCALE, look), response_view(response, SCALE, look)])
    assert output.count("\n") <= 24
    assert output.count("unsure") == 1
    assert "eu 1 · ll_sum -3 · p_correct 0.25 · 23 tokens" in output.split("\n")
    assert "least sure by the sum of eu" in output


def test_what_else_the_model_might_have_written_stands_beside_the_least_sure_tokens():
    last, other = len(three_lines().spans) - 1, len(three_lines().spans) - 2
    known = {
        last: Alternatives([" 6", " 12", ",", "\n"], [0.404, 0.22, 0.1, 0.004], None, [" 6", " 2"]),
        other: Alternatives([" ", ""], [0.96, None], None, [" ", " "]),
    }
    lines = plain([response_view(three_lines(alternatives=known), SCALE, Look(width=100))])
    assert "40 % 6  22 % 12  10 % ,  draws: 6 2\n" in lines
    assert "96 % ␣  ? ∅\n" in lines
    narrow = plain([response_view(three_lines(alternatives=known), SCALE, Look(width=60))])
    assert "40 % 6  22 % 12 …\n" in narrow
    assert max(wcswidth(line) for line in narrow.split("\n")) <= 60


@pytest.mark.parametrize(
    ("environ", "is_terminal", "when", "system"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, True, "auto", "truecolor"),
        ({"TERM": "xterm-256color"}, True, "auto", "256"),
        ({"TERM": "xterm"}, True, "auto", "standard"),
        ({"TERM": "linux"}, True, "auto", "standard"),
        ({"TERM": "dumb"}, True, "auto", None),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, True, "auto", None),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, True, "auto", "256"),
        ({"TERM": "xterm-256color"}, False, "auto", None),
        ({"TERM": "xterm-256color", "FORCE_COLOR": "1"}, False, "auto", "256"),
        ({"TERM": "xterm-256color", "FORCE_COLOR": "1", "NO_COLOR": "1"}, False, "auto", None),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, False, "always", "256"),
        ({}, False, "always", "256"),
        ({"TERM": "dumb", "NO_COLOR": "1"}, False, "always", "256"),
        ({"TERM": "xterm-256color"}, True, "never", None),
    ],
)
def test_which_colours_are_written(environ, is_terminal, when, system):
    assert console_of(environ, is_terminal, when).color_system == system


def test_nothing_is_said_by_colour_alone():
    assert [looking(colours).drawn_marks for colours in TERMINALS] == ["none", "none", "bars", "bars"]
    assert [looking(colours, marks="none").drawn_marks for colours in TERMINALS] == ["none", "none", "bars", "bars"]
