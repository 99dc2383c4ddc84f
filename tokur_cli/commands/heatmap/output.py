"""Where pictures as text go: a terminal, with a pager for long ones, or a standard stream."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console

from tokur_cli.records.outputs import STANDARD_OUTPUT, in_utf8, naming
from tokur_cli.views.heatmap.style import heatmap_console

_DEFAULT_COLUMNS = 80


def columns_of(stream: TextIO, default: int = _DEFAULT_COLUMNS) -> int:
    """Return the width to draw for: COLUMNS if it is set, else the terminal's, else the default."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or default
    except (OSError, ValueError):  # no terminal, or no file at all
        return default


@contextmanager
def picture_console(stream: TextIO) -> Iterator[Console]:
    """Give a console for a picture on standard output or error, in UTF-8; on a terminal through PAGER, or less.

    PAGER="" is no pager.
    """
    with naming(STANDARD_OUTPUT if stream is sys.stdout else "standard error"):
        console = heatmap_console(in_utf8(stream), columns_of(stream))
        if stream is sys.stdout and stream.isatty() and os.environ.get("PAGER") != "":
            # less: end at once if it fits on the screen, let colours through, leave the text on the screen
            os.environ.setdefault("LESS", "FRX")
            with console.pager(styles=True):
                yield console
        else:
            yield console
        stream.flush()
