"""The options of ``tokur evaluate`` alone."""

from __future__ import annotations

import glob
import os
import sys
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from typer import Option

from tokur_cli.commands.options.marks import Excludes, Needs, Rare, Reads, Writes, exact_share, number, share
from tokur_cli.commands.options.scoring import explain_scores
from tokur_cli.commands.options.select import KEEP, parse_keep
from tokur_cli.commands.options.streams import OUTPUT, check_report
from tokur_cli.records.errors import UsageError
from tokur_cli.records.outputs import check_target
from tokur_cli.records.streams import STDIN
from tokur_cli.selection.voting import Keep

_RESULTS = Writes(lambda path: [path or STDIN])


@dataclass(frozen=True)
class EvaluationOptions:
    """What is evaluated, and how."""

    panel: ClassVar[str] = "Evaluation"

    scores: Annotated[
        str | None,
        Option(
            metavar="SCORES",
            help="Comma-separated scores, all, or help, which prints a table. Default: one of each kind.",
            callback=explain_scores,
            is_eager=True,
        ),
        Excludes("--fit"),
    ] = None
    level: Annotated[
        Literal["response", "step", "question"],
        Option(
            metavar="LEVEL",
            help='What is labelled: response; step, spans of it in "claims", or --label-field: [{"start": 0, "end": 9, '
            '"correct": true}, …]; question, the vote of its samples, by the mean of their scores.',
        ),
    ] = "response"
    bootstrap: Annotated[int, Option(min=0, metavar="N", help="Resamples for 95 % intervals; 0 for none.")] = 1000
    versus: Annotated[
        str | None,
        Option(metavar="SCORE", help="Score that the others are compared with, on records that have both."),
        Excludes("--fit"),
    ] = None
    group_by: Annotated[str | None, Option(metavar="FIELD", help="Also evaluate each value of this field.")] = None
    difficulty: Annotated[
        int | None,
        Option(
            min=1, max=99, metavar="N", help="Also evaluate groups, by how many of a question's first N are incorrect."
        ),
        Excludes("--level=step", "--level=question", "--group-by"),
    ] = None
    difficulty_from: Annotated[
        str | None,
        Reads(),
        Needs("--difficulty"),
        Option(metavar="FILE", help="Difficulty by the responses in this file, of the same ids."),
    ] = None
    scaling: Annotated[
        str | None,
        Option(metavar="N,N,…", help="Maj@N, WBoN and Pass@N: accuracy of votes among N of each question's responses."),
        Excludes("--level=step", "--level=question", "--fit"),
    ] = None
    repeats: Annotated[int, Needs("--scaling"), Option(min=1, metavar="N", help="Draws for each N of --scaling.")] = 10
    keep: Annotated[
        str, Needs("--scaling"), Option(metavar="SHARE[,N]", help="As in select, for the votes of --scaling.")
    ] = KEEP
    stop_at: Annotated[
        str | None, Needs("--scaling"), Option(metavar="P,P,…", help="What generate --stop-at would lose, and save.")
    ] = None
    seed: Annotated[int, Option(min=0, metavar="N", help="Seed of resamples and draws.")] = 0

    def __post_init__(self) -> None:
        _ = self.sizes, self.kept, self.levels

    @property
    def grouping(self) -> str | None:
        """What the groups are made by, in words; None without groups."""
        return self.group_by if self.difficulty is None else f"incorrect samples of {self.difficulty}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The values of N for scaling, ascending; empty for none."""
        sizes = list(map(number, self.scaling.split(","))) if self.scaling is not None else []
        if not all(size > 0 and size.is_integer() for size in sizes):
            raise UsageError(f"--scaling {self.scaling}: give numbers of responses, such as 16,32,64")
        return tuple(sorted(map(int, {*sizes})))

    @property
    def levels(self) -> tuple[float, ...]:
        """The probabilities at which a vote is settled, ascending; empty for none."""
        levels = [exact_share(one) or 0 for one in self.stop_at.split(",")] if self.stop_at is not None else []
        if not all(0.5 < level < 1 for level in levels):
            raise UsageError(f"--stop-at {self.stop_at}: give probabilities between 0.5 and 1, such as 0.9,0.95")
        return tuple(sorted(map(float, {*levels})))

    @property
    def kept(self) -> Keep:
        """How many of the N responses are kept."""
        return parse_keep(self.keep)


