"""The steps can be told apart by everyone and text on them can be read."""

import math
from itertools import pairwise

import pytest
from rich.color import EIGHT_BIT_PALETTE, Color, ColorSystem

from tokur_cli.views.heatmap.colours import HEX_STEPS, STEPS, colour_steps

# Machado, Oliveira & Fernandes 2009, severity 1.0, on linear RGB.
DEFICIENCIES = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
}
every_palette = pytest.mark.parametrize("palette", ["cividis", "red", "green"])


def rgb_of(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    return tuple(bytes.fromhex(digits))


def contrast(one, other):
    """The contrast ratio of WCAG 2.2."""
    darker, lighter = sorted(
        sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(rgb), strict=True)) for rgb in (one, other)
    )
    return (lighter + 0.05) / (darker + 0.05)


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


def steps(palette, theme, system="truecolor"):
    """(background, text) of the steps as a terminal of that many colours shows them."""
    pairs = [[rgb_of(colour) for colour in pair] for pair in colour_steps(palette, theme)]
    if system == "truecolor":
        return pairs
    return [
        [tuple(EIGHT_BIT_PALETTE[Color.from_rgb(*rgb).downgrade(ColorSystem.EIGHT_BIT).number]) for rgb in pair]
        for pair in pairs
    ]


def test_contrast_is_that_of_wcag():
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)
    assert contrast((10, 20, 30), (10, 20, 30)) == 1


@every_palette
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("system", ["truecolor", "256"])
def test_text_on_every_step_has_a_contrast_of_at_least_4_5(palette, theme, system):
    assert len(steps(palette, theme, system)) == STEPS == 8
    for back, ink in steps(palette, theme, system):
        assert contrast(back, ink) >= 4.5


@every_palette
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_black_or_white_whichever_reads_better(palette, theme):
    for back, ink in steps(palette, theme):
        assert contrast(back, ink) == max(contrast(back, (0, 0, 0)), contrast(back, (255, 255, 255)))


@every_palette
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_256_colours_keep_the_order_of_lightness(palette, theme):
    lightness = [oklab(linear(back))[0] for back, _ in steps(palette, theme, "256")]
    assert lightness == sorted(lightness, reverse=theme == "light")
    assert len(set(lightness)) >= 7


@every_palette
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_eye_sees_the_steps_apart_and_in_order(palette, theme, deficiency):
    colours = [seen(back, deficiency) for back, _ in steps(palette, theme)]
    lightness = [colour[0] for colour in colours]
    assert lightness == sorted(lightness, reverse=theme == "light")
    gaps = [math.dist(one, other) for one, other in pairwise(colours)]
    assert min(gaps) > 0.06


@every_palette
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_steps_are_even_in_oklab(palette, theme):
    colours = [oklab(linear(back)) for back, _ in steps(palette, theme)]
    gaps = [math.dist(one, other) for one, other in pairwise(colours)]
    assert max(gaps) < 1.25 * min(gaps)


def test_the_unsure_ends_are_those_of_cividis():
    assert HEX_STEPS["cividis"]["dark"][-1] == "#fee838"
    assert HEX_STEPS["cividis"]["light"][-1] == "#00224e"


@pytest.mark.parametrize(("palette", "channel"), [("red", 0), ("green", 1)])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("system", "lead"), [("truecolor", 1.3), ("256", 1)])
def test_red_is_red_and_green_is_green(palette, channel, theme, system, lead):
    for rgb, _ in steps(palette, theme, system)[2:7]:
        assert all(rgb[channel] >= lead * other for place, other in enumerate(rgb) if place != channel)
