"""The plots of ``tokur evaluate``, on the records of all runs together, as PNG and SVG.

Needs matplotlib, which is the extra ``plot``. Colours that are told apart without colour vision: Okabe & Ito 2008.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tokur_cli.commands.evaluate.reading import Columns
from tokur_cli.commands.evaluate.results import Results
from tokur_cli.commands.evaluate.tables import VOTES, kept
from tokur_cli.metrics.catalogue import leading
from tokur_cli.metrics.ranking import Floats, ranked
from tokur_cli.metrics.scaling import Scaling
from tokur_cli.records.errors import TokurError
from tokur_cli.records.outputs import naming, replacing
from tokur_cli.views.visible import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "os^DvPX"
MOST_LINES = len(COLOURS)
RELIABILITY_POINTS = 10

_CLASSES = ((True, "correct", COLOURS[0], "o"), (False, "incorrect", COLOURS[1], "x"))
_DIAGONAL = (0.0, 1.0)
_GREY = "#767676"
_GROUP_PANELS = ("au", "tu", "eu")
_PLANES = (("eu_mean", "au_mean"), ("eu", "au"))
"""Axes of the plane: per token, as the paper's figure, where there are such scores, else the sums."""

_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.parse_math": False,  # a group's name may hold any $
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "tokur",
}


def require_matplotlib() -> None:
    """Say what to install; quieten what is installed: a first run or a read-only home does not matter here."""
    if find_spec("matplotlib") is None:
        raise TokurError("--plot needs matplotlib: pip install 'tokur[plot]'")
    if os.environ.get("TOKUR_DEBUG") != "1":
        logging.getLogger("matplotlib").setLevel(logging.ERROR)


def write_plots(runs: Sequence[Columns], results: Results, folder: str) -> None:
    """Write all plots that the records give into a folder, which is made if it is not there."""
    plots = _Plots(runs, results, folder)
    if not plots.best:
        raise TokurError("--plot: no labelled record has a score")
    if results.overall.is_binary:
        plots.roc()
    plots.risk()
    if probabilities := [name for name in plots.best if name in runs[0].probabilities]:
        plots.reliability(probabilities)
    plots.distributions()
    for pair in _PLANES:
        if pair[0] not in runs[0].probabilities and all(map(plots.have, pair)):
            plots.plane(*pair)
            break
    if results.groups:
        plots.groups()
    if results.scaling is not None:
        plots.scaling(results.scaling)


