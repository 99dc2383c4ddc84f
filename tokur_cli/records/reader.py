"""Records in: from any file, in any format, one at a time, errors included."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

import jsonlines

from tokur_cli.records.arrays import array_elements, object_values
from tokur_cli.records.encoding import not_utf8, parse_json
from tokur_cli.records.errors import RecordError, TokurError, UsageError, there_are
from tokur_cli.records.formats import FORMATS, NATIVE, Format, Given, recognise
from tokur_cli.records.formats.base import Adapter, Note
from tokur_cli.records.formats.everyday import complete, split
from tokur_cli.records.formats.requests import RequestFile
from tokur_cli.records.mapping import FieldMapping
from tokur_cli.records.published.rows import is_published, published_rows, records_of
from tokur_cli.records.record import Record
from tokur_cli.records.streams import (
    BOM,
    MAX_LINE,
    STDIN,
    BoundedLines,
    display_name,
    is_regular_file,
    open_input,
    too_long,
)

AUTO = "auto"
_ARRAY = re.compile(rb"\s*\[\s*(\{|\Z|\]\s*\Z)")
_NUMBERED = re.compile(rb'\s*\{\s*"\d+"\s*:\s*\{')  # an object of rows by their numbers, as OpenCompass writes
_TABLES = ((b"PAR1", "a Parquet", ".parquet"), (b"ARROW1", "an Arrow", ".arrow"))
_CSV_HEADER = re.compile(rb'("?[\w .-]*"?)([,;\t]"?[\w .-]+"?)+')
_COLUMNS = {b"question", b"prompt", b"response", b"answer", b"input", b"output", b"reference", b"text", b"id", b"label"}


def _unsaid(_: str) -> None:
    """Say nothing."""


def read_records(
    path: str,
    *,
    format: str = AUTO,
    mapping: FieldMapping = FieldMapping(),  # noqa: B008 - immutable
    requests: str | None = None,
    filter: str | None = None,
    max_line: int = MAX_LINE,
    note: Note = _unsaid,
) -> Iterator[Record | RecordError]:
    """Read records one at a time.

    A row that tokur wrote (it has a ``tokur`` object) is taken as it is in every format.

    Args:
        path: a file's name, or one that ``published_rows`` takes; ``-`` is standard input.
        format: a name from ``FORMATS``; ``auto`` goes by the first row's fields.
        mapping: where fields stand that the format does not tell.
        requests: the file of the requests that the rows answer, for formats that keep the prompts there.
        filter: the filter whose rows are read, for formats that have a row for each of several.
        max_line: the longest row in bytes; a longer one is an error in its place.
        note: called with what is to be said of the input, such as rows that were passed over.

    Yields:
        Records, and for each bad row an error in its place, so that one bad row never ends the stream.

    Raises:
        UsageError: there is no such format; while iterating: the format takes no requests, or has no such filter.
        TokurError: while iterating: a file as a whole cannot be read.
    """
    if format != AUTO and format not in FORMATS:
        raise UsageError(f"--format {format}: there is no such format{there_are([AUTO, *FORMATS], format)}")
    if requests == path == STDIN:
        raise UsageError("records and --requests cannot both be read from standard input")

    def read() -> Iterator[Record | RecordError]:
        asked = None if requests is None else RequestFile(display_name(requests), in_order, by_id, counts)
        rows = read_rows(path, max_line, note)
        yield from _adapted(rows, display_name(path), FORMATS.get(format), mapping, Given(asked, filter), note)

    def in_order() -> Iterator[Record | RecordError]:
        return read_records(str(requests), max_line=max_line)

    def by_id() -> Iterator[Record | RecordError]:
        return read_rows(str(requests), max_line)

    def counts() -> tuple[int, int] | None:
        names = (path, str(requests))
        if not all(map(is_regular_file, names)):
            return None
        rows, asked = (sum(1 for _ in read_rows(name, max_line)) for name in names)
        return rows, asked

    return read()


def read_rows_of(rows: Iterable[Any], source: str, note: Note = _unsaid) -> Iterator[Record | RecordError]:
    """Read records as :func:`read_records` does, from rows of Python."""
    return _adapted(records_of(enumerate(rows, start=1), source), source, None, FieldMapping(), Given(), note)


def read_rows(path: str, max_line: int = MAX_LINE, note: Note = _unsaid) -> Iterator[Record | RecordError]:
    """Read a file's rows, whatever way it holds them: lines, an array's or an object's values, what a format has.

    Args:
        path: a file's name, or one that ``published_rows`` takes; ``-`` is standard input.
        max_line: the longest row in bytes.
        note: called with what is to be said of the file.

    Yields:
        Records, and errors in the place of rows that are not records or too long. The line of an array's element
        is the one on which it begins, and its source names its index.

    Raises:
        TokurError: the file as a whole cannot be read.
    """
    if is_published(path):
        yield from published_rows(path, max_line)
        return
    source = display_name(path)
    with open_input(path) as stream:
        head = stream.peek().removeprefix(BOM)
        for magic, form, ending in _TABLES:
            if head.startswith(magic):
                raise TokurError(f"{source}: is {form} file: give it by a name that ends in {ending}")
        containers = (container for form in FORMATS.values() for container in form.containers)
        container = next((container for container in containers if container.recognises(head)), None)
        if container is not None:
            said = lambda words: note(f"{source}: {words}")  # noqa: E731
            for name, line, text in container.rows(stream, source, max_line, said):
                yield _parsed(text, name, line, max_line)
        elif _ARRAY.match(head):
            for index, (line, text) in enumerate(array_elements(stream, source, None, max_line)):
                yield _parsed(text, f"{source}[{index}]", line, max_line)
        elif _NUMBERED.match(head):
            for line, name, text in object_values(stream, source, max_line):
                yield _parsed(text, f"{source}[{name}]", line, max_line)
        else:
            yield from _read_json_lines(stream, source, max_line)


def _read_json_lines(stream: io.BufferedReader, source: str, max_line: int) -> Iterator[Record | RecordError]:
    lines = BoundedLines(stream, source, max_line)
    reader = jsonlines.Reader(lines, loads=parse_json)
    while True:
        try:
            row: Any = reader.read(allow_none=True)
            yield Record(row, source, lines.number, lines.size)
        except EOFError:
            return
        except RecordError as error:
            yield error
        except jsonlines.InvalidLineError as error:
            cause = error.__cause__
            message = not_utf8(cause) if isinstance(cause, UnicodeDecodeError) else str(cause)
            hint = _hint(error.line) if lines.number == 1 else ""
            yield RecordError(message + hint, source, lines.number)


def _hint(line: str | bytes) -> str:
    """Return the end of the message about a file's first line: what the file may be, and how it becomes JSON lines."""
    line = (line if isinstance(line, bytes) else line.encode()).removeprefix(BOM).strip()
    if line == b"{":
        return "; each record is one line: jq -c . puts an object on one, jq -c '.results[]' each of the rows in it"
    cells = [cell.strip(b'"').lower() for cell in re.split(rb"[,;\t]", line)]
    if len(cells) > 1 and _CSV_HEADER.fullmatch(line) and not _COLUMNS.isdisjoint(cells):
        return "; it looks like CSV, which is read by a name that ends in .csv, with commas, or in .tsv, with tabs"
    return ""


