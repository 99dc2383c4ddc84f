"""The options of ``tokur heatmap`` alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from typer import Option

from tokur_cli.commands.options.files import Writes
from tokur_cli.commands.options.relations import Excludes
from tokur_cli.commands.options.streams import RecordOutput
from tokur_cli.records.streams import STDIN
from tokur_cli.scores.quantities import QUANTITIES

_OF_TEXT = Excludes("--html", "--svg")


@dataclass(frozen=True)
class ScaleOptions:
    """What is painted, and the ends of its scale."""

    panel: ClassVar[str] = "Scale"

    quantities: Annotated[
        str,
        Option(
            "--score",
            metavar="NAMES",
            help=f"Comma-separated quantities of single tokens: {', '.join(QUANTITIES)}.",
        ),
    ] = "eu"
    palettes: Annotated[
        str,
        Option(
            "--palette",
            metavar="NAME[,NAME]",
            help="The colours: cividis, red or green. One for each quantity of --score, in its order, or one for all.",
        ),
    ] = "cividis"
    vmin: Annotated[
        float | None, Option(metavar="NUMBER", help="Lowest value of the scale. Default: the lowest in the input.")
    ] = None
    vmax: Annotated[
        float | None,
        Option(metavar="NUMBER", help="Highest value of the scale. Default: the 0.99 quantile of the input's tokens."),
    ] = None


@dataclass(frozen=True)
class ChoiceOptions:
    """Which responses are shown, and in what order."""

    panel: ClassVar[str] = "Choice"

    ids: Annotated[
        list[str], Option("--id", metavar="ID", help="Only responses to this question; may be given several times.")
    ] = field(default_factory=list)
    samples: Annotated[
        list[int],
        Option("--sample", metavar="N", help="Only this sample of a question; may be given several times."),
    ] = field(default_factory=list)
    only: Annotated[
        Literal["correct", "incorrect"] | None,
        Option(
            help="Only right or only wrong ones, as the field correct (or a quality of 1 or 0) says, else by the "
            "reference."
        ),
    ] = None
    by: Annotated[
        str | None,
        Option(
            metavar="SCORE",
            help="The least certain response first, by this score of whole responses. Default: as in the input.",
        ),
    ] = None
    limit: Annotated[int | None, Option(min=1, metavar="N", help="At most this many responses, or pairs.")] = None
    compare: Annotated[
        bool,
        Option(
            "--compare",
            help="Two responses of each question side by side: a right and a wrong one if it has both.",
        ),
    ] = False

    def __str__(self) -> str:
        """Return the options that choose, as they are given."""
        parts = [f"--id {name}" for name in self.ids] + [f"--sample {number}" for number in self.samples]
        return " ".join([*parts, *([f"--only {self.only}"] if self.only else [])])


@dataclass(frozen=True)
class PictureOptions:
    """The picture: a page, a figure or, with neither, text; and how text looks."""

    panel: ClassVar[str] = "Picture"

    html: Annotated[
        str | None, Writes(), Option(metavar="FILE", help="Write a page for the browser: one file, no network.")
    ] = None
    svg: Annotated[str | None, Writes(), Option(metavar="FILE", help="Write a figure for a paper.")] = None
    color: Annotated[
        Literal["auto", "always", "never"], Option(help="auto: on a terminal, unless NO_COLOR is set."), _OF_TEXT
    ] = "auto"
    theme: Annotated[
        Literal["auto", "dark", "light"],
        Option(help="The background. auto: dark in the terminal, light in a figure."),
    ] = "auto"
    marks: Annotated[
        Literal["auto", "none", "bars", "values"],
        Option(help="Beside colour: bars under the text, or token[0.83]. auto: bars with fewer than 256 colours."),
        _OF_TEXT,
    ] = "auto"
    width: Annotated[
        int | None,
        Option(min=40, metavar="N", help="Columns. Default: the terminal's; 72 for each text in a figure."),
    ] = None
    top: Annotated[int, Option(min=0, metavar="N", help="Least sure tokens to list."), _OF_TEXT] = 5
    steps: Annotated[
        int, Option(min=0, metavar="N", help="Reasoning steps to list, the least sure ones."), _OF_TEXT
    ] = 12
    all_scores: Annotated[
        bool, Option("--all-scores", help="List all scores of the whole response, not just the main ones."), _OF_TEXT
    ] = False
    no_pager: Annotated[bool, Option("--no-pager", help="Do not page what is longer than the terminal."), _OF_TEXT] = (
        False
    )


def _standard_output(given: bool) -> list[str]:
    return [STDIN] if given else []


@dataclass(frozen=True)
class PassthroughOptions(RecordOutput):
    """Where the records go on to, unchanged; None is nowhere."""

    path: Annotated[
        str | None,
        Writes(),
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Pass the records on, unchanged, to this file; with - the picture goes to standard error.",
        ),
    ] = None
    passthrough: Annotated[
        bool,
        Writes(_standard_output),
        Option("--passthrough", help="The same as -o -."),
        Excludes("--output"),
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.passthrough:
            object.__setattr__(self, "path", STDIN)
