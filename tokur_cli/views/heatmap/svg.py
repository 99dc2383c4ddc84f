"""A heat map as an SVG figure for a paper: text stays text, and every token lies on a grid of monospace columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from tokur_cli.views.heatmap.cells import Cell, cells_of, wrap
from tokur_cli.views.heatmap.colours import STEPS, Theme, colour_steps
from tokur_cli.views.heatmap.response import HeatmapResponse
from tokur_cli.views.heatmap.scale import Scale
from tokur_cli.views.visible import NO_TEXT, picture, shorten, stretches

_FONT = 13.0
_COLUMN = 0.6 * _FONT
_ROW = 1.6 * _FONT
_CELL_HEIGHT = 1.36 * _FONT
_SMALL = 11.0
_SMALL_ROW = 17.0
_MARGIN = 16.0
_GUTTER = 28.0
_SWATCH = 42.0
_LEGEND_WIDTH = STEPS * _SWATCH + 92.0

_MONO = "'DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace"
_SANS = "Helvetica,Arial,'DejaVu Sans',sans-serif"


@dataclass(frozen=True)
class _Inks:
    page: str
    text: str
    soft: str
    right: str
    wrong: str


_INKS: dict[Theme, _Inks] = {
    "light": _Inks("#ffffff", "#000000", "#55585f", "#14663a", "#a32a18"),
    "dark": _Inks("#0e1116", "#f0f1f3", "#a3a9b5", "#79d3a1", "#ff9d87"),
}


class _Canvas:
    """The elements drawn so far, and how far down they reach."""

    def __init__(self, inks: _Inks) -> None:
        self.inks = inks
        self.elements: list[str] = []

    def text(self, x: float, y: float, text: str, kind: str, anchor: str = "start") -> None:
        self.elements.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def columns(self, x: float, y: float, text: str, fill: str) -> None:
        """Draw monospace text that keeps to its columns, whatever the reader's fonts measure."""
        spans = []
        for piece, width, is_wide in stretches(text):
            length = width * _COLUMN
            if is_wide:  # an em wide in most fonts, less than its two columns
                spans.append(f'<tspan x="{x + length / 2:.1f}" text-anchor="middle">{escape(piece)}</tspan>')
            else:
                fitted = f' textLength="{length:.1f}"' if width > 1 else ""
                spans.append(f'<tspan x="{x:.1f}"{fitted}>{escape(piece)}</tspan>')
            x += length
        self.elements.append(f'<text class="mono" y="{y:.1f}" fill="{fill}">{"".join(spans)}</text>')

    def box(self, x: float, y: float, width: float, height: float, attributes: str) -> None:
        self.elements.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {attributes}/>')


def svg_figure(
    responses: Sequence[HeatmapResponse],
    scales: Sequence[Scale],
    *,
    columns: int = 72,
    theme: Theme = "light",
    compare: bool = False,
) -> str:
    """Return a figure of a few responses, each painted by each scale, with the legend below.

    Responses stand below one another and their scales side by side; to compare, responses stand side by side and their
    scales below one another. Text is wrapped by the columns that it takes in a monospace font, and stretched or
    squeezed to them if the reader's font differs.

    Args:
        responses: what to paint.
        scales: what to paint them by.
        columns: the width of one painted text, in characters.
        theme: light for paper, dark for slides.
        compare: whether to put the responses side by side.
    """
    canvas = _Canvas(_INKS[theme])
    panel_width = columns * _COLUMN
    across = len(responses) if compare else len(scales)
    width = across * panel_width + (across - 1) * _GUTTER
    top = _MARGIN
    lefts = [_MARGIN + index * (panel_width + _GUTTER) for index in range(across)]

    def row(panels: Sequence[tuple[HeatmapResponse, Scale]]) -> float:
        return max(_panel(canvas, *panel, left, top, columns, theme) for panel, left in zip(panels, lefts, strict=True))

    if compare:
        top = max(_heading(canvas, one, left, top, panel_width) for one, left in zip(responses, lefts, strict=True))
        for scale in scales:
            top = row([(response, scale) for response in responses])
    else:
        for response in responses:
            top = _heading(canvas, response, _MARGIN, top, width)
            top = row([(response, scale) for scale in scales]) + _SMALL_ROW / 2
    for scale in scales:
        top = _legend(canvas, scale, top, theme)
    top = _signs(canvas, responses, scales, top)
    width = max(width, *(_LEGEND_WIDTH + len(scale.origin) * 0.55 * _SMALL for scale in scales))
    return _document(canvas, responses, width + 2 * _MARGIN, top + _MARGIN / 2)


def _document(canvas: _Canvas, responses: Sequence[HeatmapResponse], width: float, height: float) -> str:
    inks = canvas.inks
    names = ", ".join(picture(response.id) for response in responses)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" fill="{inks.text}" role="img" xml:space="preserve">',
            f"<title>Heat map of {escape(names)}</title>",
            f"<style>text{{white-space:pre}}.mono{{font:{_FONT:g}px {_MONO}}}"
            f".head{{font:bold {_FONT:g}px {_SANS}}}.name{{font:bold {_SMALL:g}px {_SANS}}}"
            f".small{{font:{_SMALL:g}px {_SANS};fill:{inks.soft}}}"
            f".signs{{font:{_SMALL:g}px {_MONO};fill:{inks.soft}}}"
            f".right{{fill:{inks.right}}}.wrong{{fill:{inks.wrong}}}</style>",
            f'<rect width="100%" height="100%" fill="{inks.page}"/>',
            *canvas.elements,
            "</svg>\n",
        ]
    )


