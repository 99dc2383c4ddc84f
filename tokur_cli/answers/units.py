"""The units that an answer may carry, and what they are worth.

Only unambiguous names are here: "pounds" may be money or mass, so it is not. A letter is a unit after a plain number
alone: math-verify reads past it too, so that ``5m`` equals 5 but is not ``5 cm``. A word that is not
here (``apples``, ``per day``) is read past and never compared.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class Unit(NamedTuple):
    """A unit: its dimension and its worth in that dimension's base."""

    dimension: str
    factor: Fraction


SCALES: dict[str, Fraction] = {
    name: Fraction(scale)
    for scale, names in {
        "1/100": "% percent percentage pct",
        "1000": "thousand",
        "1000000": "million",
        "1000000000": "billion",
        "1000000000000": "trillion",
    }.items()
    for name in names.split()
}

_TABLE: dict[tuple[str, str], str] = {
    ("dollar", "1"): "$ dollar dollars usd",
    ("dollar", "1/100"): "cent cents ¢",
    ("euro", "1"): "€ euro euros eur",
    ("pound", "1"): "£ gbp",
    ("yen", "1"): "¥ yen jpy",
    ("rupee", "1"): "₹ rupee rupees inr",
    ("length", "1/1000"): "mm millimeter millimeters millimetre millimetres",
    ("length", "1/100"): "cm centimeter centimeters centimetre centimetres",
    ("length", "1"): "m meter meters metre metres",
    ("length", "1000"): "km kilometer kilometers kilometre kilometres",
    ("length", "0.0254"): "in inch inches",
    ("length", "0.3048"): "ft foot feet",
    ("length", "0.9144"): "yard yards",
    ("length", "1609.344"): "mile miles",
    ("mass", "1/1000000"): "mg milligram milligrams",
    ("mass", "1/1000"): "g gram grams",
    ("mass", "1"): "kg kilogram kilograms",
    ("mass", "0.028349523125"): "oz ounce ounces",
    ("mass", "0.45359237"): "lb lbs",
    ("time", "1"): "s sec secs second seconds",
    ("time", "60"): "min mins minute minutes",
    ("time", "3600"): "h hr hrs hour hours",
    ("time", "86400"): "day days",
    ("time", "604800"): "week weeks",
    ("year", "1"): "year years yr yrs",
    ("year", "1/12"): "month months",
    ("volume", "1/1000"): "ml milliliter milliliters millilitre millilitres",
    ("volume", "1"): "l liter liters litre litres",
    ("angle", "1"): "degree degrees °",
    ("radian", "1"): "radian radians rad",
    ("speed", "1"): "mph",
}

UNITS: dict[str, Unit] = {
    name: Unit(dimension, Fraction(factor)) for (dimension, factor), names in _TABLE.items() for name in names.split()
}

CURRENCY = "$€£¥₹"

_POWERS = {"square": 2, "sq": 2, "cubic": 3}


def unit_of(words: list[str], power: int = 1) -> Unit | None:
    """Return the unit that ``words`` name, or None for words that name none we know.

    Args:
        words: what stands after a number, in lower case: ``["square", "centimeters"]``, ``["°"]``.
        power: an exponent written after it, 2 in ``cm^2``.
    """
    if words and words[0] in _POWERS:
        power, words = _POWERS[words[0]], words[1:]
    # "5 miles per hour" is not a length, so a unit stands alone.
    unit = UNITS.get(words[0].strip(".")) if len(words) == 1 else None
    if unit is None or power == 1:
        return unit
    return Unit(f"{unit.dimension}^{power}", unit.factor**power)