def _parsed(text: bytes | None, source: str, line: int, max_line: int) -> Record | RecordError:
    if text is None:
        return RecordError(too_long(max_line), source, line)
    try:
        return Record.parse(text, source, line)
    except RecordError as error:
        return error.with_traceback(None)


def _adapted(
    rows: Iterable[Record | RecordError],
    source: str,
    form: Format | None,
    mapping: FieldMapping,
    given: Given,
    note: Note,
) -> Iterator[Record | RecordError]:
    adapter: Adapter | None = None
    is_mapped, count = mapping != FieldMapping(), 0
    for position, row in enumerate(rows):
        count += 1
        if isinstance(row, RecordError):
            yield row
            continue
        if form is None or adapter is None:
            form = form or recognise(row.fields)
            _check_given(form, given, source)
            adapter = form.new_adapter(given)
        try:
            is_ours = NATIVE.recognises(row.fields)
            holds_samples = form.holds_samples and not (is_ours and mapping.response is None)
            for one in split(row, mapping.response) if holds_samples else [row]:
                for record in [one] if is_ours else adapter.read(one, position):
                    yield _completed(record, mapping if is_mapped else None)
        except RecordError as error:
            yield error
    for words in adapter.finish(count) if adapter else ():
        note(f"{source}: {words}")


def _check_given(form: Format, given: Given, source: str) -> None:
    """Refuse what rows of this format have no use for."""
    if given.requests is not None and not form.takes_requests:
        raise UsageError(f"--requests: {source} is in the format {form.name}, which has its own prompts")
    if given.filter is not None and not form.takes_filter:
        raise UsageError(f"{source}: rows of the format {form.name} are of no filters")


def _completed(record: Record | RecordError, mapping: FieldMapping | None) -> Record | RecordError:
    """Return a record with what the user's fields and those of everyday names say."""
    try:
        if isinstance(record, RecordError):
            return record
        return complete(record if mapping is None else mapping.apply(record))
    except RecordError as error:
        return error
