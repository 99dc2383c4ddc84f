"""The colour steps of the heat maps, from sure to unsure, and the text colour that stays readable on each.

By default they follow cividis (Nuñez, Anderton & Renslow 2018), which people with any colour vision see alike, in the
direction that lets sure tokens sink into the page: dark blue to yellow on a dark page; on a light page yellow to dark
blue, with the yellow end faded to ivory, since a full yellow would be the loudest colour on paper. Red and green, for
two quantities side by side, run from the page's lightness to its opposite too, so that their steps are told apart by
lightness alone. The eight steps of each lie at equal distances in OKLab.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Theme: TypeAlias = Literal["dark", "light"]
Palette: TypeAlias = Literal["cividis", "red", "green"]
RGB: TypeAlias = tuple[int, int, int]

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

# The closest of the 240 fixed colours of a 256-colour terminal that keep every step distinct and in order of lightness.
XTERM_STEPS: dict[Palette, dict[Theme, tuple[int, ...]]] = {
    "cividis": {
        "dark": (233, 236, 239, 242, 102, 144, 185, 227),
        "light": (230, 222, 179, 246, 243, 240, 237, 17),
    },
    "red": {"dark": (233, 52, 88, 124, 167, 173, 217, 224), "light": (231, 224, 216, 209, 167, 124, 88, 52)},
    "green": {"dark": (234, 236, 22, 28, 65, 71, 114, 158), "light": (231, 253, 114, 71, 65, 28, 22, 235)},
}

# (background, text) of a 16-colour terminal; None is its default. Users repaint these colours, and only a few
# backgrounds keep their order of lightness in the palettes people have, so neighbouring steps share one.
ANSI_STEPS: dict[Palette, dict[Theme, tuple[tuple[int | None, int | None], ...]]] = {
    "cividis": {
        "dark": ((None, None), (None, None), (4, 15), (4, 15), (6, 0), (7, 0), (7, 0), (11, 0)),
        "light": ((None, None), (None, None), (11, 0), (11, 0), (6, 0), (4, 15), (4, 15), (0, 15)),
    },
    "red": {
        "dark": (*[(None, None)] * 2, *[(1, 15)] * 3, *[(9, 0)] * 3),
        "light": (*[(None, None)] * 2, *[(9, 0)] * 3, *[(1, 15)] * 3),
    },
    "green": {
        "dark": (*[(None, None)] * 2, *[(2, 0)] * 3, *[(10, 0)] * 3),
        "light": (*[(None, None)] * 2, *[(10, 0)] * 3, *[(2, 0)] * 3),
    },
}

_CUBE = (0, 95, 135, 175, 215, 255)


def rgb_of_hex(colour: str) -> RGB:
    """Return the red, green and blue of ``#rrggbb``, each 0 to 255."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def rgb_of_xterm(index: int) -> RGB:
    """Return the red, green and blue of one of the fixed colours 16 to 255 of a 256-colour terminal."""
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    red, green, blue = (index - 16) // 36, (index - 16) // 6 % 6, (index - 16) % 6
    return _CUBE[red], _CUBE[green], _CUBE[blue]


def contrast(one: RGB, other: RGB) -> float:
    """Return the contrast ratio of two colours, (L₁ + 0.05) / (L₂ + 0.05) of their relative luminances.

    Returns:
        From 1 (the same) to 21 (black on white); 4.5 is the least for text.

    Source:
        WCAG 2.2, "contrast ratio".
    """
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def text_on(background: RGB) -> RGB:
    """Return black or white, whichever reads better on a background; one always has a contrast of 4.5 or more."""
    black, white = (0, 0, 0), (255, 255, 255)
    return black if contrast(black, background) >= contrast(white, background) else white


def _luminance(colour: RGB) -> float:
    channels = (value / 255 for value in colour)
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
