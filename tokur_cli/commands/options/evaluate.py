"""The options of ``tokur evaluate`` alone."""

from __future__ import annotations

import glob
import os
import sys
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from typer import Option

from tokur_cli.commands.options.files import Reads, Writes
from tokur_cli.commands.options.relations import Excludes
from tokur_cli.commands.options.scoring import explain_scores
from tokur_cli.commands.options.select import KEEP
from tokur_cli.records.errors import UsageError
from tokur_cli.records.outputs import check_target
from tokur_cli.records.streams import STDIN
from tokur_cli.selection.voting import Keep, parse_keep


@dataclass(frozen=True)
class EvaluationOptions:
    """What is evaluated, and how."""

    panel: ClassVar[str] = "Evaluation"

    scores: Annotated[
        str | None,
        Option(
            metavar="SCORES",
            help="Comma-separated scores, or all of them; default: one of each kind; help: a table. One of each kind: "
            "for each number that tokens have one score, the length, and what took more than the scoring's own passes. "
            "A line names the others, which --scaling and --level step show, too. The order is that of the table.",
            callback=explain_scores,
            is_eager=True,
        ),
        Excludes("--fit"),
    ] = None
    level: Annotated[
        Literal["response", "step", "question"],
        Option(
            help='What is labelled: whole responses, or parts of them, steps or claims. Parts are in "claims": '
            '[{"start": 0, "end": 12, "correct": true}, …], code points of the response, null where it is not known. '
            "question: the vote of a question's samples, by the mean of their scores."
        ),
    ] = "response"
    bootstrap: Annotated[
        int, Option(min=0, metavar="N", help="Resamples for 95 % intervals and comparisons; 0 for none.")
    ] = 1000
    versus: Annotated[
        str | None,
        Option(
            metavar="SCORE",
            help="Score that the others are compared with, on records that have both; for sums a sum: ll_sum. In words "
            "each is judged against it and the length, by default against ll_sum and the length.",
        ),
        Excludes("--fit"),
    ] = None
    group_by: Annotated[
        str | None,
        Option(metavar="FIELD", help="Also evaluate each value of this field (dots reach inward) separately."),
    ] = None
    difficulty: Annotated[
        int | None,
        Option(
            min=1,
            max=99,
            metavar="N",
            help="Also evaluate questions in groups, by how many of their first N samples are incorrect.",
        ),
        Excludes("--level=step", "--level=question"),
        Excludes("--group-by"),
    ] = None
    difficulty_from: Annotated[
        str | None,
        Reads(),
        Option(metavar="FILE", help="With --difficulty: the samples that tell, of another model; matched by id."),
    ] = None
    scaling: Annotated[
        str | None,
        Option(metavar="N,N,…", help="Maj@N, WBoN and Pass@N: accuracy of votes among N of each question's responses."),
        Excludes("--level=step", "--level=question"),
        Excludes("--fit"),
    ] = None
    repeats: Annotated[
        int,
        Option(min=1, metavar="N", help="With --scaling: draws for each N."),
    ] = 10
    keep: Annotated[
        str,
        Option(
            metavar="SHARE[,N]",
            help="With --scaling: the most confident part that votes, rounded up, and at least how many, as in tokur "
            "select. 10% alone is the paper's.",
        ),
    ] = KEEP
    stop_at: Annotated[
        str | None,
        Option(
            metavar="P,P,…",
            help="With --scaling: what votes of the largest N lose, and save, if samples are drawn only until the "
            "leading answer is the most frequent one with at least this probability, against every other answer and "
            "one not yet given.",
        ),
    ] = None
    seed: Annotated[int, Option(min=0, metavar="N", help="Seed of resamples and draws.")] = 0

    def __post_init__(self) -> None:
        _ = self.sizes, self.kept, self.levels

    @property
    def grouping(self) -> str | None:
        """What the groups are made by, in words; None without groups."""
        return self.group_by if self.difficulty is None else f"wrong samples of {self.difficulty}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The values of N for scaling, ascending; empty for none."""
        if self.scaling is None:
            return ()
        parts = [part.strip() for part in self.scaling.split(",") if part.strip()]
        if not parts or not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise UsageError(f"--scaling {self.scaling}: give numbers of responses, such as 16,32,64")
        return tuple(sorted({int(part) for part in parts}))

    @property
    def levels(self) -> tuple[float, ...]:
        """The probabilities at which a vote is settled, ascending; empty for none."""
        if self.stop_at is None:
            return ()
        try:
            found = sorted({float(part) for part in self.stop_at.split(",")})
        except ValueError:
            found = []
        if not found or not all(0.5 < level < 1 for level in found):
            raise UsageError(f"--stop-at {self.stop_at}: give probabilities between 0.5 and 1, such as 0.9,0.95")
        return tuple(found)

    @property
    def kept(self) -> Keep:
        """How many of the N responses are kept."""
        return parse_keep(self.keep)


def _results(path: str | None) -> list[str]:
    return [path or STDIN]


def _plots(folder: str | None) -> list[str]:
    """Return the plots that are in a folder: new ones may take their place."""
    if folder is None:
        return []
    return [path for end in ("png", "svg") for path in glob.glob(os.path.join(glob.escape(folder), f"*.{end}"))]


@dataclass(frozen=True)
class EvaluationOutput:
    """Where results go: None is standard output, as tables on a terminal and JSONL elsewhere."""

    panel: ClassVar[str] = "Output"

    path: Annotated[
        str | None,
        Writes(_results),
        Option("--output", "-o", metavar="FILE", help="Write a file, not standard output."),
    ] = None
    form: Annotated[
        Literal["table", "jsonl", "latex"] | None,
        Option("--as", help="latex is for booktabs. Default: table on a terminal, else jsonl, a line for each score."),
    ] = None
    plots: Annotated[
        str | None,
        Writes(_plots),
        Option("--plot", metavar="DIR", help="Write plots there, as PNG and SVG; needs the extra tokur[plot]."),
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
        Option("--force", help="Replace what the --graded or the --fit file holds."),
    ] = False

    def __post_init__(self) -> None:
        if self.graded is not None:
            check_target(self.graded, force=self.force)

    @property
    def is_table(self) -> bool:
        """Whether tables are printed."""
        return self.form == "table" or (self.form is None and self.path is None and sys.stdout.isatty())
