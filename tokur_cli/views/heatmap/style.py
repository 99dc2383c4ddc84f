"""How a heat map looks: its eight colours, and what is drawn on a terminal.

The steps follow cividis (Nuñez, Anderton & Renslow 2018), which people with any colour vision see alike, in the
direction that lets certain tokens sink into the page: dark blue to yellow on a dark page; on a light page yellow to
dark blue, with the yellow end faded to ivory, since a full yellow would be the loudest colour on paper. They lie at
equal distances in OKLab. Rich finds the closest for terminals of 256 colours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from rich.style import Style

Theme: TypeAlias = Literal["dark", "light"]

NARROWEST = 40
STEPS = 8
BACKGROUNDS: dict[Theme, tuple[str, ...]] = {
    "dark": ("#0b1729", "#182e56", "#3e4b6c", "#656870", "#8c8878", "#b3a770", "#dac65b", "#fee838"),
    "light": ("#fffef4", "#eee29f", "#c9bc7d", "#a19979", "#787877", "#50586c", "#213b6e", "#00224e"),
}
"""Of the eight steps, certain to uncertain."""

_BLACK, _WHITE = "#000000", "#ffffff"
INKS: dict[Theme, tuple[str, ...]] = {"dark": (*[_WHITE] * 4, *[_BLACK] * 4), "light": (*[_BLACK] * 5, *[_WHITE] * 3)}
"""The text on each step: the one with the higher contrast ratio of WCAG 2.2, which is 4.5 or more."""


@dataclass(frozen=True, slots=True)
class TerminalStyle:
    """How to draw a heat map on a terminal."""

    width: int = 80  # columns, at least `NARROWEST`
    painted: bool = True  # whether there are colours enough for the steps; else bars stand under the text
    theme: Theme = "dark"  # the background that the steps are made for; their text can be read on any
    detail: bool = False  # whether all scores, all steps, more tokens, and bars beside colours are shown
    by: str | None = None  # the score that responses are ordered by, which is shown then

    @property
    def has_bars(self) -> bool:
        """Whether a row of ▁▂▃▄▅▆▇█ stands under each line of text."""
        return self.detail or not self.painted


def step_style(theme: Theme, step: int) -> Style:
    """Return the style of a step as a scale gives it; one off the scale is bold and underlined, too."""
    on_scale = min(max(step, 0), STEPS - 1)
    mark = None if step == on_scale else True
    return Style(color=INKS[theme][on_scale], bgcolor=BACKGROUNDS[theme][on_scale], bold=mark, underline=mark)
