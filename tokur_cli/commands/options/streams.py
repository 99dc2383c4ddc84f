"""Where records come from and where they go, or whether only what would be read is counted."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Annotated, ClassVar

from typer import Option

from tokur_cli.commands.options.marks import Excludes, Needs, Rare, Reads, Writes
from tokur_cli.records.errors import UsageError
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.outputs import check_target

_FIELDS = "Where question, response, reference and id stand (a.b.0 reaches into objects and lists)."


@dataclass(frozen=True)
class InputOptions:
    """How records are read and what is done about bad ones.

    ``path`` is the command's argument; ``asked`` is a question that stands in its place.
    """

    panel: ClassVar[str] = "Input"

    path: str = "-"
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
        str | None, Reads(), Option(metavar="FILE", help="File of the requests that the input answers.")
    ] = None
    max_line: Annotated[str, Rare(), Option(metavar="SIZE", help="Longest line; a longer one is a bad record.")] = (
        "64MB"
    )
    limit: Annotated[int | None, Option(min=1, metavar="N", help="Read the first N records.")] = None
    skip_invalid: Annotated[bool, Option("--skip-invalid", help="Count bad records, go on, exit with 3.")] = False

    @property
    def max_line_bytes(self) -> int:
        """The longest line in bytes."""
        found = re.fullmatch(r"(\d{1,12})\s*([kMG]?)B?", self.max_line.strip(), re.ASCII | re.IGNORECASE)
        if found is None or int(found[1]) == 0:
            raise UsageError(f"--set max_line={self.max_line}: is not a number of bytes, such as 64MB or 1GB")
        return min(int(found[1]) * {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}[found[2].lower()], sys.maxsize - 1)

    @property
    def form(self) -> str:
        """The format's name."""
        return "lm-eval" if self.filter else self.format

    @property
    def filter(self) -> str | None:
        """The filter of lm-evaluation-harness whose rows are read; None for the first of each response."""
        name, _, filter = self.format.partition(":")
        return filter if name == "lm-eval" and filter else None

    @property
    def mapping(self) -> FieldMapping:
        """The fields that the user named."""
        return FieldMapping(self.question_field, self.response_field, self.reference_field, self.id_field)


@dataclass(frozen=True)
class RecordOutput:
    """Where records go; None is standard output."""

    panel: ClassVar[str] = "Output"

    path: Annotated[
        str | None, Writes(), Option("--output", "-o", metavar="FILE", help="Write a file, not standard output.")
    ] = None
    force: Annotated[bool, Option("--force", help="Replace what the -o file holds.")] = False

    def __post_init__(self) -> None:
        check_target(self.path, force=self.force)


@dataclass(frozen=True)
class ResumableOutput(RecordOutput):
    """Where records go that take long to compute."""

    resume: Annotated[
        bool,
        Option("--resume", help="Continue the -o file of a run that was cut off."),
        Needs("--output"),
        Excludes("--output=-", "--force"),
    ] = False

    def __post_init__(self) -> None:
        check_target(self.path, force=self.force, resume=self.resume)


@dataclass(frozen=True)
class DryRunOptions:
    """Whether it is only said what a run would read."""

    panel: ClassVar[str] = "Output"

    dry_run: Annotated[bool, Option("--dry-run", help="Only count: records, bad ones, tokens, batches.")] = False
