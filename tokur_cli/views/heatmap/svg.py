"""A heat map as an SVG figure for a paper: what the terminal shows, exported by rich; text stays text."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import unescape

from rich.console import Console, RenderableType
from rich.terminal_theme import TerminalTheme
from wcwidth import wcswidth

from tokur_cli.views.heatmap.style import Theme

_COLOURS = {  # of the page, the text, and of red and green as they are read on it
    "light": TerminalTheme((255, 255, 255), (0, 0, 0), [(0, 0, 0), (163, 42, 24), (20, 102, 58), *[(0, 0, 0)] * 5]),
    "dark": TerminalTheme(
        (14, 17, 22), (240, 241, 243), [(0, 0, 0), (255, 157, 135), (121, 211, 161), *[(240, 241, 243)] * 5]
    ),
}
_MARGIN = 12
_FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="-{margin} -{margin} {full_width} {full_height}" role="img">
<style>.{{unique_id}}-matrix{{{{font:{{char_height}}px 'DejaVu Sans Mono',Menlo,Consolas,'Liberation Mono',monospace}}}}
{{styles}}</style>
<rect x="-{margin}" y="-{margin}" width="100%" height="100%" fill="{page}"/>
<defs>{{lines}}</defs>
<g class="{{unique_id}}-matrix">{{backgrounds}}{{matrix}}</g>
</svg>
"""
_LENGTH = re.compile(r' textLength="[^"]*"([^>]*>([^<]*)</text>)')


def svg_figure(parts: Sequence[RenderableType], *, width: int, theme: Theme = "light") -> str:
    """Return as SVG what a terminal of so many columns would show."""
    console = Console(
        record=True, width=width, file=io.StringIO(), color_system="truecolor", force_terminal=True, markup=False
    )
    console.print(*parts, sep="", end="")
    lines = console.export_text(clear=False).count("\n")
    column, line = 0.6 * 20, 1.22 * 20
    colours = _COLOURS[theme]
    frame = _FORMAT.format(
        margin=_MARGIN,
        full_width=f"{width * column + 2 * _MARGIN:g}",
        full_height=f"{lines * line + 2 * _MARGIN:g}",
        page=colours.background_color.hex,
    )
    figure = console.export_svg(title="", theme=colours, code_format=frame, font_aspect_ratio=0.6)

    def fitted(match: re.Match[str]) -> str:
        text = unescape(match[2]).replace("\xa0", " ")  # rich fits it to a column for each of its code points
        return match[0] if wcswidth(text) == len(text) else match[1]

    return _LENGTH.sub(fitted, figure)
