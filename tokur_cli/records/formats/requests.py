"""The requests that rows answer: a batch's are found by their id, others come in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record


@dataclass(frozen=True)
class RequestFile:
    """A file of requests, which a format reads in the way in which it joins them with the rows.

    Attributes:
        name: the file's name, for messages.
        in_order: yields the records of the file, in whatever format they are.
        rows: yields its rows as they stand there.
        counts: tells how many rows and how many requests there are; None where that cannot be known beforehand.
    """

    name: str
    in_order: Callable[[], Iterator[Record | RecordError]]
    rows: Callable[[], Iterator[Record | RecordError]]
    counts: Callable[[], tuple[int, int] | None]

    def by_id(self) -> dict[str, Record]:
        """Return a batch's requests by their ``custom_id``.

        Raises:
            TokurError: the file cannot be read, holds a row that is not a request, or two requests with one id.
        """
        requests: dict[str, Record] = {}
        for row in self.rows():
            try:
                if isinstance(row, RecordError):
                    raise row
                identity = row.text("custom_id")
            except RecordError as error:
                raise TokurError(f"{error}; is this the batch's input file?") from None
            if identity in requests:
                raise TokurError(
                    f"{self.name}:{row.line}: a second request with custom_id {identity!r}; the first is on line "
                    f"{requests[identity].line}"
                )
            requests[identity] = row
        return requests
