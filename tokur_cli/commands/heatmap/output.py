"""Where pictures as text go: a terminal, with a pager for long ones, or a standard stream."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TextIO

from tokur_cli.records.outputs import STANDARD_OUTPUT, in_utf8, naming

_DEFAULT_COLUMNS = 80


def columns_of(stream: TextIO) -> int:
    """Return the width to draw for: COLUMNS if it is set, else the terminal's, else 80."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_COLUMNS
    except (OSError, ValueError):  # no terminal, or no file at all
        return _DEFAULT_COLUMNS


@contextmanager
def standard_picture(stream: TextIO, use_pager: bool) -> Iterator[IO[str]]:
    """Give the stream for a picture: standard output or error in UTF-8, through a pager where someone reads it.

    The encoding does not follow the locale: a heat map's signs and a model's text need UTF-8, and
    records are UTF-8 too.

    Args:
        stream: standard output or standard error.
        use_pager: whether to page what goes to a terminal on standard output.
    """
    command = _pager() if use_pager and stream is sys.stdout and stream.isatty() else None
    if command is None:
        with naming(STANDARD_OUTPUT if stream is sys.stdout else "standard error"):
            yield in_utf8(stream)
            stream.flush()
    else:
        with _paged(command) as pipe:
            yield pipe


def _pager() -> list[str] | None:
    """Return the command of PAGER, or less; None where there is none, or a terminal that no pager can control."""
    command = shlex.split(os.environ.get("PAGER", "less"))
    if not command or command == ["cat"] or os.environ.get("TERM") == "dumb" or shutil.which(command[0]) is None:
        return None
    return command


@contextmanager
def _paged(command: Sequence[str]) -> Iterator[IO[str]]:
    # less: end at once if it fits on the screen, let colours through, leave the text on the screen
    environment = {"LESS": "FRX", "LESSCHARSET": "utf-8", **os.environ}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
    # Ctrl-C is the pager's: it stops a search there, and must not leave the terminal to two programs
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError), io.TextIOWrapper(process.stdin, encoding="utf-8", newline="\n") as pipe:
            yield pipe  # a pipe that breaks has a reader who has seen enough
    finally:
        process.wait()
        signal.signal(signal.SIGINT, before)
