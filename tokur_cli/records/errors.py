"""The errors that a user can cause: each says what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterable

EXIT_SKIPPED, EXIT_INTERRUPTED = 3, 130


def there_are(names: Iterable[str], *unknown: str) -> str:
    """Return the end of a message about unknown names: those that are meant, perhaps, and those that there are."""
    from difflib import get_close_matches  # imported by errors alone

    known = list(names)
    meant = [name for given in unknown for name in get_close_matches(given, known, n=1, cutoff=0.7)]
    return (f"; did you mean {' and '.join(meant)}?" if meant else ";") + f" there are: {', '.join(known)}"


def count_of(number: int, noun: str) -> str:
    """Return how many there are of what a message is about: ``1 record``, ``2,000 records``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class TokurError(Exception):
    """A failure that the user can mend; its text is the whole message, without a traceback."""

    exit_code = 1


class UsageError(TokurError):
    """Options that cannot go together, or an input that is missing altogether."""

    exit_code = 2


class RecordError(TokurError):
    """One bad record, and its place as a ``Record`` has it; with ``--skip-invalid`` it is counted and passed over."""

    def __init__(self, message: str, source: str | None = None, line: int | None = None) -> None:
        where = "".join(f"{part}:" for part in (source, line) if part is not None)
        super().__init__(f"{where} {message}" if where else message)
        self.message, self.source, self.line = message, source, line
