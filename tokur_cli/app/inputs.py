"""Where a command's input comes from."""

from __future__ import annotations

import sys

from tokur_cli.records.errors import UsageError


def input_path(path: str | None) -> str:
    """Return the input's path; with none, standard input if a pipe is there."""
    if path is not None:
        return path
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("no input: give a file, or - or a pipe for standard input")
    return "-"
