"""Heat maps on the terminal: legend, painted responses, and what to look at in them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from tokur_cli.views.heatmap.blocks import GUTTER, Block, StyledLine, below, beside, flow
from tokur_cli.views.heatmap.cells import Cell, cells_of, wrap
from tokur_cli.views.heatmap.colours import STEPS
from tokur_cli.views.heatmap.look import ABOVE, BARS, BELOW, NO_VALUE, RIGHT, WRONG, Look, step_styles
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.scale import Scale
from tokur_cli.views.heatmap.steps import doubtful_step, steps_of
from tokur_cli.views.heatmap.unsure import context, most_unsure
from tokur_cli.views.visible import picture, shorten, width_of

# Lines longer than this are hard to read; a wider terminal shows two panels side by side.
READABLE = 100
_BESIDE_FROM = 2 * 44 + len(GUTTER)
_BETWEEN_SCORES = 3
MAIN_SCORES = ("ll_sum", "p_correct")
"""Scores of whole responses that are shown whatever is painted."""

_INSTEAD = "likeliest there"

_BOLD = Style(bold=True)
_DIM = Style(dim=True)
_EMPTY = Block([StyledLine()])


def legend(scales: Sequence[Scale], look: Look) -> Block:
    """Return what colours and signs mean: for each quantity its name, unit, steps, ends and where they come from.

    It stands once, above all responses.
    """
    width = min(look.columns, READABLE)
    blocks = []
    for scale in scales:
        quantity = scale.quantity
        title = StyledLine().add(shorten(picture(quantity.name), width // 2), _BOLD)
        title.add(shorten(f"  {picture(quantity.label)}, {quantity.unit}", width - title.width))
        origin = f"  one scale: {scale.origin}"
        if title.width + width_of(origin) <= width:
            blocks.append(Block([title.add(origin, _DIM)]))
        else:
            blocks += [Block([title]), flow(origin.split(), width, _DIM, between=" ")]
        blocks.append(swatches(scale, look, width))
    signs = [f"{ABOVE} {BELOW} beyond an end", f"{NO_VALUE} no value"]
    if look.drawn_marks == "none":
        signs = ["underlined: beyond an end", "no colour: no value"]
    signs += ["↵ newline", "⇥ tab", "∎ no text"]
    return below([*blocks, flow(signs, width, _DIM, between="   ")])


def response_view(response: HeatmapResponse, scales: Sequence[Scale], look: Look) -> Block:
    """Return one response: heading, a painted text for each scale, and its summary by the first one.

    Two scales stand side by side where the width allows it, else one under the other.
    """
    cells = cells_of(response.response, response.spans)
    if len(scales) == 2 and look.columns >= _BESIDE_FROM:
        half = (look.columns - len(GUTTER)) // 2
        panels = beside([_named_panel(response, cells, scale, look, half) for scale in scales], half)
    else:
        width = min(look.columns, READABLE)
        panel = _panel if len(scales) == 1 else _named_panel
        panels = below([panel(response, cells, scale, look, width) for scale in scales], gap=1)
    width = min(look.columns, max(READABLE, panels.width))
    head = below([_heading(response, width), _question(response, width)])
    summary = _summary(response, cells, scales, look, min(width, READABLE))
    return below([below([head, panels, summary], gap=1), _EMPTY])


def compare_view(left: HeatmapResponse, right: HeatmapResponse, scales: Sequence[Scale], look: Look) -> Block:
    """Return two responses to one question side by side, or one under the other where the width does not allow it."""
    if look.columns < _BESIDE_FROM:
        return below([response_view(response, scales, look) for response in (left, right)])
    half = min((look.columns - len(GUTTER)) // 2, READABLE)
    sides = [(response, cells_of(response.response, response.spans)) for response in (left, right)]
    rows = [beside([_heading(response, half) for response, _ in sides], half)]
    panel = _panel if len(scales) == 1 else _named_panel
    rows += [beside([panel(response, cells, scale, look, half) for response, cells in sides], half) for scale in scales]
    rows.append(beside([_summary(response, cells, scales, look, half) for response, cells in sides], half))
    gap = beside([_EMPTY, _EMPTY], half)
    framed = [rows[0]]
    for row in rows[1:]:
        framed += [gap, row]
    return below([below([_question(left, 2 * half + len(GUTTER)), below(framed)], gap=1), _EMPTY])


def swatches(scale: Scale, look: Look, width: int) -> Block:
    """Return the eight steps, each with the value where it begins, between the words "sure" and "unsure"."""
    styles = _styles(scale, look)
    lines = [StyledLine().add("sure ")]
    texts = [
        f"{BARS[step] if look.drawn_marks == 'bars' else ' '}{scale.format(edge)} "
        for step, edge in enumerate(scale.edges[:STEPS])
    ]
    end = f" {scale.format(scale.unsure)} unsure"
    room = width - len("sure ") - len(end)
    if sum(map(len, texts)) > room >= sum(map(len, texts)) - STEPS:  # one line is worth the blanks
        texts = [text.rstrip() for text in texts]
    for step, text in enumerate(texts):
        if lines[-1].width + len(text) > width:
            lines.append(StyledLine().add("     "))
        lines[-1].add(text, styles[step])
    if lines[-1].width + len(end) > width:
        lines.append(StyledLine().add("    "))
    lines[-1].add(end)
    return Block(lines)


def _styles(scale: Scale, look: Look, *, outside: bool = False) -> Sequence[Style | None]:
    return step_styles(scale.palette, look.theme, outside=outside) if look.painted else [None] * STEPS


def _heading(response: HeatmapResponse, width: int) -> Block:
    line = StyledLine().add("── ", _DIM).add(shorten(response.title, max(1, width - 16)), _BOLD).add(" ", _DIM)
    if verdict := response.verdict:
        line.pad_to(width - len(verdict) - 4, "─", _DIM).add(f" {verdict} ", RIGHT if response.correct else WRONG)
    return Block([line.pad_to(width, "─", _DIM)])


def _question(response: HeatmapResponse, width: int) -> Block:
    if not response.question:
        return Block()
    return flow(response.question.split(), min(width, READABLE), _DIM, between=" ")


def _named_panel(response: HeatmapResponse, cells: Sequence[Cell], scale: Scale, look: Look, width: int) -> Block:
    """Return one response painted by one of several quantities, under its name."""
    name = StyledLine().add(shorten(picture(scale.quantity.name), width), _BOLD)
    return below([Block([name]), _panel(response, cells, scale, look, width)])


def _panel(response: HeatmapResponse, cells: Sequence[Cell], scale: Scale, look: Look, width: int) -> Block:
    """Return one response painted by one quantity."""
    values = response.values[scale.quantity.name]
    cell_values = [cell.value(values, scale.quantity) for cell in cells]
    inside, outside = _styles(scale, look), _styles(scale, look, outside=True)
    notes = None
    if look.drawn_marks == "values":
        notes = [_note(cell, value, scale) for cell, value in zip(cells, cell_values, strict=True)]
    lines = []
    for runs in wrap(cells, width, notes):
        text, bars = StyledLine(), StyledLine()
        for run in runs:
            value = cell_values[run.cell] if run.cell >= 0 else None
            style = None if value is None else (outside if scale.clipped(value) else inside)[scale.step(value)]
            text.add(run.text, style, run.width)
            has_tokens = run.cell >= 0 and len(cells[run.cell].tokens) > 0
            bars.add((_mark(value, scale) if has_tokens else " ") * run.width, None, run.width)
        lines.append(text)
        if look.drawn_marks == "bars":
            lines += [bars, StyledLine()]  # without the empty line the bars would seem to belong to the text below them
    return Block(lines[:-1] if look.drawn_marks == "bars" else lines)


def _mark(value: float | None, scale: Scale) -> str:
    if value is None:
        return NO_VALUE
    return {1: ABOVE, -1: BELOW, 0: BARS[scale.step(value)]}[scale.clipped(value)]


def _note(cell: Cell, value: float | None, scale: Scale) -> str:
    if not cell.tokens:
        return ""
    return f"[{_number(value, scale)}]"


def _number(value: float | None, scale: Scale) -> str:
    if value is None:
        return NO_VALUE
    return scale.format(value) + {1: ABOVE, -1: BELOW, 0: ""}[scale.clipped(value)]


def _summary(
    response: HeatmapResponse, cells: Sequence[Cell], scales: Sequence[Scale], look: Look, width: int
) -> Block:
    facts = []
    if response.answer is not None:
        facts.append(f"answer {response.answer}")
    if response.reference is not None:
        facts.append(f"reference {response.reference}")
    if not look.scores:
        facts += _main_scores(response, scales, look)
    found = [flow(facts, width, between=" · ")] if facts else []
    if look.scores:
        found.append(_scores(response, width))
    tokens = below([*found, _top_tokens(response, cells, scales, look, width)])
    return below([tokens, _steps(response, scales[0], look, width)], gap=1)


def _main_scores(response: HeatmapResponse, scales: Sequence[Scale], look: Look) -> list[str]:
    """Return the scores of the order and of what is shown, the usual ones to compare them with, and the length."""
    names = [*filter(None, [look.sort]), *(name for scale in scales for name in scale.quantity.scores)]
    known = [
        f"{name} {value:.4g}"
        for name in dict.fromkeys([*names, *MAIN_SCORES])
        if (value := response.scores.get(name)) is not None
    ]
    count = len(response.spans)
    return [*known, f"{count:,} token{'s' * (count != 1)}"]


def _scores(response: HeatmapResponse, width: int) -> Block:
    """Return the whole response's scores in as many columns as there is room for; threes keep families together.

    Those that are not known are counted alone.
    """
    known = {name: value for name, value in response.scores.items() if value is not None}
    cells = [
        StyledLine().add(shorten(picture(name), width - 12), _DIM).add(f" {value:.4g}") for name, value in known.items()
    ]
    across = next(
        count
        for count in (6, 3, 2, 1)
        if sum(_column_widths(cells, count)) + (count - 1) * _BETWEEN_SCORES <= width or count == 1
    )
    lines = []
    for first in range(0, len(cells), across):
        line, start = StyledLine(), 0
        for cell, column in zip(cells[first : first + across], _column_widths(cells, across), strict=False):
            line.pad_to(start).join(cell)
            start += column + _BETWEEN_SCORES
        lines.append(line)
    if unknown := len(response.scores) - len(known):
        lines.append(StyledLine().add(f"{unknown} score{'s' * (unknown > 1)} not known", _DIM))
    return Block(lines)


def _column_widths(cells: Sequence[StyledLine], across: int) -> list[int]:
    return [max((cell.width for cell in cells[at::across]), default=0) for at in range(across)]


def _top_tokens(
    response: HeatmapResponse, cells: Sequence[Cell], scales: Sequence[Scale], look: Look, width: int
) -> Block:
    """Return the least sure tokens in their context, with the values of every scale."""
    found = most_unsure(response, cells, scales[0].quantity, look.top)
    if not found:
        return Block()
    styles = _styles(scales[0], look)
    rows = [["token", *(picture(scale.quantity.name) + " " for scale in scales)]]
    for unsure in found:
        cell = cells[unsure.cell]
        values = [cell.value(response.values[scale.quantity.name], scale.quantity) for scale in scales]
        numbers = [_number(value, scale) for value, scale in zip(values, scales, strict=True)]
        # Numbers are aligned, and the marks of those beyond an end stand out of the column
        rows.append([str(unsure.token + 1), *(text if text[-1] in ABOVE + BELOW else text + " " for text in numbers)])
    head, *texts = _aligned(rows)
    lines = [StyledLine()]
    for place, name in enumerate(head):
        lines[0].add("  " + name if place else name, _DIM)
    lines[0].add(" the least sure"[: max(0, width - lines[0].width)], _DIM)
    others = [response.alternatives.get(unsure.token) for unsure in found]
    room = max(0, width - lines[0].width + len(" the least sure"))  # for the text, and beside it what else it might be
    instead = [other.in_a_line(room // 2) if other else "" for other in others]
    column = max(map(width_of, instead))
    if column:
        column = max(column, len(_INSTEAD))
        lines[0].pad_to(width - column).add(_INSTEAD, _DIM)
    for unsure, text, line_of_others in zip(found, texts, instead, strict=True):
        line = StyledLine().add("  ".join(text))
        before, middle, behind = context(cells, unsure.cell, max(8, width - line.width - 3 - (column and column + 2)))
        style = styles[scales[0].step(unsure.value)]
        lines.append(line.add(" " + before, _DIM).add("»").add(middle, style).add("«").add(behind, _DIM))
        if line_of_others:
            line.pad_to(width - column).add(line_of_others)
    return Block(lines)


def _aligned(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return rows of cells with the cells of each column as wide as its widest, aligned on the right."""
    sizes = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    return [[" " * (size - width_of(cell)) + cell for cell, size in zip(row, sizes, strict=True)] for row in rows]