@dataclass(frozen=True)
class FitOptions:
    """What labels are for: a calibration, of what it is fitted and where it goes, or a guarantee and how sure it is."""

    panel: ClassVar[str] = "Calibration and certificate"

    file: Annotated[
        str | None,
        Writes(),
        Option("--fit", metavar="FILE", help="Fit what score --calibration takes; evaluate it on left-out questions."),
        Excludes("--level=step", "--level=question"),
    ] = None
    by: Annotated[
        str | None,
        Option(
            metavar="SCORES",
            help="Scores that --fit combines (default: eu,ll_sum,neg_length), or the one for --certify (eu).",
        ),
        Needs("--fit", "--certify"),
    ] = None
    fit_method: Annotated[
        Literal["platt", "isotonic", "logistic"] | None,
        Rare(),
        Needs("--fit"),
        Option(metavar="HOW", help="platt or isotonic (one score), or logistic (several)."),
    ] = None
    risk: Annotated[
        float | None,
        Option(
            "--certify",
            parser=share,
            metavar="SHARE",
            help="Find the threshold of a score above which at most this share of the answers given is incorrect, for "
            "select --certificate. 5% takes 59 labelled questions, more with errors.",
        ),
        Excludes("--fit", "--as=latex", "--plot"),
    ] = None
    confidence: Annotated[
        float,
        Option(parser=share, metavar="SHARE", help="How surely this holds, over the labelled questions."),
        Needs("--certify"),
    ] = 0.95

    def __post_init__(self) -> None:
        for option, value in (("--certify", self.risk), ("--confidence", self.confidence)):
            if value in (0, 1):
                raise UsageError(f"{option} {value:g}: give a share between 0% and 100%")


def _plots(folder: str | None) -> list[str]:
    """Return the plots that are in a folder: new ones may take their place."""
    if folder is None:
        return []
    return [path for end in ("png", "svg") for path in glob.glob(os.path.join(glob.escape(folder), f"*.{end}"))]


@dataclass(frozen=True)
class EvaluationOutput:
    """Where results go: None is standard output, as tables on a terminal and JSONL elsewhere."""

    panel: ClassVar[str] = "Output"

    path: Annotated[str | None, _RESULTS, OUTPUT] = None
    form: Annotated[
        Literal["table", "jsonl", "latex"] | None,
        Option("--as", metavar="FORM", help="table, jsonl or latex (booktabs). Default: table on a terminal."),
    ] = None
    plots: Annotated[
        str | None,
        Writes(_plots),
        Option("--plot", metavar="DIR", help="Write plots there, PNG and SVG; needs tokur[plot]."),
        Excludes("--level=step"),
    ] = None
    graded: Annotated[
        str | None,
        Writes(),
        Option(metavar="FILE", help='Write the records with "correct" and "tokur.answer".'),
        Excludes("--level=step"),
    ] = None
    force: Annotated[
        bool,
        Needs("--graded", "--fit", "--output"),
        Option("--force", help="Replace what a --graded or --fit file holds."),
    ] = False

    def __post_init__(self) -> None:
        check_report(self.path)
        if self.plots is not None and os.path.isfile(self.plots):
            raise UsageError(f"--plot {self.plots}: is a file: give a folder")
        if self.graded is not None:
            check_target(self.graded, force=self.force)

    @property
    def is_table(self) -> bool:
        """Whether tables are printed."""
        return self.form == "table" or (self.form is None and self.path is None and sys.stdout.isatty())