def _heading(canvas: _Canvas, response: HeatmapResponse, left: float, top: float, width: float) -> float:
    """Draw which response it is and whether it is right, and return the next free y."""
    base = top + _FONT
    canvas.text(left, base, shorten(response.title, max(8, int(width / _COLUMN) - 12)), "head")
    if response.verdict:
        canvas.text(left + width, base, response.verdict, f"head {'right' if response.correct else 'wrong'}", "end")
    return top + _FONT + 8


def _panel(
    canvas: _Canvas, response: HeatmapResponse, scale: Scale, left: float, top: float, columns: int, theme: Theme
) -> float:
    """Draw one response painted by one quantity, and return the next free y."""
    quantity = scale.quantity
    values = response.values[quantity.name]
    cells = cells_of(response.response, response.spans)
    score = response.scores.get(quantity.name)
    canvas.text(left, top + _SMALL, f"{picture(quantity.name)}, {picture(quantity.label)}", "small")
    if score is not None:
        words = f"whole response {score:.4g} {quantity.unit}"
        canvas.text(left + columns * _COLUMN, top + _SMALL, words, "small", "end")
    top += _SMALL_ROW
    for runs in wrap(cells, columns):
        column = 0
        for cell, text, width in runs:
            x, length = left + column * _COLUMN, width * _COLUMN
            ink = _paint(canvas, cells[cell], cells[cell].value(values, quantity), scale, x, top, length, theme)
            canvas.columns(x, top + 1.05 * _FONT, text, ink)
            column += width
        top += _ROW
    return top + 6


def _paint(
    canvas: _Canvas, cell: Cell, value: float | None, scale: Scale, x: float, y: float, length: float, theme: Theme
) -> str:
    """Draw the background of a cell's run, and return the colour of its text."""
    if value is None:
        if cell.tokens:
            outline = f'rx="2" fill="none" stroke="{canvas.inks.soft}" stroke-dasharray="1 2"'
            canvas.box(x + 0.5, y + 0.5, length - 1, _CELL_HEIGHT - 1, outline)
        return canvas.inks.text
    colour, ink = colour_steps(scale.palette, theme)[scale.step(value)]
    canvas.box(x + 0.2, y, length - 0.4, _CELL_HEIGHT, f'rx="2" fill="{colour}"')
    if scale.clipped(value):
        canvas.box(x + 1, y + 1.19 * _FONT, length - 2, 1.3, f'fill="{ink}"')
    return ink


def _legend(canvas: _Canvas, scale: Scale, top: float, theme: Theme) -> float:
    """Draw the name, the steps and the origin of a scale, and return the next free y."""
    quantity, inks = scale.quantity, canvas.inks
    title = f"{picture(quantity.name)}, {picture(quantity.label)} ({quantity.unit})"
    canvas.text(_MARGIN, top + _SMALL, title, "name")
    top += _SMALL_ROW
    canvas.text(_MARGIN, top + 10, "sure", "small")
    left = _MARGIN + 32
    for step, (colour, _) in enumerate(colour_steps(scale.palette, theme)):
        canvas.box(left + step * _SWATCH, top, _SWATCH, 12, f'fill="{colour}"')
    canvas.box(left, top, STEPS * _SWATCH, 12, f'fill="none" stroke="{inks.soft}" stroke-width="0.5"')
    canvas.text(left + STEPS * _SWATCH + 8, top + 10, "unsure", "small")
    for step, edge in enumerate(scale.edges):
        canvas.text(left + step * _SWATCH, top + 12 + _SMALL, scale.format(edge), "small", anchor="middle")
    canvas.text(_MARGIN + _LEGEND_WIDTH, top + 10, scale.origin, "small")
    return top + 12 + _SMALL + 10


def _signs(canvas: _Canvas, responses: Sequence[HeatmapResponse], scales: Sequence[Scale], top: float) -> float:
    """Explain the signs that the figure uses, and return the next free y."""
    values = [
        (scale, value) for scale in scales for response in responses for value in response.values[scale.quantity.name]
    ]
    drawn = "".join(picture(response.response) for response in responses)
    signs = []
    if any(value is not None and scale.clipped(value) for scale, value in values):
        signs.append("underlined: beyond an end")
    if any(value is None for _, value in values):
        signs.append("dotted: no value")
    if "↵" in drawn:
        signs.append("↵ newline")
    if "⇥" in drawn:
        signs.append("⇥ tab")
    if any(start == end for response in responses for start, end in response.spans):
        signs.append(f"{NO_TEXT} token without text")
    if not signs:
        return top
    canvas.text(_MARGIN, top + _SMALL, "   ".join(signs), "signs")
    return top + _SMALL_ROW
