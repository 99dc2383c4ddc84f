"""How a terminal shows a heat map: its width, its colours, its theme and the marks that stand in for colour."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import IO, Literal, TypeAlias

from rich.console import Console
from rich.style import Style

from tokur_cli.views.heatmap.colours import Palette, Theme, colour_steps

Marks: TypeAlias = Literal["auto", "none", "bars", "values"]
When: TypeAlias = Literal["auto", "always", "never"]

NARROWEST = 40
BARS = "▁▂▃▄▅▆▇█"
ABOVE, BELOW, NO_VALUE = "▲", "▽", "·"
RIGHT, WRONG = Style(color="green", bold=True), Style(color="red", bold=True)
"""The styles of "right" and "wrong"; both words stand beside them."""


@dataclass(frozen=True, slots=True)
class Look:
    """How to draw a heat map on a terminal.

    Args:
        width: columns; fewer than 40 are drawn as 40.
        painted: whether the terminal has colours enough for the steps, as `has_steps` tells.
        theme: the background that the steps are made for; their text can be read on any.
        marks: ``bars`` for a row of ▁▂▃▄▅▆▇█ under the text, ``values`` for ``token[0.83]``, ``none`` for colour alone;
            ``auto`` is ``none`` where the text is painted, else ``bars``.
        top: how many of the least sure tokens are listed.
        steps: how many reasoning steps are listed, the least sure ones.
        scores: whether all scores of the whole response are listed, not just the main ones.
        sort: the score that responses are sorted by, one of the main ones then.
    """

    width: int = 80
    painted: bool = True
    theme: Theme = "dark"
    marks: Marks = "auto"
    top: int = 5
    steps: int = 12
    scores: bool = False
    sort: str | None = None

    @property
    def columns(self) -> int:
        """The width that is drawn."""
        return max(self.width, NARROWEST)

    @property
    def drawn_marks(self) -> Marks:
        """The marks that are drawn: never ``auto``, and never ``none`` without painted text."""
        if self.marks == "auto" or (self.marks == "none" and not self.painted):
            return "none" if self.painted else "bars"
        return self.marks


class _Console(Console):
    """A console that leaves a closed pipe to the command, where rich's own ends the process with exit code 1."""

    def on_broken_pipe(self) -> None:
        """Raise the error that rich is handling where it calls this."""
        raise


def heatmap_console(file: IO[str], *, is_terminal: bool, color: When = "auto") -> Console:
    """Return a rich console that writes heat map blocks to a file as they are, in the colours that rich finds there.

    Args:
        file: where they go.
        is_terminal: whether a terminal will show them, even if the file is a pager's pipe.
        color: the user's wish: ``auto`` is by the terminal and NO_COLOR, ``always`` is 256 colours or more.
    """

    def console(system: Literal["auto", "256"] | None) -> Console:
        return _Console(
            file=file,
            color_system=system,
            force_terminal=is_terminal or color == "always" or None,  # None: FORCE_COLOR tells, else the file
            no_color=False,
            soft_wrap=True,  # or rich would cut lines where it counts columns in another way
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
        )

    if color == "never" or (color == "auto" and os.environ.get("NO_COLOR")):
        return console(None)
    found = console("auto")
    return found if color == "auto" or has_steps(found) else console("256")


def has_steps(console: Console) -> bool:
    """Return whether a console has colours enough for the eight steps.

    The 16 colours of a terminal do not: users repaint them, and rich's choice among them has text that cannot be read.
    """
    return console.color_system in ("truecolor", "256")


def step_styles(palette: Palette, theme: Theme, *, outside: bool = False) -> list[Style]:
    """Return the styles of the eight steps, sure to unsure, of values on the scale or ``outside``, beyond its ends."""
    mark = True if outside else None
    return [
        Style(color="#" + 2 * ink[1:], bgcolor=back, bold=mark, underline=mark)
        for back, ink in colour_steps(palette, theme)
    ]
