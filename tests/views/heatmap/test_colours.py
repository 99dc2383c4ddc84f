"""The steps can be told apart by everyone and text on them can be read."""

import math
from itertools import pairwise

import pytest

from tokur_cli.views.heatmap.colours import (
    ANSI_STEPS,
    HEX_STEPS,
    STEPS,
    XTERM_STEPS,
    contrast,
    rgb_of_hex,
    rgb_of_xterm,
    text_on,
)

# Machado, Oliveira & Fernandes 2009, severity 1.0, on linear RGB.
DEFICIENCIES = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
}
# Default palettes of xterm, VGA consoles and Windows Terminal ("Campbell") for the colours in use.
PALETTES = {
    "xterm": {0: "#000000", 4: "#0000ee", 6: "#00cdcd", 7: "#e5e5e5", 11: "#ffff00", 15: "#ffffff"},
    "vga": {0: "#000000", 4: "#0000aa", 6: "#00aaaa", 7: "#aaaaaa", 11: "#ffff55", 15: "#ffffff"},
    "campbell": {0: "#0c0c0c", 4: "#0037da", 6: "#3a96dd", 7: "#cccccc", 11: "#f9f1a5", 15: "#f2f2f2"},
}
REDS_AND_GREENS = {
    "xterm": {1: "#cd0000", 2: "#00cd00", 9: "#ff0000", 10: "#00ff00"},
    "vga": {1: "#aa0000", 2: "#00aa00", 9: "#ff5555", 10: "#55ff55"},
    "campbell": {1: "#c50f1f", 2: "#13a10e", 9: "#e74856", 10: "#16c60c"},
}
every_palette = pytest.mark.parametrize("palette", ["cividis", "red", "green"])


def linear(rgb):
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (value / 255 for value in rgb)]


def oklab(linear_rgb):
    """Ottosson 2020."""
    r, g, b = (max(0.0, channel) for channel in linear_rgb)
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    medium = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def seen(rgb, deficiency):
    return oklab([sum(w * c for w, c in zip(row, linear(rgb), strict=True)) for row in DEFICIENCIES[deficiency]])


def steps(palette, theme, system):
    if system == "256":
        return [rgb_of_xterm(index) for index in XTERM_STEPS[palette][theme]]
    return [rgb_of_hex(colour) for colour in HEX_STEPS[palette][theme]]


def test_contrast_is_that_of_wcag():
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)
    assert contrast((10, 20, 30), (10, 20, 30)) == 1


@every_palette
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("system", ["truecolor", "256"])
def test_text_on_every_step_has_a_contrast_of_at_least_4_5(palette, theme, system):
    assert len(steps(palette, theme, system)) == STEPS == 8
    for rgb in steps(palette, theme, system):
        assert contrast(rgb, text_on(rgb)) >= 4.5


def test_black_or_white_reads_on_any_grey():
    assert min(contrast((grey,) * 3, text_on((grey,) * 3)) for grey in range(256)) >= 4.5


@every_palette
@pytest.mark.parametrize("terminal", PALETTES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_16_colours_keep_their_order_and_contrast_in_common_palettes(theme, terminal, palette):
    known = PALETTES[terminal] | REDS_AND_GREENS[terminal]
    used = ANSI_STEPS[palette][theme]
    assert len(used) == STEPS
    pairs = [(known[back], known[ink]) for back, ink in used if back is not None and ink is not None]
    lightness = [oklab(linear(rgb_of_hex(back)))[0] for back, _ in pairs]
    assert lightness == sorted(lightness, reverse=theme == "light")
    assert all(contrast(rgb_of_hex(back), rgb_of_hex(ink)) >= 4.5 for back, ink in pairs)


@every_palette
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("system", ["truecolor", "256"])
def test_every_eye_sees_the_steps_apart_and_in_order(palette, theme, system, deficiency):
    colours = [seen(rgb, deficiency) for rgb in steps(palette, theme, system)]
    lightness = [colour[0] for colour in colours]
    assert lightness == sorted(lightness, reverse=theme == "light")
    gaps = [math.dist(one, other) for one, other in pairwise(colours)]
    assert min(gaps) > 0.06


@every_palette
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_steps_are_even_in_oklab(palette, theme):
    colours = [oklab(linear(rgb)) for rgb in steps(palette, theme, "truecolor")]
    gaps = [math.dist(one, other) for one, other in pairwise(colours)]
    assert max(gaps) < 1.25 * min(gaps)


def test_the_unsure_ends_are_those_of_cividis():
    assert HEX_STEPS["cividis"]["dark"][-1] == "#fee838"
    assert HEX_STEPS["cividis"]["light"][-1] == "#00224e"


@pytest.mark.parametrize(("palette", "channel"), [("red", 0), ("green", 1)])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("system", ["truecolor", "256"])
def test_red_is_red_and_green_is_green(palette, channel, theme, system):
    for rgb in steps(palette, theme, system)[2:7]:
        assert all(rgb[channel] >= 1.3 * other for place, other in enumerate(rgb) if place != channel)


def test_xterm_colours_are_those_of_the_cube_and_the_greys():
    assert [rgb_of_xterm(index) for index in (16, 21, 231, 232, 255, 144)] == [
        (0, 0, 0), (0, 0, 255), (255, 255, 255), (8, 8, 8), (238, 238, 238), (175, 175, 135)
    ]  # fmt: skip
