"""What a heat map paints: the quantities that were asked for, and the palettes of them."""

from __future__ import annotations

from typing import cast, get_args

from tokur_cli.records.errors import UsageError, there_are
from tokur_cli.records.quantity import Quantity
from tokur_cli.scores.quantities import QUANTITIES
from tokur_cli.views.heatmap.colours import Palette


def choose_quantities(names: str) -> list[Quantity]:
    """Return the quantities of a comma-separated list, in its order."""
    asked = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    unknown = [name for name in asked if name not in QUANTITIES]
    if unknown or not asked:
        what = f"no quantity of single tokens is called {', '.join(unknown)}" if unknown else "--score names none"
        raise UsageError(what + there_are(QUANTITIES, *unknown))
    return [QUANTITIES[name] for name in asked]


def choose_palettes(names: str, count: int) -> list[Palette]:
    """Return the palettes of a comma-separated list, one for each of ``count`` quantities; a single one is for all."""
    asked = [name.strip() for name in names.split(",")]
    unknown = [name for name in asked if name not in get_args(Palette)]
    if unknown:
        raise UsageError(
            f"--palette: no palette is called {', '.join(unknown)}" + there_are(get_args(Palette), *unknown)
        )
    if len(asked) not in (1, count):
        raise UsageError(
            f"--palette names {len(asked)} palettes and --score {count} quantities: give one for each, or one for all"
        )
    return cast(list[Palette], asked * count if len(asked) == 1 else asked)
