"""How a heat map looks: its eight colours, and the console that shows it on a terminal.

The steps follow cividis (Nuñez, Anderton & Renslow 2018), which people with any colour vision see alike, in the
direction that lets certain tokens sink into the page: dark blue to yellow on a dark page; on a light page yellow to
dark blue, with the yellow end faded to ivory, since a full yellow would be the loudest colour on paper. They lie at
equal distances in OKLab. Rich finds the closest for terminals of 256 colours.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import IO, Literal, TypeAlias

from rich.console import Console
from rich.style import Style

Theme: TypeAlias = Literal["dark", "light"]

NARROWEST = 40
STEPS = 8
HEX_STEPS: dict[Theme, tuple[str, ...]] = {
    "dark": ("#0b1729", "#182e56", "#3e4b6c", "#656870", "#8c8878", "#b3a770", "#dac65b", "#fee838"),
    "light": ("#fffef4", "#eee29f", "#c9bc7d", "#a19979", "#787877", "#50586c", "#213b6e", "#00224e"),
}
VERDICTS = {True: Style(color="green", bold=True), False: Style(color="red", bold=True)}


@dataclass(frozen=True, slots=True)
class TerminalStyle:
    """How to draw a heat map on a terminal.

    Args:
        width: columns, at least `NARROWEST`.
        painted: whether there are colours enough for the steps, as `has_steps` tells; else bars stand under the text.
        theme: the background that the steps are made for; their text can be read on any.
        detail: whether all scores, all steps, more tokens, and bars beside colours are shown.
        by: the score that responses are ordered by, which is shown then.
    """

    width: int = 80
    painted: bool = True
    theme: Theme = "dark"
    detail: bool = False
    by: str | None = None

    @property
    def has_bars(self) -> bool:
        """Whether a row of ▁▂▃▄▅▆▇█ stands under each line of text."""
        return self.detail or not self.painted


class _Console(Console):
    """A console that leaves a closed pipe to the command, where rich's own ends the process with exit code 1."""

    def on_broken_pipe(self) -> None:
        """Raise the error that rich is handling where it calls this."""
        raise


def heatmap_console(file: IO[str], width: int) -> Console:
    """Return a rich console that writes text unchanged, in the colours that the terminal has.

    NO_COLOR takes all styles away; FORCE_COLOR gives at least 256 colours.
    """

    def console(system: Literal["auto", "256"] | None) -> Console:
        return _Console(
            file=file,
            width=width,
            color_system=system,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
        )

    if os.environ.get("NO_COLOR"):
        return console(None)
    found = console("auto")
    return console("256") if os.environ.get("FORCE_COLOR") and not has_steps(found) else found


def has_steps(console: Console) -> bool:
    """Return whether a console has colours enough for the eight steps.

    The 16 colours of a terminal do not: users repaint them, and rich's choice among them has text that cannot be read.
    """
    return console.color_system in ("truecolor", "256")


def step_style(theme: Theme, step: int, *, off_scale: bool = False) -> Style:
    """Return the style of a step; a value off the scale is bold and underlined, too."""
    back, ink = colour_steps(theme)[step]
    mark = True if off_scale else None
    return Style(color="#" + 2 * ink[1:], bgcolor=back, bold=mark, underline=mark)


@cache
def colour_steps(theme: Theme) -> tuple[tuple[str, str], ...]:
    """Return the eight steps, certain to uncertain: background, ``#rrggbb``, and the text on it, ``#000`` or ``#fff``.

    Of black and white, the text is the one that reads better, by the contrast ratio (L₁ + 0.05) / (L₂ + 0.05) of WCAG
    2.2, which is 4.5 or more for one of them on any background.
    """
    inks = ("#000" if (_luminance(back) + 0.05) ** 2 >= 0.05 * 1.05 else "#fff" for back in HEX_STEPS[theme])
    return tuple(zip(HEX_STEPS[theme], inks, strict=True))


def _luminance(colour: str) -> float:
    channels = (value / 255 for value in bytes.fromhex(colour[1:]))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
