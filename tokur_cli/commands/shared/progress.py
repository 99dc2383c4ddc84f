"""Progress on standard error: a bar on a terminal; in a log a line a minute, and none where less is enough."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from tokur_cli.commands.shared.errors import say
from tokur_cli.records.published import published_rows
from tokur_cli.records.streams import STDIN, file_id

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_LINE_SECONDS = 60.0  # between the lines of a log, and before the first
_BAR_SECONDS = 0.1


class Progress(AbstractContextManager["Progress"]):
    """Counts records and tokens; what a terminal shows at once, a log hears of when it takes long.

    ``tell`` takes what the user should know, in a sentence; by default it is said on standard error.
    """

    def __init__(self, command: str, tell: Callable[[str], None] | None = None) -> None:
        self.command = command
        self._tell = tell or partial(say, command)
        self._noted: set[str] = set()
        self.records = self.tokens = 0
        self._generated = self._passed = 0
        self._bar: Bar | None = None
        self._started = self._said = time.perf_counter()
        self._total: Callable[[], int | None] | None = None

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            if self.tokens:
                seconds = time.perf_counter() - self._started
                done = f"{self.records:,} records, {self.tokens:,} tokens in {seconds:.1f} s"
                say(self.command, f"{done} ({self.tokens / seconds:,.0f}/s)")

    def note(self, text: str) -> None:
        """Say what the user should know, once."""
        if text not in self._noted:
            self._noted.add(text)
            self._tell(text)

    def say(self, message: str) -> None:
        """Tell a terminal what takes its time before the first record."""
        if sys.stderr.isatty():
            say(self.command, message)

    def start(self, total: Callable[[], int | None]) -> None:
        """Show that records are to come; ``total`` returns how many, if known, and is called when it is told."""
        self._started = self._said = time.perf_counter()
        self._total = total
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        count = total()
        self._bar = Bar(
            TextColumn(f"tokur {self.command}"),
            BarColumn(bar_width=13),  # all of it in 80 columns
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            TextColumn("so far," if count else "so far"),
            *([TimeRemainingColumn(), TextColumn("left")] if count else []),
            # A descriptor of its own: that of standard error leads elsewhere while a library is kept silent
            console=Console(file=os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding=sys.stderr.encoding)),
            transient=True,
            redirect_stdout=False,  # at its end it would put back what standard output was here: Ray's, closed by then
        )
        self._bar.add_task("", total=count, speed="")
        self._bar.start()

    def advance(self, records: int, tokens: int = 0) -> None:
        """Count what is done."""
        self.records += records
        self.tokens += tokens
        self._show()

    def passed(self, records: int) -> None:
        """Count records that there were before: what they took tells nothing of those to come."""
        self._passed += records
        self.advance(records)

    def generated(self, tokens: int) -> None:
        """Count tokens of responses that are under way: they tell the rate before the first response is whole."""
        self._generated += tokens
        self._show()

    def _show(self) -> None:
        """Show what is done, of how many, at what rate, and for how long it will go on."""
        now = time.perf_counter()
        seconds, tokens = now - self._started, self._generated or self.tokens
        speed = f"{tokens / seconds:,.0f} tokens/s" if tokens else ""
        if self._bar is not None:
            if now - self._said >= _BAR_SECONDS:  # rich takes its time
                self._said = now
                task = self._bar.tasks[0]
                total = max(task.total, self.records) if task.total else None  # a line may hold several
                self._bar.update(task.id, total=total, completed=self.records, speed=speed)
        elif self._total is not None and now - self._said >= _LINE_SECONDS:
            self._said, total = now, self._total()
            total = max(total, self.records) if total else None
            said = [
                f"{self.records:,} {f'of {total:,} ' if total else ''}records",
                speed,
                f"{duration(seconds)} so far",
            ]
            if total and (done := self.records - self._passed):
                said.append(f"about {duration(seconds * (total - self.records) / done)} left")
            say(self.command, ", ".join(filter(None, said)))


def duration(seconds: float) -> str:
    """Return a time in words, as exactly as it matters."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{seconds / 3600:.1f} h"


def count_lines(*paths: str, limit: int | None = None) -> int | None:
    """Return the number of lines of plain files, or the limit; None where they cannot be counted: a pipe, a table."""
    count = 0
    for path in paths:
        if path == STDIN or published_rows(path) is not None or file_id(path) is None:
            return None
        try:
            with open(path, "rb") as stream:
                if stream.read(2) in (b"\x1f\x8b", b"\x28\xb5", b"PK"):
                    return None
                stream.seek(0)
                count += sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))
        except OSError:
            return None
    return min(count, limit or count) or None
