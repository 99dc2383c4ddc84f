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
    if text is None or text == "auto":
        return text  # type: ignore[return-value]
    try:
        sigma = float(text)
    except ValueError:
        sigma = math.nan
    if not (math.isfinite(sigma) and sigma >= 0):
        raise UsageError(f"--sigma is {text}; it must be a number from 0, or auto")
    return sigma


def sigmas_of(text: str | None) -> tuple[float, ...]:
    """Return the strengths of a comma-separated list."""
    sigmas = [sigma_of(item.strip()) for item in text.split(",")] if text is not None else []
    numbers = tuple(sigma for sigma in sigmas if isinstance(sigma, float))
    if len(numbers) < len(sigmas):
        raise UsageError(f"--sweep is {text}; it must be numbers, with commas between them")
    return numbers
