"""How a command ends: messages on standard error and exit codes."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeVar

from tokur_cli.engine.model.errors import is_panic
from tokur_cli.records.errors import EXIT_INTERRUPTED, EXIT_SKIPPED, RecordError, TokurError, count_of
from tokur_cli.records.outputs import STANDARD_OUTPUT, naming

T = TypeVar("T")


def claim_standard_streams() -> None:
    """Lead closed standard streams to nowhere, before a file gets the number of one and is written by mistake.

    What goes to standard error is lost then, and writing to standard output fails.
    """
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest number that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def say(command: str, message: str) -> None:
    """Write a message to standard error, in the name of the command; what records and names hold in it is harmless."""
    if not (message.isascii() and message.isprintable()):  # else the module is not worth its import
        from tokur_cli.views.visible import indented

        message = indented(message)
    try:
        print(f"tokur {command}".rstrip() + f": {message}", file=sys.stderr, flush=True)
    except OSError:  # nobody reads it any more, or its disk is full, which is no reason to end the work
        _release(sys.stderr)


def _ending(error: BaseException) -> tuple[str, int]:
    """Return the message and the exit code of a command that ends with an error: of the code, how to find its place."""
    if isinstance(error, TokurError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return ": ".join(["interrupted", *error.args]), EXIT_INTERRUPTED
    if isinstance(error, FileNotFoundError) and not error.filename and os.stat(".").st_nlink == 0:
        return "the folder in which it was started is no longer there: start it in another", TokurError.exit_code
    return f"{type(error).__name__}: {error} (TOKUR_DEBUG=1 shows where)", TokurError.exit_code


@contextmanager
def reporting(command: str) -> Iterator[None]:
    """Turn whatever ends a command early into a message and an exit code.

    A closed pipe (``| head``) is a normal end. With TOKUR_DEBUG=1 errors keep their traceback. Ctrl-C ends a
    process at once while it starts or ends (``command`` is empty then); within a command it is an error like others.
    """
    debug = os.environ.get("TOKUR_DEBUG") == "1"
    starting = command != "" and signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    ended = None
    try:
        if starting:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # click ends so where nobody reads the help
                raise end.__context__ from None
            ended = end
        with naming(STANDARD_OUTPUT):
            sys.stdout.flush()  # when the interpreter does it, it is too late for a message
    except BaseException as error:
        expected = isinstance(error, (Exception, KeyboardInterrupt)) or is_panic(error)
        is_closed = isinstance(error, BrokenPipeError)
        if not expected or (debug and not is_closed):
            raise
        _release(sys.stdout)
        if is_closed:
            raise SystemExit(0) from None
        message, code = _ending(error)
        say(command, message)
        raise SystemExit(code) from None
    finally:
        if starting:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    if ended is not None:
        raise ended


def _release(stream: TextIO) -> None:
    """Let what cannot be written go nowhere: the interpreter's last flush must not fail once more."""
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())


class InvalidRecords:
    """What happens to bad records: without ``skip`` the first one ends the command, with it they are counted.

    The first of each kind of fault is said at once, the number of the others at the end. From Python, where there is no
    such option, ``skip`` is None.
    """

    def __init__(self, command: str, skip: bool | None) -> None:
        self.command, self.skip = command, skip
        self._met = 0
        self._kinds: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many records were bad."""
        return self._kinds.total()

    def skip_or_raise(self, error: RecordError) -> None:
        """Count a bad record and report it, or end the command."""
        if not self.skip:
            if self.skip is False and self._met > 1:  # what the first one lacks, all of them may lack
                message = f"{error.message}; --skip-invalid leaves such records out"
                raise RecordError(message, error.source, error.line) from None
            raise error
        self._kinds[error.message] += 1
        if self._kinds[error.message] == 1:
            say(self.command, str(error))

    def good(self, items: Iterable[T | RecordError]) -> Iterator[T]:
        """Yield the items without the bad records."""
        for item in items:
            self._met += 1
            if isinstance(item, RecordError):
                self.skip_or_raise(item)
            else:
                yield item

    def finish(self, *, none_of: str | None = None) -> None:
        """End the command with its own exit code if any record was skipped; say what input had no good one."""
        for message, count in self._kinds.items():
            if count > 1:
                say(self.command, f"and {count - 1:,} more with the same reason: {message}")
        if none_of is not None and not self.count:
            say(self.command, f"{none_of}: holds no records")
        if self.count:
            none_left = ": none was left" if none_of is not None else ""
            say(self.command, f"skipped {count_of(self.count, 'invalid record')}{none_left}")
            raise SystemExit(EXIT_SKIPPED)
