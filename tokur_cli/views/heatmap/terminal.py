"""Heat maps on the terminal: legend, painted responses, and what to look at in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.box import MINIMAL
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.style import Style
from rich.table import Table
from rich.text import Text
from wcwidth import wcswidth

from tokur_cli.views.heatmap.cells import Cell, cells_of, wrap
from tokur_cli.views.heatmap.response import HeatmapResponse, context, least_certain, uncertainty_of
from tokur_cli.views.heatmap.scale import Scale
from tokur_cli.views.heatmap.style import NARROWEST, STEPS, TerminalStyle, step_style
from tokur_cli.views.visible import one_line, picture, shorten

READABLE = 100
"""Columns; longer lines are hard to read."""
BESIDE_FROM = 91
"""Columns from which two responses stand side by side."""

_GUTTER_WIDTH = 3
_TOP, _TOP_IN_DETAIL = 5, 20
_STEPS_LISTED = 12
_BARS = "▁▂▃▄▅▆▇█"
_NO_VALUE = "·"
_OFF_SCALE = {1: "▲", -1: "▽", 0: ""}
_BOLD, _DIM = Style(bold=True), Style(dim=True)
_VERDICTS = {True: Style(color="green", bold=True, dim=False), False: Style(color="red", bold=True, dim=False)}
_EMPTY = Text("")


def legend(scales: Sequence[Scale], style: TerminalStyle) -> RenderableType:
    """Return what colours and signs mean: for each quantity its name, unit, steps, ends and where they come from.

    It stands once, above all responses.
    """
    width = min(_columns(style), READABLE)
    parts: list[RenderableType] = []
    for scale in scales:
        quantity = scale.quantity
        title = Text().append(picture(quantity.name), _BOLD)
        title.append(f"  {picture(quantity.label)}, {quantity.unit}")
        parts += [title.append(f"  shared colour scale: {scale.origin}", _DIM), _swatches(scale, style, width)]
    signs = ["▲ ▽ off the scale", f"{_NO_VALUE} no value"]
    if not style.has_bars:
        signs = ["underlined: off the scale", "no colour: no value"]
    signs += ["↵ newline", "⇥ tab", "∎ empty token"]
    return Constrain(Group(*parts, Text("   ".join(signs), _DIM)), width)


def response_view(response: HeatmapResponse, scales: Sequence[Scale], style: TerminalStyle) -> RenderableType:
    """Return one response: heading, a painted text for each scale, and its summary by the first one."""
    heading, *others = _parts(response, scales, style, min(_columns(style), READABLE))
    return Group(*_spaced([Group(heading, *_question(response)), *others]), _EMPTY)


def compare_view(
    left: HeatmapResponse, right: HeatmapResponse, scales: Sequence[Scale], style: TerminalStyle
) -> RenderableType:
    """Return two responses to one question side by side, or one under the other where the width does not allow it."""
    columns = _columns(style)
    if columns < BESIDE_FROM:
        return Group(*(response_view(response, scales, style) for response in (left, right)))
    half = min((columns - _GUTTER_WIDTH) // 2, READABLE)
    table = Table(box=MINIMAL, show_header=False, show_edge=False, pad_edge=False, border_style=_DIM)
    table.add_column(width=half)
    table.add_column(width=half)
    for row in zip(*(_spaced(_parts(response, scales, style, half)) for response in (left, right)), strict=True):
        table.add_row(*row)
    return Group(*_spaced([*_question(left), table]), _EMPTY)


def _parts(
    response: HeatmapResponse, scales: Sequence[Scale], style: TerminalStyle, width: int
) -> list[RenderableType]:
    """Return the heading, a painted text for each scale and the summary, in so many columns."""
    cells, named = cells_of(response.response, response.spans), len(scales) > 1
    panels = [_panel(response, cells, scale, style, width, named=named) for scale in scales]
    return [_heading(response, width), *panels, Constrain(_summary(response, cells, scales, style, width), width)]


def _columns(style: TerminalStyle) -> int:
    return max(style.width, NARROWEST)


def _spaced(parts: Sequence[RenderableType]) -> list[RenderableType]:
    """Return parts with an empty line between."""
    return [one for part in parts for one in (part, _EMPTY)][:-1]


def _swatches(scale: Scale, style: TerminalStyle, width: int) -> Text:
    """Return the eight steps, each with the value where it begins, between the words "certain" and "uncertain"."""
    start, end = "certain ", f" {scale.format(scale.uncertain)} uncertain"
    texts = [
        f"{_BARS[step] if style.has_bars else ' '}{scale.format(edge)} "
        for step, edge in enumerate(scale.edges[:STEPS])
    ]
    room = width - len(start) - len(end)
    if sum(map(len, texts)) > room >= sum(map(len, texts)) - STEPS:  # one line is worth the blanks
        texts = [text.rstrip() for text in texts]
    line, column = Text(start, no_wrap=True), len(start)
    for step, text in enumerate(texts):
        if column + len(text) > width:
            line.append("\n" + " " * len(start))
            column = len(start)
        line.append(text, step_style(style.theme, step) if style.painted else None)
        column += len(text)
    return line.append(end if column + len(end) <= width else "\n" + " " * (len(start) - 1) + end)


def _heading(response: HeatmapResponse, width: int) -> Text:
    verdict = f" {response.verdict} " if response.verdict else ""
    line = Text("── ", _DIM, no_wrap=True).append(
        shorten(response.title, max(1, width - 20)), Style(bold=True, dim=False)
    )
    line.append(" ")
    rest = width - line.cell_len - len(verdict)
    line.append("─" * (rest - 2 if verdict else rest))
    if response.correct is not None:
        line.append(verdict, _VERDICTS[response.correct]).append("──")
    return line


def _question(response: HeatmapResponse) -> list[RenderableType]:
    if not response.question:
        return []
    return [Constrain(Text(one_line(response.question), _DIM, overflow="fold"), READABLE)]


def _panel(
    response: HeatmapResponse, cells: Sequence[Cell], scale: Scale, style: TerminalStyle, width: int, *, named: bool
) -> Text:
    """Return one response painted by one quantity, under its name if it is one of several."""
    values = response.values[scale.quantity.name]
    lines = [Text(shorten(picture(scale.quantity.name), width), _BOLD)] if named else []
    for runs in wrap(cells, width):
        text, bars = Text(), ""
        for run in runs:
            value = cells[run.cell].value(values, scale.quantity)
            text.append(run.text, _style(value, scale, style))
            bars += (_mark(value, scale) if cells[run.cell].tokens else " ") * run.width
        lines += [text, Text(bars), _EMPTY] if style.has_bars else [text]
    if style.has_bars:
        lines.pop()
    joined = Text("\n").join(lines)
    joined.no_wrap, joined.overflow = True, "ignore"
    return joined


def _style(value: float | None, scale: Scale, style: TerminalStyle) -> Style | None:
    if value is None or not style.painted:
        return None
    return step_style(style.theme, scale.step(value), off_scale=scale.beyond(value) != 0)


def _mark(value: float | None, scale: Scale) -> str:
    return _NO_VALUE if value is None else _OFF_SCALE[scale.beyond(value)] or _BARS[scale.step(value)]


def _number(value: float | None, scale: Scale) -> str:
    """Return a value, with a mark before it where it is off the scale: numbers are aligned on the right."""
    return _NO_VALUE if value is None else _OFF_SCALE[scale.beyond(value)] + scale.format(value)


def _summary(
    response: HeatmapResponse, cells: Sequence[Cell], scales: Sequence[Scale], style: TerminalStyle, width: int
) -> RenderableType:
    """Return the answer, the scores of the whole response, its least certain tokens, and its steps."""
    count, facts = len(response.spans), response.facts
    if not style.detail:
        leading = response.leading_scores([scale.quantity for scale in scales], style.by)
        facts += [f"{picture(name)} {value:.4g}" for name, value in leading.items()]
    parts: list[RenderableType] = [Text(" · ".join([*facts, f"{count:,} token{'s' * (count != 1)}"]), overflow="fold")]
    if style.detail:
        known = {name: value for name, value in response.scores.items() if value is not None}
        parts.append(Columns([Text(f"{picture(name)} {value:.4g}") for name, value in known.items()], padding=(0, 3)))
        if unknown := len(response.scores) - len(known):
            parts.append(Text(f"{unknown} score{'s' * (unknown > 1)} not known", _DIM))
    parts += _top_tokens(response, cells, scales, style, width)
    return Group(*_spaced([Group(*parts), *_steps(response, scales[0], style, width)]))


def _top_tokens(
    response: HeatmapResponse, cells: Sequence[Cell], scales: Sequence[Scale], style: TerminalStyle, width: int
) -> list[RenderableType]:
    """Return the least certain tokens in their context, with the values of every scale and what else might be there."""
    found = least_certain(response, cells, scales[0].quantity, _TOP_IN_DETAIL if style.detail else _TOP)
    if not found:
        return []
    values = [
        [cells[cell].value(response.values[scale.quantity.name], scale.quantity) for scale in scales]
        for cell, _ in found
    ]
    rows = [[str(token + 1), *map(_number, values[row], scales)] for row, (_, token) in enumerate(found)]
    others = [response.alternatives.get(token) for _, token in found]

    def last(row: int, room: int) -> Text:
        instead = [other.in_a_line(room // 2) if other else "" for other in others]
        beside = max(map(wcswidth, instead))
        room -= beside + 2 if beside else 0
        before, middle, behind = context(cells, found[row][0], max(8, room - 2))
        line = Text(before, _DIM).append("‹", Style(dim=False))
        line.append(middle, Style(dim=False) + (_style(values[row][0], scales[0], style) or Style.null()))
        line.append("›", Style(dim=False)).append(behind)
        return line.append(" " * max(0, room + 2 - line.cell_len) + instead[row], Style(dim=False)) if beside else line

    title = "least certain tokens" + ", and the likeliest there" * any(others)
    return [_listing(["token", *(picture(scale.quantity.name) for scale in scales)], rows, title, last, width)]


def _steps(response: HeatmapResponse, scale: Scale, style: TerminalStyle, width: int) -> list[RenderableType]:
    """Return the reasoning steps with their sums and means; the least certain ones where there are too many."""
    quantity, steps = scale.quantity, response.steps
    if len(steps) < 2:
        return []
    least = response.least_certain_step(quantity)
    values = [uncertainty_of(step.sums, quantity) for step in steps]
    order = sorted(range(len(steps)), key=lambda index: math.inf if math.isnan(values[index]) else -values[index])
    shown = sorted(order if style.detail else order[:_STEPS_LISTED])
    rows = []
    for index in shown:
        sums = steps[index].sums[quantity.name]
        numbers = [_NO_VALUE if math.isnan(sums[how]) else scale.format(sums[how]) for how in ("sum", "mean")]
        rows.append([("▶ " if index == least else "") + str(index + 1), str(len(steps[index].tokens)), *numbers])

    def last(row: int, room: int) -> Text:
        text = response.step_text(steps[shown[row]])
        return Text(shorten(text, max(1, room)), _BOLD if shown[row] == least else _DIM)

    most = "largest" if quantity.orientation == "uncertainty" else "smallest"
    what = {"sum": "total", "mean": "mean"}[quantity.aggregate]
    title = f"▶ step with the {most} {what} {picture(quantity.name)}"
    found: list[RenderableType] = [_listing(["step", "tokens", "sum", "mean"], rows, title, last, width)]
    if left := len(steps) - len(shown):
        found.append(Text(f"… and {left} more certain step{'s' * (left > 1)}", _DIM))
    return found


def _listing(
    titles: Sequence[str], rows: Sequence[Sequence[str]], title: str, last: Callable[[int, int], Text], width: int
) -> Table:
    """Return rows of numbers, and in a last column what ``last`` makes of a row and the columns that are left."""
    sizes = [max(map(wcswidth, column)) for column in zip(titles, *rows, strict=True)]
    room = width - sum(sizes) - 2 * len(sizes)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_DIM)
    for name, size in zip(titles, sizes, strict=True):
        table.add_column(name, justify="right", no_wrap=True, width=size)
    table.add_column(shorten(title, max(1, room)), no_wrap=True, overflow="ignore")
    for index, row in enumerate(rows):
        table.add_row(*map(Text, row), last(index, room))
    return table
