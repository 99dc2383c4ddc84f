"""Files of rows: JSON lines, a JSON array, or what a format has of its own."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from tokur_cli.records.elements import array_elements
from tokur_cli.records.errors import RecordError, TokurError
from tokur_cli.records.formats import FORMATS
from tokur_cli.records.formats.adapting import Note
from tokur_cli.records.record import Record
from tokur_cli.records.streams import BOM, MAX_LINE, read_lines, too_long

_ARRAY = re.compile(rb"\s*\[\s*(\{|\Z|\]\s*\Z)")
_TABLES = ((b"PAR1", "a Parquet", ".parquet"), (b"ARROW1", "an Arrow", ".arrow"))
_CSV_HEADER = re.compile(rb'("?[\w .-]*"?)([,;\t]"?[\w .-]+"?)+')
_COLUMNS = {b"question", b"prompt", b"response", b"answer", b"input", b"output", b"reference", b"text", b"id", b"label"}


def read_rows(
    stream: io.BufferedReader, source: str, max_line: int = MAX_LINE, note: Note = lambda words: None
) -> Iterator[Record | RecordError]:
    """Read a file's rows, whatever way it holds them: lines, an array's elements, what a format's own files hold.

    Args:
        stream: the file's bytes.
        source: the file's name, for messages.
        max_line: the longest row in bytes.
        note: called with what is to be said of the file.

    Yields:
        Records, and errors in the place of rows that are not records or too long. The line of an array's element
        is the one on which it begins, and its source names its index.

    Raises:
        TokurError: the file as a whole cannot be read.
    """
    head = stream.peek().removeprefix(BOM)
    for magic, form, ending in _TABLES:
        if head.startswith(magic):
            raise TokurError(f"{source}: is {form} file: give it by a name that ends in {ending}")
    containers = (container for form in FORMATS.values() for container in form.containers)
    container = next((container for container in containers if container.recognises(head)), None)
    if container is not None:
        for name, line, text in container.rows(stream, source, max_line, note):
            yield _parse(text, name, line, max_line)
    elif _ARRAY.match(head):
        for index, (line, text) in enumerate(array_elements(stream, source, None, max_line)):
            yield _parse(text, f"{source}[{index}]", line, max_line)
    else:
        yield from _read_json_lines(stream, source, max_line)


def _hint(line: bytes | None) -> str:
    """Return the end of the message about a file's first line: what the file may be, and how it becomes JSON lines."""
    line = (line or b"").removeprefix(BOM).strip()
    if line == b"{":
        return "; each record is one line: jq -c . puts an object on one, jq -c '.results[]' each of the rows in it"
    cells = [cell.strip(b'"').lower() for cell in re.split(rb"[,;\t]", line)]
    if len(cells) > 1 and _CSV_HEADER.fullmatch(line) and not _COLUMNS.isdisjoint(cells):
        return "; it looks like CSV, which is read by a name that ends in .csv, with commas, or in .tsv, with tabs"
    return ""


def _read_json_lines(stream: io.BufferedReader, source: str, max_line: int) -> Iterator[Record | RecordError]:
    for number, _, line in read_lines(stream, source, max_line):
        row = _parse(line, source, number, max_line)
        if number == 1 and isinstance(row, RecordError):
            row = RecordError(row.message + _hint(line), source, number)
        yield row


def _parse(text: bytes | None, source: str, line: int, max_line: int) -> Record | RecordError:
    if text is None:
        return RecordError(too_long(max_line), source, line)
    try:
        return Record.parse(text, source, line)
    except RecordError as error:
        return RecordError(error.message, source, line)  # the one that was raised holds the text it is about
