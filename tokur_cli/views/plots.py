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
MARKERS = "os^DvPX"
MOST_LINES = len(COLOURS)

_CLASSES = (("correct", COLOURS[0], "o"), ("incorrect", COLOURS[1], "x"))
_GREY = "#767676"
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.parse_math": False,  # a group's name may hold any $
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "tokur",
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
    """The values of one score of correct and of incorrect responses."""

    score: str
    correct: Floats
    incorrect: Floats


@dataclass(frozen=True, slots=True)
class Plane:
    """What lines are drawn in."""

    title: str
    x_label: str
    y_label: str
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
    with _figure(path, 5.6, 4.8 if plane.square else 3.8) as figure:
        axes = figure.subplots()
        axes.plot(reference.x, reference.y, color=_GREY, linewidth=1, linestyle="--", label=reference.name)
        for line, colour, marker in zip(drawn, COLOURS, MARKERS, strict=False):
            every = max(1, len(line.x) // 8)  # so many markers tell lines apart without their colours
            axes.errorbar(
                line.x, line.y, yerr=line.spread, color=colour, label=line.name, marker=marker, markersize=4.5,
                markevery=every, elinewidth=1,
            )  # fmt: skip
        if plane.sizes is not None:
            axes.set_xscale("log", base=2)
            axes.set_xticks(list(plane.sizes), [str(size) for size in plane.sizes])
            axes.minorticks_off()
        if plane.square:
            axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
        axes.set(title=plane.title, xlabel=plane.x_label, ylabel=plane.y_label)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def distributions(path: str, splits: Sequence[Split], title: str) -> None:
    """Draw the distribution of each score for correct and for incorrect responses, one panel per score."""
    columns = min(3, len(splits))
    rows = -(-len(splits) // columns)
    with _figure(path, 2.9 * columns, 2.3 * rows + 0.5) as figure:
        panels = figure.subplots(rows, columns, squeeze=False).flat
        for panel in panels[len(splits) :]:
            panel.set_axis_off()
        for panel, split in zip(panels, splits, strict=False):
            both = np.concatenate((split.correct, split.incorrect))
            low, high = np.quantile(both, (0.005, 0.995)) if len(both) else (0.0, 1.0)
            bins = np.linspace(low, high if high > low else low + 1, 30).tolist()
            for name, colour, _ in _CLASSES:
                values = getattr(split, name)
                fill: dict[str, Any] = {"edgecolor": colour, "facecolor": "none", "hatch": "///"}
                if name == "correct":
                    fill = {"color": colour, "alpha": 0.4}
                label = f"{name} ({len(values):,})"
                if len(values):
                    panel.hist(values, bins, density=True, histtype="stepfilled", label=label, **fill)
            panel.set(title=split.score, ylabel="density")
        _share_legend(figure, panels[0], title)


def plane(path: str, horizontal: Split, vertical: Split, title: str) -> None:
    """Draw correct and incorrect responses in the plane of two scores."""
    with _figure(path, 5.2, 4.9) as figure:
        axes = figure.subplots()
        for name, colour, marker in reversed(_CLASSES):
            x, y = getattr(horizontal, name), getattr(vertical, name)
            axes.plot(x, y, marker, color=colour, markerfacecolor="none", markersize=4.5 if len(x) < 1000 else 2.5,
                      label=f"{name} ({len(x):,})", rasterized=len(x) > 5000)  # fmt: skip
        axes.set(title=title, xlabel=horizontal.score, ylabel=vertical.score)
        axes.legend(frameon=True)


@dataclass(frozen=True, slots=True)
class GroupMetric:
    """A metric of groups: by score (G,) values, NaN where it is not defined; and what chance gets."""

    title: str
    values: Mapping[str, Floats]
    chance: float | None


def groups(
    path: str, names: Sequence[str], splits: Mapping[str, Sequence[Split]], metric: GroupMetric, title: str
) -> None:
    """Draw each score's distribution by group for correct and incorrect, with a metric above; one panel per score.

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
        for above, below, (score, of_groups) in zip(*panels, splits.items(), strict=True):
            if metric.chance is not None:
                above.axhline(metric.chance, color=_GREY, linewidth=1, linestyle="--")
            above.plot(places, metric.values[score], color="black", marker="o", markersize=4)
            above.set(title=score, ylabel=metric.title)
            for offset, (name, colour, marker) in zip((-0.17, 0.17), _CLASSES, strict=True):
                boxes = [getattr(split, name) for split in of_groups]
                line = {"color": colour}
                below.boxplot(boxes, positions=places + offset, widths=0.25, whis=(5, 95), showfliers=False,
                              boxprops=line, whiskerprops=line, capprops=line, medianprops=line)  # fmt: skip
                medians = [np.median(values) if len(values) else np.nan for values in boxes]
                below.plot(
                    places + offset, medians, marker, color=colour, label=f"{name}: quartiles, 5th to 95th percentile"
                )
            below.set_xticks(places, list(map(picture, names)))
            below.set_ylabel("score")
        _share_legend(figure, panels[1][0], picture(title))


def _share_legend(figure: Figure, panel: Axes, title: str) -> None:
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    figure.suptitle(title)


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