def _steps(response: HeatmapResponse, scale: Scale, look: Look, width: int) -> Block:
    """Return the reasoning steps with their sums and means; the least sure ones where there are too many."""
    steps = steps_of(response.steps, response.values[scale.quantity.name], scale.quantity)
    if len(steps) < 2 or not look.steps:
        return Block()
    worst = doubtful_step(steps)
    doubts = [float("-inf") if step.doubt is None else step.doubt for step in steps]
    shown = sorted(sorted(range(len(steps)), key=lambda index: -doubts[index])[: look.steps])
    name = picture(scale.quantity.name)
    rows = [["step", "tokens", "sum", "mean"]]
    for index in shown:
        step = steps[index]
        values = (NO_VALUE if value is None else scale.format(value) for value in (step.total, step.mean))
        rows.append([str(index + 1), str(len(step.tokens)), *values])
    head, *texts = _aligned(rows)
    lines = [StyledLine().add("  " + "  ".join(head), _DIM)]
    meaning = f"  ▶ the least sure by the {scale.quantity.aggregate} of {name}"
    if lines[0].width + width_of(meaning) <= width:
        lines[0].add(meaning, _DIM)
    else:
        lines.insert(0, StyledLine().add(shorten(meaning, width), _DIM))
    for index, numbers in zip(shown, texts, strict=True):
        is_worst = index == worst
        line = StyledLine().add(("▶ " if is_worst else "  ") + "  ".join(numbers) + "  ", _BOLD if is_worst else None)
        text = picture(" ".join(response.response[steps[index].start : steps[index].end].split()))
        lines.append(line.add(shorten(text, max(1, width - line.width)), _BOLD if is_worst else _DIM))
    if len(shown) < len(steps):
        lines.append(StyledLine().add(f"  … and {len(steps) - len(shown)} surer steps", _DIM))
    return Block(lines)
