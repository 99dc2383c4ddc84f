"""The requests that rows answer: a batch's are found by their id and read when needed, others come in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.record import Record
from tokur_cli.records.streams import BOM, MAX_LINE, display_name, open_input, read_lines, seekable, too_long


@dataclass(frozen=True)
class RequestFile:
    """A file of requests, which a format opens in the way in which it joins them with the rows.

    Attributes:
        name: the file's name, for messages.
        by_id: finds requests by their id.
        in_order: yields them, in whatever format they are.
        counts: tells how many rows and how many requests there are; None where that cannot be known beforehand.
    """

    name: str
    by_id: Callable[[], Requests]
    in_order: Callable[[], Iterator[Record | RecordError]]
    counts: Callable[[], tuple[int, int] | None]


class Requests:
    """A batch's input file. Only the place of each request is held, since batches are large and answers unordered."""

    def __init__(self, file: BinaryIO, name: str, places: dict[str, tuple[int, int]]) -> None:
        self.name = name
        self._file = file
        self._places = places  # by custom_id: offset and line number

    @classmethod
    @contextmanager
    def open(cls, path: str, max_line: int = MAX_LINE) -> Iterator[Requests]:
        """Open a file of requests and find where each is.

        Raises:
            TokurError: it cannot be read, holds a line that is too long or not a request, or two requests with one id.
        """
        name = display_name(path)
        with open_input(path) as stream, seekable(stream, name, max_line) as file:
            places: dict[str, tuple[int, int]] = {}
            for number, offset, line in read_lines(file, name, max_line):
                if line is None:
                    raise TokurError(f"{name}:{number}: {too_long(max_line)}")
                identity = _identity(line, name, number)
                if identity in places:
                    raise TokurError(
                        f"{name}:{number}: a second request with custom_id {identity!r}; the first is on line "
                        f"{places[identity][1]}"
                    )
                places[identity] = (offset, number)
            yield cls(file, name, places)

    def find(self, identity: str) -> Record | None:
        """Return the request with this id, if there is one."""
        if identity not in self._places:
            return None
        offset, number = self._places[identity]
        self._file.seek(offset)
        return Record.parse(self._file.readline().removeprefix(BOM), self.name, number)


def _identity(line: bytes, name: str, number: int) -> str:
    try:
        return Record.parse(line, name, number).text("custom_id")
    except RecordError as error:
        raise TokurError(f"{error}; is this the batch's input file?") from None
