"""How a command ends: messages on standard error and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tokur_cli.records.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_SKIPPED, RecordError, TokurError


def say(command: str, message: str) -> None:
    """Write a message to standard error, in the name of the command; what records and names hold in it is harmless."""
    print(f"tokur {command}: {harmless(message)}", file=sys.stderr, flush=True)


def harmless(message: str) -> str:
    """Return a message without control codes, see ``indented``."""
    if message.isascii() and message.isprintable():  # then the module is not worth its import
        return message
    from tokur_cli.views.visible import indented

    return indented(message)


def exit_code(error: BaseException | None) -> int:
    """Return the exit code of a command that ends with this error, 0 with none."""
    if isinstance(error, TokurError):
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    return 0 if error is None or isinstance(error, BrokenPipeError) else EXIT_FAILED


def message_for(error: Exception) -> str:
    """Return the message for an error: for an error in the code, also how to find its place."""
    if isinstance(error, TokurError):
        return str(error)
    return f"{type(error).__name__}: {error} (TOKUR_DEBUG=1 shows where)"


@contextmanager
def reporting(command: str) -> Iterator[None]:
    """Turn whatever ends a command early into a message and an exit code.

    A closed pipe (``| head``) is a normal end. With TOKUR_DEBUG=1 errors keep their traceback.
    """
    debug = os.environ.get("TOKUR_DEBUG") == "1"
    try:
        yield
    except BrokenPipeError as error:
        _abandon_standard_output()
        raise SystemExit(exit_code(error)) from None
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            raise
        say(command, "interrupted" if isinstance(error, KeyboardInterrupt) else message_for(error))
        raise SystemExit(exit_code(error)) from None


def _abandon_standard_output() -> None:
    """Let the interpreter's last flush go nowhere rather than fail once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


class InvalidRecords:
    """What happens to bad records: without ``skip`` the first one ends the command, with it they are counted.

    Args:
        command: name for messages.
        skip: whether ``--skip-invalid`` was given.
    """

    def __init__(self, command: str, skip: bool) -> None:
        self.command, self.skip, self.count = command, skip, 0

    def skip_or_raise(self, error: RecordError) -> None:
        """Count a bad record and report it, or end the command.

        Raises:
            RecordError: the same, unless bad records are skipped.
        """
        if not self.skip:
            raise error
        self.count += 1
        say(self.command, str(error))

    def finish(self) -> None:
        """End the command with its own exit code if any record was skipped."""
        if self.count:
            say(self.command, f"skipped {self.count} invalid record{'s' if self.count > 1 else ''}")
            raise SystemExit(EXIT_SKIPPED)
