"""The paper's figures of several runs, as PNG and SVG, with matplotlib.

python3 figures.py table TABLE TO        what sigma.sh and temperature.sh print: uncertainties, and their AUROC
python3 figures.py votes TO VOTES…       what evaluate --scaling --as jsonl writes: accuracy, improvement, efficiency
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Points = Mapping[int, tuple[float, float]]  # the mean and the standard deviation at each N

COLOURS = ("#0072B2", "#D55E00", "#009E73")  # Okabe & Ito 2008
MARKERS, DASHES = ("o", "s", "^"), ("-", (0, (5, 1.5)), (0, (1, 1)))
GREY = "#767676"


def read_table(text: str) -> tuple[str, tuple[float, ...], dict[str, tuple[float, ...]], dict[str, float]]:
    """Return what varies, its values, the columns beneath it, and what is the same at all of them."""
    head, *lines = (line.split() for line in text.splitlines())
    names = ["TU", "AU", "EU", "AUROC of TU", "AUROC of AU", "AUROC of EU"]
    numbers = [line for line in lines if len(line) == 1 + len(names)]
    rows = [[math.nan if word == "-" else float(word) for word in line] for line in numbers]
    at, *columns = zip(*rows, strict=True)
    lasting = {line[0]: float(line[1]) for line in lines if len(line) == 2 and line[1] != "-"}
    return head[0], at, dict(zip(names, columns, strict=True)), lasting


def draw_table(path: str, to: str) -> None:
    """Draw the uncertainties on the left, on the right their AUROC beside that of the log-likelihood."""
    what, at, columns, lasting = read_table(Path(path).read_text(encoding="utf-8"))
    figure, (left, right) = panels(1, 2)
    for number, name in enumerate(("TU", "AU", "EU")):
        style = {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": DASHES[number], "label": name}
        left.plot(at, columns[name], **style)
        right.plot(at, [100 * value for value in columns[f"AUROC of {name}"]], **style)
    for (name, value), dash in zip(lasting.items(), DASHES[1:], strict=False):
        right.axhline(100 * value, color=GREY, linewidth=1, linestyle=dash, label=name)
    left.set(xlabel=what, ylabel="mean of a token (nats)", yscale="log")
    right.set(xlabel=what, ylabel="AUROC (%)")
    if what == "σ":
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xticks(at, [f"{value:g}" for value in at])
            axes.minorticks_off()
    save(figure, right, to)


def read_votes(path: str) -> tuple[dict[str, dict[int, tuple[float, float]]], float]:
    """Return Maj@N as {score: {N: (mean, standard deviation)}} and the accuracy of a single response, Pass@1."""
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    voted: dict[str, dict[int, tuple[float, float]]] = {}
    single = []
    for row in rows:
        for point in row.get("scaling", ()):
            if point["method"] == "maj" and row["score"] is not None:
                voted.setdefault(row["score"], {})[point["n"]] = (point["mean"], point["std"] or 0.0)
            elif point["method"] == "pass@1":
                single.append((point["n"], point["mean"]))
    return voted, max(single)[1]


def improvement(points: Points, single: float) -> dict[int, float]:
    """Return how much better N responses are than one, in points of accuracy."""
    return {size: 100 * (mean - single) for size, (mean, _) in points.items()}


def efficiency(points: Points, single: float) -> dict[int, float]:
    """Return the improvement over one response for each doubling of N."""
    return {size: gain / math.log2(size) for size, gain in improvement(points, single).items() if size > 1}


def draw_votes(to: str, paths: Sequence[str]) -> None:
    """Draw the accuracy, its improvement and the efficiency of each run, the scores one below the other."""
    runs = {Path(path).stem.removesuffix("-votes"): read_votes(path) for path in paths}
    scores = list(next(iter(runs.values()))[0])
    figure, grid = panels(len(scores), 3)
    for row, score in zip(grid.reshape(-1, 3), scores, strict=True):
        for number, (name, (voted, single)) in enumerate(runs.items()):
            points = voted[score]
            style = {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": DASHES[number], "label": name}
            means, deviations = zip(*points.values(), strict=True)
            row[0].errorbar(
                [size * 2 ** (0.05 * (number - 1)) for size in points],  # side by side, else bars cover each other
                [100 * mean for mean in means],
                yerr=[100 * value for value in deviations],
                elinewidth=0.8,
                **style,
            )
            for axes, of in ((row[1], improvement), (row[2], efficiency)):
                curve = of(points, single)
                axes.plot(list(curve), list(curve.values()), **style)
        row[0].axhline(100 * single, color=GREY, linewidth=1, linestyle=DASHES[1], label="Pass@1")
        row[0].set_ylabel(f"{score}: Maj@N (%)")
        row[1].set_ylabel("points above Pass@1")
        row[2].set_ylabel("points for each doubling of N")
        for axes in row:
            axes.set_xscale("log", base=2)
            axes.set_xticks(list(points), [str(size) for size in points])
            axes.minorticks_off()
    for axes, title in zip(grid.reshape(-1, 3)[0], ("accuracy", "improvement", "efficiency"), strict=True):
        axes.set_title(title)
    for axes in grid.reshape(-1, 3)[-1]:
        axes.set_xlabel("N responses to a question")
    save(figure, grid.flat[0], to)


def panels(rows: int, columns: int) -> tuple[Any, Any]:
    """Return a figure and its panels."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        sys.exit("figures.py: the figure needs matplotlib: python3 -m pip install matplotlib")
    style = {"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e3e3e3"}
    with rc_context(style):
        figure = Figure(figsize=(3.6 * columns, 2.6 * rows + 0.5), layout="constrained")
        return figure, figure.subplots(rows, columns)


def save(figure: Any, axes: Any, to: str) -> None:
    """Write a figure with a legend of what is in one panel."""
    from matplotlib import rc_context

    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "tokur"}):
        figure.savefig(f"{to}.png", dpi=150)
        figure.savefig(f"{to}.svg", metadata={"Date": None})


if __name__ == "__main__":
    if sys.argv[1] == "table":
        draw_table(*sys.argv[2:])
    else:
        draw_votes(sys.argv[2], sys.argv[3:])
