"""Plots of metrics, as PNG and SVG: a colour-blind-safe palette, and never colour alone.

Needs matplotlib, which is the extra ``plot``. Colours: Okabe & Ito 2008.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tokur_cli.records.errors import TokurError
from tokur_cli.records.outputs import naming, replacing
from tokur_cli.views.visible import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1, 1)),
    (0, (5, 1, 1, 1)),
    (0, (8, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    "-",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
MOST_LINES = len(COLOURS)
RIGHT, WRONG = "#0072B2", "#D55E00"

_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.parse_math": False,  # a group's name may hold any $
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "tokur",
    "lines.linewidth": 1.6,
}


def require_matplotlib() -> None:
    """Say what to install; quieten what is installed: a first run or a read-only home does not matter here."""
    if find_spec("matplotlib") is None:
        raise TokurError("--plot needs matplotlib: pip install 'tokur[plot]'")
    if os.environ.get("TOKUR_DEBUG") != "1":
        logging.getLogger("matplotlib").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class Curve:
    """A line with its name; ``spread`` is a standard deviation at each point, drawn as a bar."""

    name: str
    x: Floats
    y: Floats
    spread: Floats | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """The values of one score of right and of wrong responses."""

    score: str
    right: Floats
    wrong: Floats


@dataclass(frozen=True, slots=True)
class Plane:
    """What lines are drawn in."""

    title: str
    x_label: str
    y_label: str
    markers: bool = False
    sizes: Sequence[int] | None = None  # values of N on a logarithmic axis; None for a linear one
    square: bool = False  # both axes from 0 to 1 at the same scale


def lines(path: str, drawn: Sequence[Curve], reference: Curve, plane: Plane) -> None:
    """Draw lines, at most ``MOST_LINES``.

    Args:
        path: the files' name without ``.png`` and ``.svg``.
        drawn: the lines, the most important first.
        reference: a line to compare with, drawn thin and grey.
        plane: what they are drawn in.
    """
    sizes = plane.sizes
    with _figure(path, 5.6, 4.8 if plane.square else 3.8) as figure:
        axes = figure.subplots()
        axes.plot(reference.x, reference.y, color="#767676", linewidth=1, linestyle=(0, (4, 3)), label=reference.name)
        for number, line in enumerate(drawn):
            colour = COLOURS[number]
            axes.plot(
                line.x,
                line.y,
                color=colour,
                linestyle=DASHES[number],
                label=line.name,
                marker=MARKERS[number] if plane.markers or len(line.x) == 1 else None,
                markersize=4.5,
            )
            if line.spread is not None:
                # Bars side by side: bands of so many lines would cover each other
                beside = line.x * 2 ** (0.03 * (number - (len(drawn) - 1) / 2)) if sizes is not None else line.x
                axes.errorbar(beside, line.y, yerr=line.spread, fmt="none", ecolor=colour, elinewidth=1, alpha=0.7)
        if sizes is not None:
            axes.set_xscale("log", base=2)
            axes.set_xticks(list(sizes), [str(size) for size in sizes])
            axes.minorticks_off()
        if plane.square:
            axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        axes.set(title=plane.title, xlabel=plane.x_label, ylabel=plane.y_label)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def distributions(path: str, splits: Sequence[Split], title: str) -> None:
    """Draw the distribution of each score for right and for wrong responses, one panel per score."""
    columns = min(3, len(splits))
    rows = -(-len(splits) // columns)
    with _figure(path, 2.9 * columns, 2.3 * rows + 0.5) as figure:
        panels = figure.subplots(rows, columns, squeeze=False)
        for panel in panels.flat[len(splits) :]:
            panel.set_axis_off()
        for number, (panel, split) in enumerate(zip(panels.flat, splits, strict=False)):
            _histogram(panel, split)
            panel.set_title(split.score)
            if number % columns == 0:
                panel.set_ylabel("density")
        handles, labels = panels.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
        figure.suptitle(title)


def plane(path: str, horizontal: Split, vertical: Split, title: str) -> None:
    """Draw right and wrong responses in the plane of two scores, with their distributions along the axes."""
    with _figure(path, 5.2, 4.9) as figure:
        grid = figure.add_gridspec(2, 2, width_ratios=(4, 1), height_ratios=(1, 4), wspace=0.05, hspace=0.05)
        axes = figure.add_subplot(grid[1, 0])
        sides = (figure.add_subplot(grid[0, 0], sharex=axes), figure.add_subplot(grid[1, 1], sharey=axes))
        for name, colour, marker, x, y in (
            ("wrong", WRONG, "x", horizontal.wrong, vertical.wrong),
            ("right", RIGHT, "o", horizontal.right, vertical.right),
        ):
            style: dict[str, Any] = {"facecolors": "none", "edgecolors": colour} if marker == "o" else {"color": colour}
            size = 22 if len(x) < 1000 else 6
            axes.scatter(
                x, y, s=size, marker=marker, linewidths=1, alpha=0.85, label=f"{name} ({len(x):,})",
                rasterized=len(x) > 5000, **style,
            )  # fmt: skip
        _histogram(sides[0], horizontal)
        _histogram(sides[1], vertical, along_y=True)
        for side in sides:
            side.set_axis_off()
        axes.set(xlabel=horizontal.score, ylabel=vertical.score)
        axes.locator_params(nbins=5)
        axes.legend(loc="best", frameon=True)
        figure.suptitle(title)


@dataclass(frozen=True, slots=True)
class GroupMetric:
    """A metric of groups: by score (G,) values, NaN where it is not defined; and what chance gets."""

    title: str
    values: Mapping[str, Floats]
    chance: float | None


def groups(
    path: str, names: Sequence[str], splits: Mapping[str, Sequence[Split]], metric: GroupMetric, title: str
) -> None:
    """Draw each score's distribution by group for right and wrong, with a metric by group above; one panel per score.

    Args:
        path: the files' name without ``.png`` and ``.svg``.
        names: the groups, G.
        splits: by score, one per group.
        metric: what is drawn above.
        title: what is shown.
    """
    width = max(3.0, 0.42 * len(names) + 1.2)
    with _figure(path, width * len(splits), 4.6) as figure:
        panels = figure.subplots(2, len(splits), squeeze=False, sharex=True, height_ratios=(1, 2))
        places = np.arange(len(names), dtype=np.float64)
        for panel in panels[0][1:]:
            panel.sharey(panels[0][0])
        for column, (score, parts) in enumerate(splits.items()):
            above, below = panels[0][column], panels[1][column]
            if metric.chance is not None:
                above.axhline(metric.chance, color="#767676", linewidth=1, linestyle=(0, (4, 3)))
            above.plot(places, metric.values[score], color="#000000", marker="o", markersize=4)
            above.set_title(score)
            for offset, name, colour, marker in ((-0.17, "right", RIGHT, "o"), (0.17, "wrong", WRONG, "x")):
                _boxes(below, places + offset, [getattr(part, name) for part in parts], name, colour, marker)
            below.set_xticks(places, list(map(picture, names)))
        panels[0][0].set_ylabel(metric.title)
        panels[1][0].set_ylabel("score")
        handles, labels = panels[1][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
        figure.suptitle(picture(title))


def _boxes(axes: Axes, places: Floats, values: Sequence[Floats], name: str, colour: str, marker: str) -> None:
    """Draw the median, thick from quartile to quartile, thin from the 5th to the 95th percentile."""
    held = [number for number, part in enumerate(values) if len(part)]
    if not held:
        return
    low, lower, median, upper, high = np.array(
        [np.quantile(values[place], (0.05, 0.25, 0.5, 0.75, 0.95)) for place in held]
    ).T
    axes.vlines(places[held], low, high, color=colour, linewidth=1)
    axes.vlines(places[held], lower, upper, color=colour, linewidth=4, alpha=0.45)
    face = "white" if marker == "o" else colour
    axes.scatter(places[held], median, marker=marker, facecolor=face, edgecolor=colour if marker == "o" else None,
                 s=26, zorder=3, label=f"{name}: median, quartiles, 5th to 95th percentile")  # fmt: skip


def _histogram(axes: Axes, split: Split, *, along_y: bool = False) -> None:
    """Draw densities of right (filled) and wrong (outlined, hatched) in common bins, less the outermost percent."""
    both = np.concatenate((split.right, split.wrong))
    low, high = np.quantile(both, (0.005, 0.995)) if len(both) else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    bins = np.linspace(low, high, 1 + int(np.clip(2 * len(both) ** (1 / 3), 8, 50)))
    direction: Any = "horizontal" if along_y else "vertical"
    parts: tuple[tuple[str, Floats, dict[str, Any]], ...] = (
        (f"right ({len(split.right):,})", split.right, {"color": RIGHT, "alpha": 0.4, "histtype": "stepfilled"}),
        (
            f"wrong ({len(split.wrong):,})",
            split.wrong,
            {"edgecolor": WRONG, "facecolor": "none", "histtype": "stepfilled", "hatch": "///", "linewidth": 1.3},
        ),
    )
    for name, values, style in parts:
        if len(values):
            density = np.full(len(values), 1.0 / (len(values) * (bins[1] - bins[0])))
            axes.hist(
                np.clip(values, low, high), bins=list(bins), weights=density, label=name, orientation=direction, **style
            )


@contextmanager
def _figure(path: str, width: float, height: float) -> Iterator[Figure]:
    """Give a figure that is saved as PNG and SVG when it is done."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        for form, options in (("png", {"dpi": 150}), ("svg", {"metadata": {"Date": None}})):
            with naming(path), replacing(Path(os.path.realpath(f"{path}.{form}"))) as new:
                figure.savefig(new, format=form, bbox_inches="tight", **options)
