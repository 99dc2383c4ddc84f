"""Heat maps on the terminal: legend, painted responses, and what to look at in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from rich.box import MINIMAL
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text
from wcwidth import wcswidth

from tokur_cli.records.errors import count_of
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
_NO_VALUE = "·"
_MARKS = "▁▂▃▄▅▆▇█▲▽"
"""By the step of a value; the last is that of −1."""
_BOLD, _DIM, _TITLE = Style(bold=True), Style(dim=True), Style(bold=True, dim=False)
_VERDICTS = {True: Style(color="green", bold=True, dim=False), False: Style(color="red", bold=True, dim=False)}
_EMPTY = Text("")


def legend(scales: Sequence[Scale], style: TerminalStyle) -> RenderableType:
    """Return what colours and signs mean: for each quantity its name, unit, steps, ends and where they come from.

    It stands once, above all responses.
    """
    style = _within(style, style.width)
    parts: list[RenderableType] = []
    for scale in scales:
        quantity = scale.quantity
        name, about = picture(quantity.name), f"  {picture(quantity.label)}, {quantity.unit}"
        title = Text.assemble((name, _BOLD), about, (f"  shared colour scale: {scale.origin}", _DIM))
        parts += [title, _swatches(scale, style)]
    signs = "▲ ▽ off the scale   · no value" if style.has_bars else "underlined: off the scale   no colour: no value"
    return Constrain(Group(*parts, Text(f"{signs}   ↵ newline   ⇥ tab   ∎ empty token", _DIM)), style.width)


def response_view(response: HeatmapResponse, scales: Sequence[Scale], style: TerminalStyle) -> RenderableType:
    """Return one response: heading, a painted text for each scale, and its summary by the first one."""
    heading, *others = _parts(response, scales, _within(style, style.width))
    return Group(*_spaced([Group(heading, *_question(response)), *others]), _EMPTY)


def compare_view(
    left: HeatmapResponse, right: HeatmapResponse, scales: Sequence[Scale], style: TerminalStyle
) -> RenderableType:
    """Return two responses to one question side by side, or one under the other where the width does not allow it."""
    if style.width < BESIDE_FROM:
        return Group(*(response_view(response, scales, style) for response in (left, right)))
    half = _within(style, (style.width - _GUTTER_WIDTH) // 2)
    columns = [Column(width=half.width) for _ in range(2)]
    table = Table(*columns, box=MINIMAL, show_header=False, show_edge=False, pad_edge=False, border_style=_DIM)
    for row in zip(*(_spaced(_parts(response, scales, half)) for response in (left, right)), strict=True):
        table.add_row(*row)
    return Group(*_spaced([*_question(left), table]), _EMPTY)


def _parts(response: HeatmapResponse, scales: Sequence[Scale], style: TerminalStyle) -> list[RenderableType]:
    """Return the heading, a painted text for each scale and the summary."""
    cells, named = cells_of(response.response, response.spans), len(scales) > 1
    panels = [_panel(response, cells, scale, style, named=named) for scale in scales]
    return [_heading(response, style.width), *panels, Constrain(_summary(response, cells, scales, style), style.width)]


def _within(style: TerminalStyle, width: int) -> TerminalStyle:
    return replace(style, width=min(max(width, NARROWEST), READABLE))


def _spaced(parts: Sequence[RenderableType]) -> list[RenderableType]:
    """Return parts with an empty line between."""
    return [one for part in parts for one in (part, _EMPTY)][:-1]


def _swatches(scale: Scale, style: TerminalStyle) -> Text:
    """Return the eight steps, each with the value where it begins, between the words "certain" and "uncertain"."""
    start, end = "certain ", f" {scale.format(scale.uncertain)} uncertain"
    marks = _MARKS[:STEPS] if style.has_bars else " " * STEPS
    texts = [f"{mark}{scale.format(edge)} " for mark, edge in zip(marks, scale.edges[:STEPS], strict=True)]
    room = style.width - len(start) - len(end)
    if sum(map(len, texts)) > room >= sum(map(len, texts)) - STEPS:  # one line is worth the blanks
        texts = [text.rstrip() for text in texts]
    line, column = Text(start, no_wrap=True), len(start)
    for step, text in enumerate(texts):
        if column + len(text) > style.width:
            line.append("\n" + " " * len(start))
            column = len(start)
        line.append(text, step_style(style.theme, step) if style.painted else None)
        column += len(text)
    return line.append(end if column + len(end) <= style.width else "\n" + " " * (len(start) - 1) + end)


def _heading(response: HeatmapResponse, width: int) -> Text:
    title = Text.assemble("── ", (shorten(response.title, width - 20), _TITLE), " ")
    verdict = Text()
    if response.correct is not None:
        verdict = Text.assemble((f" {response.verdict} ", _VERDICTS[response.correct]), "──")
    rule = "─" * (width - title.cell_len - verdict.cell_len)
    return Text.assemble(title, rule, verdict, style=_DIM, no_wrap=True)


def _question(response: HeatmapResponse) -> list[RenderableType]:
    if not response.question:
        return []
    return [Constrain(Text(one_line(response.question), _DIM, overflow="fold"), READABLE)]


def _panel(
    response: HeatmapResponse, cells: Sequence[Cell], scale: Scale, style: TerminalStyle, *, named: bool
) -> Text:
    """Return one response painted by one quantity, under its name if it is one of several."""
    lines = []
    for line in wrap(cells, style.width):
        text, bars = Text(), "\n"
        for index, placed in groupby(line, key=itemgetter(0)):
            cell, drawn = cells[index], [glyph for _, glyph in placed]
            value = cell.value(response.values, scale.quantity)
            text.append("".join(glyph.shown for glyph in drawn), _style(value, scale, style))
            bars += (_mark(value, scale) if cell.tokens else " ") * sum(glyph.width for glyph in drawn)
        lines.append(text.append(bars) if style.has_bars else text)
    title = (shorten(picture(scale.quantity.name), style.width) + "\n", _BOLD) if named else ""
    painted = Text("\n\n" if style.has_bars else "\n").join(lines)
    return Text.assemble(title, painted, no_wrap=True, overflow="ignore")


def _style(value: float | None, scale: Scale, style: TerminalStyle) -> Style | None:
    return None if value is None or not style.painted else step_style(style.theme, scale.step(value))


def _mark(value: float | None, scale: Scale) -> str:
    return _NO_VALUE if value is None else _MARKS[scale.step(value)]


def _number(value: float | None, scale: Scale) -> str:
    """Return a value, with a mark before it where it is off the scale: numbers are aligned on the right."""
    mark = _mark(value, scale)
    return mark if value is None else mark * (mark in "▲▽") + scale.format(value)


def _summary(response: HeatmapResponse, cells: Sequence[Cell], scales: Sequence[Scale], style: TerminalStyle) -> Group:
    """Return the answer, the scores of the whole response, its least certain tokens, and its steps."""
    leading = response.leading_scores([scale.quantity for scale in scales], style.by)
    scores = response.scores if style.detail else leading
    known = [f"{picture(name)} {value:.4g}" for name, value in scores.items() if value is not None]
    facts = [*response.facts, *([] if style.detail else known), count_of(len(response.spans), "token")]
    parts: list[RenderableType] = [Text(" · ".join(facts), overflow="fold")]
    if style.detail:
        parts.append(Columns(map(Text, known), padding=(0, 3)))
        if unknown := len(response.scores) - len(known):
            parts.append(Text(f"{count_of(unknown, 'score')} not known", _DIM))
    parts += _top_tokens(response, cells, scales, style)
    return Group(*_spaced([Group(*parts), *_steps(response, scales[0], style)]))


def _top_tokens(
    response: HeatmapResponse, cells: Sequence[Cell], scales: Sequence[Scale], style: TerminalStyle
) -> list[RenderableType]:
    """Return the least certain tokens in their context, with the values of every scale and what else might be there."""
    found = least_certain(response, cells, scales[0].quantity, _TOP_IN_DETAIL if style.detail else _TOP)
    if not found:
        return []
    rows = [["token", *(picture(scale.quantity.name) for scale in scales)]]
    for _, token in found:
        values = [response.values[scale.quantity.name][token] for scale in scales]
        rows.append([str(token + 1), *map(_number, values, scales)])
    room = _room(rows, style.width)
    others = [response.alternatives.get(token) for _, token in found]
    instead = [other.in_a_line(room // 2) if other else "" for other in others]
    beside = max(map(wcswidth, instead))
    around = room - (beside + 2 if beside else 0)
    texts = []
    for (cell, token), other in zip(found, instead, strict=True):
        before, middle, behind = context(cells, cell, max(8, around - 2))
        painted = _style(response.values[scales[0].quantity.name][token], scales[0], style) or ""
        text = Text.assemble((before, _DIM), "‹", (middle, painted), "›", (behind, _DIM))
        texts.append(text.append(" " * max(0, around + 2 - text.cell_len) + other) if beside else text)
    title = "least certain tokens" + ", and the likeliest there" * any(others)
    return [_listing(rows, title, texts, room)]


def _steps(response: HeatmapResponse, scale: Scale, style: TerminalStyle) -> list[RenderableType]:
    """Return the reasoning steps with their sums and means; the least certain ones where there are too many."""
    quantity, steps = scale.quantity, response.steps
    if len(steps) < 2:
        return []
    least = response.least_certain_step(quantity)
    values = [uncertainty_of(step.sums, quantity) for step in steps]
    order = sorted(range(len(steps)), key=lambda index: math.inf if math.isnan(values[index]) else -values[index])
    shown = sorted(order if style.detail else order[:_STEPS_LISTED])
    rows = [["step", "tokens", "sum", "mean"]]
    for index in shown:
        sums = steps[index].sums[quantity.name]
        numbers = [_NO_VALUE if math.isnan(sums[how]) else scale.format(sums[how]) for how in ("sum", "mean")]
        rows.append([("▶ " if index == least else "") + str(index + 1), str(len(steps[index].tokens)), *numbers])
    room = _room(rows, style.width)
    labels = [shorten(response.step_text(steps[index]), room) for index in shown]
    texts = [Text(label, _BOLD if index == least else _DIM) for label, index in zip(labels, shown, strict=True)]
    most = "largest" if quantity.orientation == "uncertainty" else "smallest"
    what = {"sum": "total", "mean": "mean"}[quantity.aggregate]
    title = f"▶ step with the {most} {what} {picture(quantity.name)}"
    left = len(steps) - len(shown)
    rest = [Text(f"… and {left} more certain step{'s' * (left > 1)}", _DIM)] if left else []
    return [_listing(rows, title, texts, room), *rest]


def _room(rows: Sequence[Sequence[str]], width: int) -> int:
    """Return how many columns a listing leaves for its texts."""
    return max(1, width - sum(2 + max(map(wcswidth, column)) for column in zip(*rows, strict=True)))


def _listing(rows: Sequence[Sequence[str]], title: str, texts: Sequence[Text], room: int) -> Table:
    """Return numbers under the first of their rows, and in a last column a text for each other row under a title."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=_DIM)
    for name in rows[0]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(shorten(title, room), no_wrap=True, overflow="ignore")
    for row, text in zip(rows[1:], texts, strict=True):
        table.add_row(*map(Text, row), text)
    return table
