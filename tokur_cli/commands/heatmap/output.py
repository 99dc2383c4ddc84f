"""Where pictures as text go: standard output, on a terminal with a pager for long ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from tokur_cli.records.outputs import STANDARD_OUTPUT, in_utf8, naming


class _Console(Console):
    """A console that leaves a closed pipe to the command, where rich's own ends the process with exit code 1."""

    def on_broken_pipe(self) -> None:
        """Raise the error that rich is handling where it calls this."""
        raise


@contextmanager
def picture_console() -> Iterator[Console]:
    """Give a console for a picture on standard output, in UTF-8; on a terminal through PAGER, or less.

    PAGER="" is no pager. rich finds the width and the colours; it heeds COLUMNS, NO_COLOR and FORCE_COLOR.
    """
    with naming(STANDARD_OUTPUT):
        console = _Console(file=in_utf8(sys.stdout), legacy_windows=False, markup=False, emoji=False, highlight=False)
        if sys.stdout.isatty() and os.environ.get("PAGER") != "":
            # less: end at once if it fits on the screen, let colours through, leave the text on the screen
            os.environ.setdefault("LESS", "FRX")
            with console.pager(styles=True):
                yield console
        else:
            yield console
        sys.stdout.flush()


def has_steps(console: Console) -> bool:
    """Return whether a console has colours enough for the eight steps.

    The 16 colours of a terminal do not: users repaint them, and rich's choice among them has text that cannot be read.
    """
    return not console.no_color and console.color_system in ("truecolor", "256")
