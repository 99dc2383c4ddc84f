"""The options of ``tokur evaluate`` alone."""

from __future__ import annotations

import glob
import os
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from typer import Option

from tokur_cli.commands.options import panels
from tokur_cli.commands.options.completion import one_of, score_names, several_of
from tokur_cli.commands.options.files import Reads, Writes
from tokur_cli.commands.options.scoring import explain_scores
from tokur_cli.records.errors import UsageError
from tokur_cli.records.outputs import check_target
from tokur_cli.records.streams import STDIN
from tokur_cli.scores.steps import regular_expression
from tokur_cli.selection.voting import parse_keep


@dataclass(frozen=True)
class EvaluationOptions:
    """What is evaluated, and how.

    Raises:
        UsageError: ``sizes`` are not whole numbers from 1, ``kept_part`` is not above 0 % and up to 100 %, ``tokens``
            is no regular expression, or options do not go together.
    """

    panel: ClassVar[str] = panels.EVALUATION

    scores: Annotated[
        str | None,
        Option(
            metavar="SCORES",
            help="Comma-separated scores; default: all that the records have; help: a table of them.",
            callback=explain_scores,
            autocompletion=several_of(score_names, "help"),
            is_eager=True,
        ),
    ] = None
    level: Annotated[
        Literal["response", "step"],
        Option(
            help='What is right or wrong: whole responses, or parts of them, steps or claims. Parts are in "claims": '
            '[{"start": 0, "end": 12, "correct": true}, …], code points of the response, null where it is not known.'
        ),
    ] = "response"
    tokens: Annotated[
        str | None,
        Option(
            metavar="REGEX",
            help="Scores of only the tokens whose text holds a match, such as \\d for those with digits, from the "
            "records' token arrays.",
        ),
    ] = None
    bootstrap: Annotated[
        int, Option(min=0, metavar="N", help="Resamples for 95 % intervals and comparisons; 0 for none.")
    ] = 1000
    versus: Annotated[
        str | None,
        Option(
            metavar="SCORE",
            autocompletion=one_of(score_names),
            help="Score that the others are compared with, on records that have both; for sums a sum: ll_sum.",
        ),
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
            help="Also evaluate questions in groups, by how many of their first N samples are wrong.",
        ),
    ] = None
    difficulty_from: Annotated[
        str | None,
        Reads(),
        Option(metavar="FILE", help="With --difficulty: the samples that tell, of another model; matched by id."),
    ] = None
    scaling: Annotated[
        str | None,
        Option(metavar="N,N,…", help="Accuracy of votes among N of the responses to each question."),
    ] = None
    given_repeats: Annotated[
        int | None, Option("--repeats", min=1, metavar="N", help="With --scaling: draws for each N. Default: 10.")
    ] = None
    keep: Annotated[
        str | None,
        Option(
            metavar="PERCENT",
            help="With --scaling: the most confident part of the N, which votes; rounded up. Default: 10%.",
        ),
    ] = None
    seed: Annotated[int, Option(min=0, metavar="N", help="Seed of resamples and draws.")] = 0
    worst: Annotated[
        int | None,
        Option(
            min=1,
            metavar="N",
            help="List the N responses that are least sure by a score (--scores, eu by default); nothing is "
            "evaluated. Each with its answer, right or wrong, and its least sure step.",
        ),
    ] = None

    def __post_init__(self) -> None:
        _ = self.sizes, self.kept_part
        if self.tokens is not None:
            regular_expression(self.tokens, "--tokens")
        of_responses = {"--scaling": self.scaling is not None, "--difficulty": self.difficulty is not None}
        for option in (name for name, given in of_responses.items() if given):
            if self.level == "step":
                raise UsageError(f"{option} is for whole responses, not for --level step")
        if self.difficulty_from is not None and self.difficulty is None:
            raise UsageError("--difficulty-from goes with --difficulty N: how many samples of a question count?")
        for option, value in (("--repeats", self.given_repeats), ("--keep", self.keep)):
            if value is not None and self.scaling is None:
                raise UsageError(f"{option} is about votes among N responses: say how many with --scaling N,N,…")
        if self.difficulty is not None and self.group_by is not None:
            raise UsageError("--difficulty and --group-by both make groups: give one of them")

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
    def kept_part(self) -> Fraction:
        """The part of the N responses that is kept."""
        return parse_keep("10%" if self.keep is None else self.keep)

    @property
    def repeats(self) -> int:
        """How often N responses are drawn."""
        return self.given_repeats or 10


def _plots(folder: str | None) -> list[str]:
    """Return the plots that are in a folder: new ones may take their place."""
    if folder is None:
        return []
    return [path for end in ("png", "svg") for path in glob.glob(os.path.join(glob.escape(folder), f"*.{end}"))]


@dataclass(frozen=True)
class EvaluationOutput:
    """Where results go: None is standard output, as tables on a terminal and JSONL elsewhere.

    Raises:
        UsageError: the options do not go together, or the file of records has something in it that may not be replaced.
    """

    panel: ClassVar[str] = panels.OUTPUT

    path: Annotated[
        str | None, Writes(), Option("--output", "-o", metavar="FILE", help="Write a file, not standard output.")
    ] = None
    table: Annotated[bool, Option("--table", help="Tables, as on a terminal.")] = False
    json: Annotated[bool, Option("--jsonl", "--json", help="JSONL, one line per score, as in a pipe.")] = False
    latex: Annotated[bool, Option("--latex", help="Tables for booktabs.")] = False
    csv: Annotated[bool, Option("--csv", help="CSV, one row per score and group.")] = False
    plots: Annotated[
        str | None,
        Writes(_plots),
        Option("--plot", metavar="DIR", help="Write plots there, as PNG and SVG; needs the extra tokur[plot]."),
    ] = None
    graded: Annotated[
        str | None, Writes(), Option(metavar="FILE", help='Write the records with "correct" and "tokur.answer".')
    ] = None
    force: Annotated[bool, Option("--force", help="Replace what the --graded or the --fit file holds.")] = False

    def __post_init__(self) -> None:
        if self.table + self.json + self.latex + self.csv > 1:
            raise UsageError("--table, --jsonl, --latex and --csv cannot go together: give one of them")
        if self.graded == STDIN and self.path is None:
            raise UsageError("--graded - would mix records and results: give one of them a file, with -o or --graded")
        if self.graded is not None:
            check_target(self.graded, force=self.force)

    @property
    def is_table(self) -> bool:
        """Whether tables are printed."""
        return self.form == "table" or (self.form is None and self.path is None and sys.stdout.isatty())

    @property
    def form(self) -> Literal["table", "json", "latex", "csv"] | None:
        """The form that was asked for; None for tables on a terminal and JSONL elsewhere."""
        return (
            "table" if self.table else "json" if self.json else "latex" if self.latex else "csv" if self.csv else None
        )
