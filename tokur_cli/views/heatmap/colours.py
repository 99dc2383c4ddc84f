"""The colour steps of the heat maps, from sure to unsure, and the text colour that stays readable on each.

By default they follow cividis (Nuñez, Anderton & Renslow 2018), which people with any colour vision see alike, in the
direction that lets sure tokens sink into the page: dark blue to yellow on a dark page; on a light page yellow to dark
blue, with the yellow end faded to ivory, since a full yellow would be the loudest colour on paper. Red and green, for
two quantities side by side, run from the page's lightness to its opposite too, so that their steps are told apart by
lightness alone. The eight steps of each lie at equal distances in OKLab. Rich finds the closest for terminals of 256
colours.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Theme: TypeAlias = Literal["dark", "light"]
Palette: TypeAlias = Literal["cividis", "red", "green"]

STEPS = 8

HEX_STEPS: dict[Palette, dict[Theme, tuple[str, ...]]] = {
    "cividis": {
        "dark": ("#0b1729", "#182e56", "#3e4b6c", "#656870", "#8c8878", "#b3a770", "#dac65b", "#fee838"),
        "light": ("#fffef4", "#eee29f", "#c9bc7d", "#a19979", "#787877", "#50586c", "#213b6e", "#00224e"),
    },
    "red": {
        "dark": ("#230c0a", "#4b1814", "#76231d", "#a52f26", "#ce473b", "#e17567", "#f1a093", "#ffc9bf"),
        "light": ("#fff7f5", "#ffcdc4", "#faa293", "#f07462", "#da4839", "#ad3128", "#821917", "#5a0007"),
    },
    "green": {
        "dark": ("#08200f", "#103c1b", "#195a28", "#217a36", "#3f994f", "#6ab773", "#91d698", "#b9f5bd"),
        "light": ("#f5fcf3", "#c4e4c3", "#92cc94", "#5cb364", "#3e9349", "#287135", "#135122", "#003310"),
    },
}


def colour_steps(palette: Palette, theme: Theme) -> list[tuple[str, str]]:
    """Return the eight steps, sure to unsure: the background, ``#rrggbb``, and the text on it, ``#000`` or ``#fff``.

    Of black and white, the text is the one that reads better, by the contrast ratio (L₁ + 0.05) / (L₂ + 0.05) of WCAG
    2.2, which is 4.5 or more for one of them on any background.
    """
    inks = ("#000" if (_luminance(back) + 0.05) ** 2 >= 0.05 * 1.05 else "#fff" for back in HEX_STEPS[palette][theme])
    return list(zip(HEX_STEPS[palette][theme], inks, strict=True))


def _luminance(colour: str) -> float:
    channels = (value / 255 for value in bytes.fromhex(colour[1:]))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