class _Plots:
    """The labelled records of all runs, the scores that are drawn, and where the plots go."""

    def __init__(self, runs: Sequence[Columns], results: Results, folder: str) -> None:
        self._runs, self._results, self._overall, self._folder = runs, results, results.overall, folder
        label = np.concatenate([np.array(run.label) for run in runs])
        self._labelled = np.isfinite(label)
        self._label = label[self._labelled]
        self._is_correct = self._label >= 0.5
        self._metric = leading(is_binary=self._overall.is_binary)
        self.best = self._best(results.options.versus)

    def _best(self, versus: str | None) -> list[str]:
        """Return the scores to draw, the best first: as many as can be told apart, the baseline among them."""

        def value(name: str) -> float:
            estimate = self._overall.scores[name].metrics[self._metric.name]
            return -math.inf if estimate.value is None else estimate.value

        having = [name for name, score in self._overall.scores.items() if score.records]  # and a label
        drawn = sorted(having, key=value, reverse=True)[: MOST_LINES - 1]
        if versus in having and versus not in drawn:
            drawn = [*drawn[: MOST_LINES - 2], versus]
        return drawn

    def have(self, score: str) -> bool:
        """Return whether any record has a score, shown or not."""
        return score in self._runs[0].scores and bool(np.isfinite(self._values(score)).any())

    def _values(self, score: str) -> Floats:
        """Return (N,) values of a score, NaN where a record has none."""
        values: Floats = np.concatenate([np.array(run.scores[score]) for run in self._runs])[self._labelled]
        return values

    def _ranked(self, score: str) -> tuple[Floats, Floats]:
        """Return the confidences and labels of the records that have the score."""
        values = np.concatenate([run.confidence(score) for run in self._runs])[self._labelled]
        held = np.isfinite(values)
        return values[held], self._label[held]

    def _split(self, values: Floats, correct: bool, members: NDArray[np.bool_] | None = None) -> Floats:
        """Return the values of the correct or the incorrect members (graded ones above or below one half)."""
        chosen = np.isfinite(values) & (self._is_correct == correct)
        split: Floats = values[chosen if members is None else chosen & members]
        return split

    def _named(self, score: str, metric: str) -> str:
        value = self._overall.scores[score].metrics[metric].value
        return score if value is None else f"{score} ({100 * value:.1f})"

    @property
    def _shown(self) -> str:
        total, drawn = len(self._overall.scores), len(self.best)
        return f"{drawn} of {total} scores" if drawn < total else "all scores" if total > 1 else self.best[0]

    def roc(self) -> None:
        """Draw the fraction of the correct records found against that of the incorrect ones taken for correct."""
        ranking = {score: self._ranked(score) for score in self.best}
        defined = [score for score, (_, label) in ranking.items() if 0 < label.sum() < len(label)]
        if not defined:
            return
        with self._lines("roc", square=True) as axes:
            _compare(axes, "chance (50)", _DIAGONAL, _DIAGONAL)
            for score in defined:
                sums = ranked(*ranking[score])
                right, every = (np.concatenate(([0.0], of[0])) for of in (sums.correct, sums.total))
                wrong = every - right
                axes.plot(wrong / wrong[-1], right / right[-1], label=self._named(score, "auroc"))
            axes.set(title=f"ROC, AUROC in % ({self._shown})")
            axes.set(xlabel="incorrect responses taken for correct", ylabel="correct responses found")

    def risk(self) -> None:
        """Draw the risk of what is answered against how much is answered."""
        count = np.arange(1, len(self._label) + 1)
        best = 1 - np.cumsum(np.sort(self._label)[::-1]) / count
        with self._lines("risk-coverage") as axes:
            _compare(axes, "perfect ranking", count / len(count), best)
            for score in self.best:
                sums = ranked(*self._ranked(score))
                coverage, risk = sums.total[0] / sums.total[0, -1], 1 - sums.correct[0] / sums.total[0]
                axes.plot(coverage, risk, label=self._named(score, "aurc"))
            axes.set(title=f"Risk and coverage, AURC in % ({self._shown})")
            axes.set(
                xlabel="coverage: fraction answered, the most confident first",
                ylabel="risk: fraction of these that is incorrect",
            )

    def reliability(self, probabilities: Sequence[str]) -> None:
        """Draw how often responses of a probability are correct: each point is as many records as any other."""
        with self._lines("reliability", square=True) as axes:
            _compare(axes, "as often as said", _DIAGONAL, _DIAGONAL)
            for score in probabilities:
                probability, label = self._ranked(score)
                order = np.argsort(probability, kind="stable")
                bins = np.array_split(order, min(RELIABILITY_POINTS, len(order)))
                said, right = ([values[places].mean() for places in bins] for values in (probability, label))
                error = [label[places].std() / math.sqrt(len(places)) for places in bins]
                axes.errorbar(said, right, yerr=error, elinewidth=1, markevery=1, label=self._named(score, "ece"))
            axes.set(title=f"Reliability, ECE in % ({RELIABILITY_POINTS} bins of equal size ± standard error)")
            axes.set(xlabel="probability of being correct", ylabel="fraction that is correct")

    def distributions(self) -> None:
        """Draw the distribution of each score for correct and for incorrect responses, one panel a score."""
        columns = min(3, len(self.best))
        rows = -(-len(self.best) // columns)
        with self._figure("distributions", 2.9 * columns, 2.3 * rows + 0.5) as figure:
            panels = figure.subplots(rows, columns, squeeze=False).flat
            for panel in panels[len(self.best) :]:
                panel.set_axis_off()
            for panel, score in zip(panels, self.best, strict=False):
                values = self._values(score)
                known = values[np.isfinite(values)]
                low, high = np.quantile(known, (0.005, 0.995)) if len(known) else (0.0, 1.0)
                bins = np.linspace(low, high if high > low else low + 1, 30).tolist()
                for correct, name, colour, _ in _CLASSES:
                    of_class = self._split(values, correct).clip(bins[0], bins[-1])  # the few beyond stand at the ends
                    fill: dict[str, Any] = {"edgecolor": colour, "facecolor": "none", "hatch": "///"}
                    if correct:
                        fill = {"color": colour, "alpha": 0.4}
                    if len(of_class):
                        label = f"{name} ({len(of_class):,})"
                        panel.hist(of_class, bins, density=True, histtype="stepfilled", label=label, **fill)
                panel.set(title=score, ylabel="density")
            what = "" if self._overall.is_binary else ", of quality ≥ ½ (correct) and < ½ (incorrect)"
            _share_legend(figure, panels[0], f"Scores of responses{what}")

    def plane(self, across: str, upward: str) -> None:
        """Draw the paper's plane, with all responses and, as in the paper, with equally many of both classes."""
        x, y = self._values(across), self._values(upward)
        both = np.isfinite(x) & np.isfinite(y)
        classes = [np.flatnonzero(both & (self._is_correct == correct)) for correct, *_ in _CLASSES]
        fewest = min(map(len, classes))
        balanced = [np.random.default_rng(0).choice(places, fewest, replace=False) for places in classes]
        for file, members in (("eu-au", classes), ("eu-au-balanced", balanced)):
            with self._figure(file, 5.2, 4.9) as figure:
                axes = figure.subplots()
                for those, (_, name, colour, marker) in reversed(list(zip(members, _CLASSES, strict=True))):
                    axes.plot(x[those], y[those], marker, color=colour, markerfacecolor="none",
                              markersize=4.5 if len(those) < 1000 else 2.5, label=f"{name} ({len(those):,})",
                              rasterized=len(those) > 5000)  # fmt: skip
                axes.set(title="Epistemic and aleatoric uncertainty (nats)", xlabel=across, ylabel=upward)
                axes.legend(frameon=True)

    def groups(self) -> None:
        """Draw a few scores' distributions by group for both classes, with the leading metric above."""
        groups, metric = self._results.groups, self._metric
        scores = [name for name in _GROUP_PANELS if name in self._overall.scores] or self.best[:3]
        of_record = np.array([name for run in self._runs for name in run.group], dtype=object)[self._labelled]
        width = max(3.0, 0.42 * len(groups) + 1.2)
        with self._figure("groups", width * len(scores), 4.6) as figure:
            panels = figure.subplots(2, len(scores), squeeze=False, sharex=True, height_ratios=(1, 2))
            places = np.arange(len(groups), dtype=np.float64)
            for above, below, score in zip(*panels, scores, strict=True):
                found = [one.scores[score].metrics[metric.name].value for one in groups.values()]
                if metric.chance is not None:
                    above.axhline(metric.chance, color=_GREY, linewidth=1, linestyle="--")
                above.plot(places, np.array(found, dtype=np.float64), color="black", marker="o", markersize=4)
                above.set(title=score, ylabel=metric.title)
                values = self._values(score)
                for offset, (correct, name, colour, marker) in zip((-0.17, 0.17), _CLASSES, strict=True):
                    boxes = [self._split(values, correct, of_record == group) for group in groups]
                    line = {"color": colour}
                    below.boxplot(boxes, positions=places + offset, widths=0.25, whis=(5, 95), showfliers=False,
                                  boxprops=line, whiskerprops=line, capprops=line, medianprops=line)  # fmt: skip
                    medians = [np.median(box) if len(box) else np.nan for box in boxes]
                    label = f"{name}: quartiles, 5th to 95th percentile"
                    below.plot(places + offset, medians, marker, color=colour, label=label)
                below.set_xticks(places, list(map(picture, groups)))
                below.set_ylabel("score")
            title = f"{metric.title} and scores by {self._results.options.grouping}"
            _share_legend(figure, panels[1][0], picture(title))

    def scaling(self, curves: Scaling) -> None:
        """Draw the accuracy of votes among N responses."""
        sizes = self._results.options.sizes
        for vote, name in VOTES.items():
            ways = [(score, score, vote) for score in self.best if (score, vote) in curves.accuracies]
            with self._lines(f"scaling-{vote}") as axes:
                one = curves.point(None, "pass@1", max(sizes)).value
                _compare(axes, "Pass@1", sizes, np.full(len(sizes), one, dtype=np.float64))
                for title, score, method in [*ways[: MOST_LINES - 1], ("majority of all N", None, "majority")]:
                    points = [curves.point(score, method, size) for size in sizes]
                    means = np.array([point.value for point in points], dtype=np.float64)  # NaN for None
                    axes.errorbar(sizes, means, [point.std or 0.0 for point in points], elinewidth=1, label=title)
                axes.set_xscale("log", base=2)
                axes.set_xticks(sizes, list(map(str, sizes)))
                axes.minorticks_off()
                axes.set(title=f"{name} {kept(self._results.options)}", xlabel="N responses per question")
                axes.set(ylabel="accuracy (mean ± std)")

    @contextmanager
    def _lines(self, file: str, *, square: bool = False) -> Iterator[Axes]:
        """Give axes for at most ``MOST_LINES`` lines, told apart without colours, too; square ones from 0 to 1."""
        with self._figure(file, 5.6, 4.8 if square else 3.8) as figure:
            axes = figure.subplots()
            axes.set_prop_cycle(color=COLOURS, marker=list(MARKERS), markevery=[0.12] * MOST_LINES)
            if square:
                axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
            yield axes
            axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))

    @contextmanager
    def _figure(self, file: str, width: float, height: float) -> Iterator[Figure]:
        """Give a figure that is saved as PNG and SVG when it is done."""
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        path = os.path.join(self._folder, file)
        with rc_context(_STYLE):
            figure = Figure(figsize=(width, height), layout="constrained")
            yield figure
            for form, options in (("png", {"dpi": 150}), ("svg", {"metadata": {"Date": None}})):
                with naming(path), replacing(Path(os.path.realpath(f"{path}.{form}"))) as new:
                    figure.savefig(new, format=form, bbox_inches="tight", **options)


def _compare(axes: Axes, name: str, x: Sequence[float] | Floats, y: Sequence[float] | Floats) -> None:
    """Draw a thin grey line to compare with."""
    axes.plot(x, y, color=_GREY, linewidth=1, linestyle="--", marker="", markevery=1, label=name)


def _share_legend(figure: Figure, panel: Axes, title: str) -> None:
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    figure.suptitle(title)
