"""Where a command's input comes from."""

from __future__ import annotations

import math
import sys
from typing import Literal

from tokur_cli.records.errors import UsageError


def input_path(path: str | None) -> str:
    """Return the input's path; with none, standard input if a pipe is there."""
    if path is not None:
        return path
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("no input: give a file, or - or a pipe for standard input")
    return "-"


def sigma_of(text: str | None) -> float | Literal["auto"] | None:
    """Return a strength as the user typed it: a number from 0, ``auto``, or nothing."""
    if text is None:
        return None
    return "auto" if text == "auto" else _strength(text, "--sigma", ", or auto")


def sigmas_of(text: str | None) -> tuple[float, ...]:
    """Return the strengths of a comma-separated list."""
    return () if text is None else tuple(_strength(item.strip(), "--sweep") for item in text.split(","))


def _strength(text: str, option: str, otherwise: str = "") -> float:
    try:
        sigma = float(text)
    except ValueError:
        sigma = math.nan
    if not (math.isfinite(sigma) and sigma >= 0):
        raise UsageError(f'{option} has "{text}"; it must be a number from 0{otherwise}')
    return sigma
