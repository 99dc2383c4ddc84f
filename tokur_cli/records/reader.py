"""Records in: from a file or standard input, one at a time, errors included."""

from __future__ import annotations

from collections.abc import Iterator

from tokur_cli.records.errors import RecordError
from tokur_cli.records.record import Record
from tokur_cli.records.streams import display_name, open_input, read_lines


def read_records(path: str) -> Iterator[Record | RecordError]:
    """Reads records one at a time.

    Args:
        path: a file's name; ``-`` is standard input.

    Yields:
        Records, and for each bad line an error in its place, so that one bad line never ends the stream.

    Raises:
        TokurError: the file as a whole cannot be read.
    """
    source = display_name(path)
    with open_input(path) as stream:
        for number, line in read_lines(stream):
            try:
                yield Record.parse(line, source, number)
            except RecordError as error:
                yield error
