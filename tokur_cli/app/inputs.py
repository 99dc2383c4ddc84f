"""The file that a command reads."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tokur_cli.commands.options.files import Reads
from tokur_cli.records.errors import UsageError
from tokur_cli.records.streams import STDIN

_FORMS = (
    "plain, gzip or zstd; - or nothing for standard input; or a .csv, .tsv, .parquet or .arrow file, a data set "
    "hf:NAME:SPLIT or a folder that save_to_disk wrote, tasks gym:TASK?size=N."
)
_INPUT = Reads(lambda given: [given] if isinstance(given, str) else given or [STDIN])
ScoredResponses = Annotated[str | None, _INPUT, typer.Argument(help=f"JSONL of scored responses, {_FORMS}")]
Responses = Annotated[str | None, _INPUT, typer.Argument(help=f"JSONL of responses, {_FORMS}")]
Questions = Annotated[str | None, _INPUT, typer.Argument(help=f"JSONL of questions, {_FORMS}")]
ScoredFiles = Annotated[
    list[str] | None,
    _INPUT,
    typer.Argument(
        help=f"JSONL of scored records, {_FORMS} Several files are several runs: mean ± standard deviation over them."
    ),
]
TrialResponses = Annotated[
    str | None,
    _INPUT,
    typer.Argument(help="JSONL of responses to try strengths on, for --sweep and --calibrate; - for standard input."),
]


def input_path(path: str | None) -> str:
    """Return the input's path; with none, standard input if a pipe is there.

    Raises:
        UsageError: there is neither.
    """
    if path is not None:
        return path
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("no input: give a file, or - or a pipe for standard input")
    return STDIN
