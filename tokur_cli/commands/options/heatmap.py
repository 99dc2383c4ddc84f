"""The options of ``tokur heatmap`` alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from typer import Option

from tokur_cli.commands.options.marks import Excludes, Writes
from tokur_cli.commands.options.streams import check_report
from tokur_cli.records.errors import UsageError
from tokur_cli.scores.quantities import QUANTITIES


@dataclass(frozen=True)
class ChoiceOptions:
    """Which responses are shown, and in what order."""

    panel: ClassVar[str] = "Choice"

    ids: Annotated[list[str], Option("--id", metavar="ID", help="Only this question; repeatable.")] = field(
        default_factory=list
    )
    samples: Annotated[
        list[int], Option("--sample", metavar="N", help="Only this sample of a question; repeatable.")
    ] = field(default_factory=list)
    only: Annotated[
        Literal["correct", "incorrect"] | None,
        Option(metavar="LABEL", help="Only correct or incorrect responses, by label or reference."),
    ] = None
    by: Annotated[
        str | None,
        Option(metavar="SCORE", help="The least certain response first, by this score. Default: as in the input."),
    ] = None
    limit: Annotated[int | None, Option(min=1, metavar="N", help="At most this many responses, or pairs.")] = None
    compare: Annotated[
        bool, Option("--compare", help="A correct and an incorrect response, side by side."), Excludes("--only")
    ] = False

    def __str__(self) -> str:
        """Return the options that choose, as they are given."""
        words = [f"--id {name}" for name in self.ids] + [f"--sample {number}" for number in self.samples]
        return " ".join([*words, *([f"--only {self.only}"] if self.only else [])])


@dataclass(frozen=True)
class PictureOptions:
    """What is painted, and where: a page, a figure or, with neither, text."""

    panel: ClassVar[str] = "Picture"

    quantities: Annotated[
        str | None,
        Option(
            "--score",
            metavar="NAMES",
            help=f"Comma-separated quantities of tokens: {', '.join(QUANTITIES)}. Default: eu, or logprob where the "
            "first record has no eu.",
        ),
    ] = None
    range: Annotated[
        str | None,
        Option(
            metavar="LOW,HIGH",
            help="Ends of the scale; either may be left out. The default leaves out the least certain 1 % of tokens.",
        ),
    ] = None
    html: Annotated[str | None, Writes(), Option(metavar="FILE", help="Write a page for the browser: one file.")] = None
    svg: Annotated[str | None, Writes(), Option(metavar="FILE", help="Write a figure for a paper.")] = None
    theme: Annotated[
        Literal["auto", "dark", "light"],
        Option(metavar="THEME", help="Background of text and figure: auto, dark or light."),
    ] = "auto"
    detail: Annotated[bool, Option("--detail", help="Show all scores and steps, 20 uncertain tokens, and bars.")] = (
        False
    )

    def __post_init__(self) -> None:
        _ = self.ends
        check_report(self.html, ".svg", ".png", ".pdf")
        check_report(self.svg, ".html", ".png", ".pdf")

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The lowest and the highest value of the scale; None where it is that of the input."""
        if self.range is None:
            return None, None
        try:
            low, high = (float(end) if end.strip() else None for end in self.range.split(","))
        except ValueError:
            low = high = math.nan
        known = [end for end in (low, high) if end is not None]
        if not all(map(math.isfinite, known)) or (low is not None and high is not None and low >= high):
            raise UsageError(f"--range {self.range}: give the lowest and the highest value, such as 0,0.5")
        return low, high
