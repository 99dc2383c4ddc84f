"""Where records come from and where they go."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from typer import Option

from tokur_cli.commands.options.marks import Excludes, Needs, Rare, Reads, Writes
from tokur_cli.records.errors import UsageError
from tokur_cli.records.outputs import check_target
from tokur_cli.records.streams import MAX_LINE, STDIN

_FIELDS = "Where each of these stands (a.b.0 reaches into objects and lists)."
OUTPUT = Option("--output", "-o", metavar="FILE", help="Write a file, not standard output.")


@dataclass(frozen=True)
class InputOptions:
    """How records are read and what is done about bad ones.

    ``path`` is the command's argument; ``asked`` is a question that stands in its place.
    """

    panel: ClassVar[str] = "Input"

    path: str = STDIN
    asked: str | None = None
    format: Annotated[
        str,
        Option(
            metavar="NAME",
            help="Input format; auto is recognised from the first record, an unknown one lists all. lm-eval:NAME reads "
            "the rows of this filter.",
        ),
    ] = "auto"
    question_field: Annotated[str | None, Option(metavar="FIELD", help=_FIELDS)] = None
    response_field: Annotated[str | None, Option(metavar="FIELD", help=_FIELDS)] = None
    reference_field: Annotated[str | None, Option(metavar="FIELD", help=_FIELDS)] = None
    id_field: Annotated[str | None, Option(metavar="FIELD", help=_FIELDS)] = None
    requests: Annotated[
        str | None, Reads(), Option(metavar="FILE", help="The prompts, where the input is a log of replies alone.")
    ] = None
    max_line: Annotated[
        int, Rare(), Option(min=1, max=100_000, metavar="MB", help="Longest line; else a bad record.")
    ] = 64
    limit: Annotated[int | None, Option(min=1, metavar="N", help="Read the first N records.")] = None
    skip_invalid: Annotated[
        bool, Option("--skip-invalid", help="Skip and count bad records; exit with 3 if there were any.")
    ] = False

    def at(self, path: str | None) -> InputOptions:
        """Return the options with the input's path; with none, standard input if a pipe is there."""
        if path is None and (sys.stdin is None or sys.stdin.isatty()):
            raise UsageError("no input: give a file, or - or a pipe for standard input; -h shows examples")
        return replace(self, path=STDIN if path is None else path)


@dataclass(frozen=True)
class RecordOutput:
    """Where records go; None is standard output."""

    panel: ClassVar[str] = "Output"

    path: Annotated[str | None, Writes(), OUTPUT] = None
    force: Annotated[bool, Option("--force", help="Replace what the -o file holds."), Needs("--output")] = False

    def __post_init__(self) -> None:
        check_target(self.path, force=self.force)


def check_report(path: str | None, *other_kinds: str) -> None:
    """Refuse to put a report or a picture in the place of records, or under the name of another kind of file.

    Raises:
        UsageError: the file holds records, or its name ends as that of one of the other kinds does.
    """
    if path is None or path == STDIN:
        return
    if path.lower().endswith(other_kinds):
        raise UsageError(f"{path}: would hold no {path.rpartition('.')[2].upper()}: give a name with another ending")
    with suppress(OSError):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                line = file.readline(MAX_LINE)
                if line.startswith(b"{") and b'"tokur":' in line:
                    raise UsageError(f"{path}: holds records: move them away, or give another name")


@dataclass(frozen=True)
class ResumableOutput(RecordOutput):
    """Where records go that take long to compute."""

    resume: Annotated[
        bool,
        Option("--resume", help="Continue the -o file of a run that was cut off."),
        Needs("--output"),
        Excludes("--output=-", "--force"),
    ] = False
    dry_run: Annotated[bool, Option("--dry-run", help="Only count: records, bad ones, tokens, batches.")] = False

    def __post_init__(self) -> None:
        check_target(self.path, force=self.force, resume=self.resume)
