"""Progress on standard error: a bar with tokens a second and the time left, on a terminal only."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tokur_cli.commands.shared.errors import say
from tokur_cli.records.published.rows import is_published
from tokur_cli.records.streams import STDIN, is_regular_file

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """Counts records and tokens; silent where standard error is not a terminal.

    Args:
        command: name for messages.
        note: called with what the user should know, in a sentence; by default it is said on standard error.
    """

    def __init__(self, command: str, note: Callable[[str], None] | None = None) -> None:
        self.command = command
        self.note = note or partial(say, command)
        self.records = self.tokens = 0
        self._bar: Bar | None = None
        self._started = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is None:
            return
        self._bar.stop()
        seconds = time.perf_counter() - self._started
        if self.tokens:
            speed = self.tokens / seconds
            say(self.command, f"{self.records:,} records, {self.tokens:,} tokens in {seconds:.1f} s ({speed:,.0f}/s)")

    def say(self, message: str) -> None:
        """Tell what takes its time before the first record."""
        if sys.stderr.isatty():
            say(self.command, message)

    def start(self, total: int | None) -> None:
        """Show the bar of so many records to come; None if that cannot be known."""
        self._started = time.perf_counter()
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn(f"tokur {self.command}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            # A descriptor of its own: that of standard error leads elsewhere while a library is kept silent
            console=Console(file=os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding=sys.stderr.encoding)),
            transient=True,
            redirect_stdout=False,  # at its end it would put back what standard output was here: Ray's, closed by then
        )
        self._bar.add_task("", total=total, speed="")
        self._bar.start()

    def advance(self, records: int, tokens: int = 0) -> None:
        """Count what is done."""
        self.records += records
        self.tokens += tokens
        if self._bar is not None:
            rate = self.tokens / (time.perf_counter() - self._started)
            speed = f"{rate:,.0f} tokens/s" if self.tokens else ""
            self._bar.update(self._bar.task_ids[0], completed=self.records, speed=speed)


def count_lines(*paths: str) -> int | None:
    """Return the number of lines of plain files; None if one has none that can be counted: a pipe, a table."""
    counts = [_count_lines(path) for path in paths]
    return None if None in counts else sum(count or 0 for count in counts)


def _count_lines(path: str) -> int | None:
    if not sys.stderr.isatty() or path == STDIN or is_published(path) or not is_regular_file(path):
        return None
    try:
        with open(path, "rb") as stream:
            if stream.read(2) in (b"\x1f\x8b", b"\x28\xb5"):
                return None
            stream.seek(0)
            return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))
    except OSError:
        return None
