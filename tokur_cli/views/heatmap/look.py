"""How a terminal shows a heat map: its width, its colours, its theme and the marks that stand in for colour."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Literal, TypeAlias

from rich.color import Color
from rich.console import Console
from rich.style import Style

from tokur_cli.views.heatmap.colours import (
    ANSI_STEPS,
    HEX_STEPS,
    XTERM_STEPS,
    Palette,
    Theme,
    rgb_of_hex,
    rgb_of_xterm,
    text_on,
)

ColourSystem: TypeAlias = Literal["truecolor", "256", "16", "none"]
Marks: TypeAlias = Literal["auto", "none", "bars", "values"]

NARROWEST = 40
BARS = "▁▂▃▄▅▆▇█"
ABOVE, BELOW, NO_VALUE = "▲", "▽", "·"

_RICH_SYSTEMS: dict[ColourSystem, Literal["truecolor", "256", "standard"] | None] = {
    "truecolor": "truecolor",
    "256": "256",
    "16": "standard",
    "none": None,
}


@dataclass(frozen=True, slots=True)
class Look:
    """How to draw a heat map on a terminal.

    Args:
        width: columns; fewer than 40 are drawn as 40.
        colours: the colours that the terminal has.
        theme: whether its background is dark or light.
        marks: ``bars`` for a row of ▁▂▃▄▅▆▇█ under the text, ``values`` for ``token[0.83]``, ``none`` for colour alone;
            ``auto`` is ``none`` with 256 colours or more and ``bars`` with fewer, which cannot show eight steps.
        top: how many of the least sure tokens are listed.
        steps: how many reasoning steps are listed, the least sure ones.
    """

    width: int = 80
    colours: ColourSystem = "truecolor"
    theme: Theme = "dark"
    marks: Marks = "auto"
    top: int = 5
    steps: int = 12

    @property
    def columns(self) -> int:
        """The width that is drawn."""
        return max(self.width, NARROWEST)

    @property
    def drawn_marks(self) -> Marks:
        """The marks that are drawn: never ``auto``, and never ``none`` without colours."""
        if self.marks == "auto" or (self.marks == "none" and self.colours == "none"):
            return "none" if self.colours in ("truecolor", "256") else "bars"
        return self.marks


def detect_colours(
    environ: Mapping[str, str], is_terminal: bool, when: Literal["auto", "always", "never"] = "auto"
) -> ColourSystem:
    """Return the colours to write with.

    Args:
        environ: the process's environment variables; NO_COLOR, TERM and COLORTERM are read.
        is_terminal: whether a terminal will show what is written.
        when: the user's wish; ``auto`` means colour on a terminal that has it, unless NO_COLOR is set.
    """
    term = environ.get("TERM", "")
    if when == "never" or (when == "auto" and (environ.get("NO_COLOR") or term == "dumb" or not is_terminal)):
        return "none"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return "truecolor"
    if sys.platform == "win32":
        return "truecolor"
    if term.endswith("-256color") or term in ("", "dumb"):  # nothing is known: most of what reads colour knows 256
        return "256"
    return "16"


def detect_theme(environ: Mapping[str, str]) -> Theme:
    """Return whether the terminal's background is light or dark: what COLORFGBG tells, else dark.

    Args:
        environ: the process's environment variables.
    """
    return "light" if environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15") else "dark"


class _Console(Console):
    """A console that leaves a closed pipe to the command, where rich's own ends the process with exit code 1."""

    def on_broken_pipe(self) -> None:
        """Raise the error that rich is handling where it calls this."""
        raise


def heatmap_console(file: IO[str], look: Look) -> Console:
    """Return a rich console that writes heat map blocks to a file as they are, in the colours of the look."""
    return _Console(
        file=file,
        color_system=_RICH_SYSTEMS[look.colours],
        force_terminal=look.colours != "none",
        no_color=False,
        width=look.columns,
        soft_wrap=True,  # or rich would cut lines where it counts columns in another way
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )


@lru_cache(maxsize=64)
def step_styles(colours: ColourSystem, theme: Theme, palette: Palette = "cividis") -> tuple[Style, ...]:
    """Return the style of each of the eight steps, sure to unsure; without colours they are all plain."""
    if colours == "truecolor":
        rgbs = [rgb_of_hex(colour) for colour in HEX_STEPS[palette][theme]]
        return tuple(Style(color=Color.from_rgb(*text_on(rgb)), bgcolor=Color.from_rgb(*rgb)) for rgb in rgbs)
    if colours == "256":
        # 16 and 231 are the fixed black and white; 0 and 15 can be repainted.
        inks = [16 if text_on(rgb_of_xterm(index)) == (0, 0, 0) else 231 for index in XTERM_STEPS[palette][theme]]
        return tuple(
            Style(color=Color.from_ansi(ink), bgcolor=Color.from_ansi(index))
            for ink, index in zip(inks, XTERM_STEPS[palette][theme], strict=True)
        )
    if colours == "16":
        return tuple(
            Style()
            if back is None or text is None
            else Style(color=Color.from_ansi(text), bgcolor=Color.from_ansi(back))
            for back, text in ANSI_STEPS[palette][theme]
        )
    return (Style(),) * len(BARS)


@lru_cache(maxsize=4)
def verdict_styles(theme: Theme) -> tuple[Style, Style]:
    """Return the styles of "right" and "wrong"; both words stand beside them."""
    right, wrong = (10, 9) if theme == "dark" else (2, 1)
    return Style(color=Color.from_ansi(right), bold=True), Style(color=Color.from_ansi(wrong), bold=True)
